"""Forces as linear functions of masses, centres of mass and inertias."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.body import MassProperties, inertia_about_origin
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import gather
from lie_jax.robotics.arguments import is_flexible, of_an_instant
from lie_jax.systems.system import Configuration, Velocity

# Entries of a symmetric matrix: xx, xy, yy, xz, yz, zz.
_ROWS, _COLUMNS = np.asarray([[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]])


def inertial_parameters(system: AbstractMultibodySystem) -> Float[Array, " parameters"]:
    """Ten numbers of each body (10 N,), in the mechanism's order of bodies.

    Mass (kg), mass times centre of mass (3, kg m), and inertia about the body frame's origin: xx,
    xy, yy, xz, yz, zz (kg m²); in body axes, as in Pinocchio.
    """
    bodies = jax.tree.map(lambda x: gather.pick(system.slots, x), system.bodies)
    moments = jax.vmap(inertia_about_origin)(bodies.mass, bodies.inertia, bodies.center_of_mass)
    parts = bodies.mass[:, None], bodies.mass[:, None] * bodies.center_of_mass
    return jnp.concatenate([*parts, moments[:, _ROWS, _COLUMNS]], axis=1).reshape(-1)


@of_an_instant
def torque_regressor(
    system: AbstractMultibodySystem, q: Configuration, v: Velocity, acceleration: Velocity
) -> Float[Array, "nv parameters"]:
    """Matrix (nv, 10 N) of the forces M v̇ + C v + g as functions of the `inertial_parameters`.

    Its product with them is `inverse_dynamics` without the mechanism's forces but gravity and
    without rotor inertia of joints. Raises `ValueError` for `q`, `v` and `acceleration` of other
    sizes than (nq,), (nv,) and (nv,), and for flexible bodies, which ten numbers do not describe.
    """
    if is_flexible(system):
        raise ValueError(
            "torque_regressor(system=) has flexible bodies, of which ten numbers each do not tell "
            "the forces: take robotics.inverse_dynamics, or rigid bodies."
        )
    bare = dataclasses.replace(system, forces=())
    none = jnp.zeros(system.nc, q.dtype)

    def forces(parameters):
        bodies = _mass_properties(parameters.reshape(-1, 10))
        count = system.bodies.mass.shape[0]
        placed = jax.tree.map(lambda x: gather.add_up(system.slots, x, count), bodies)
        moved = dataclasses.replace(bare, bodies=placed)
        return moved.residual(0.0, q, v, acceleration, none, None)

    # The forces are linear: their derivative is the same everywhere. Here no mass is zero.
    unit = jnp.zeros((len(system.names), 10), q.dtype).at[:, 0].set(1.0)
    return jax.jacrev(forces)(unit.reshape(-1))


def _mass_properties(parameters: Float[Array, "bodies 10"]) -> MassProperties:
    mass, center = parameters[:, 0], parameters[:, 1:4] / parameters[:, :1]
    places = np.zeros((6, 3, 3))
    places[np.arange(6), _ROWS, _COLUMNS] = places[np.arange(6), _COLUMNS, _ROWS] = 1.0
    moments = jnp.tensordot(parameters[:, 4:], jnp.asarray(places, parameters.dtype), 1)
    return MassProperties(mass, moments + jax.vmap(_shift)(mass, center), center)


def _shift(mass: Array, center: Array) -> Array:
    """Inertia about the centre of mass less that about the origin."""
    return -inertia_about_origin(mass, jnp.zeros((3, 3), mass.dtype), center)
