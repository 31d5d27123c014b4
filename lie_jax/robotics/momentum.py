"""Centre of mass and centroidal momentum of a mechanism."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics import body as rigid
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import gather, small
from lie_jax.robotics.arguments import is_flexible, of_an_instant
from lie_jax.systems.system import Configuration, Velocity


@of_an_instant
def center_of_mass(system: AbstractMultibodySystem, q: Configuration) -> Float[Array, "3"]:
    """Centre of mass (3,) of all bodies, flexible ones as they are deformed, inertial, m.

    Raises `ValueError` for `q` of another size than (nq,), and for mass between bodies
    (`Mechanism(inertias=)`).
    """
    _check_bodies(system)
    bodies = _bodies(system)
    if is_flexible(system):
        return _mass_moment(system, q) / jnp.sum(bodies.mass)
    rotation, position = system.poses(q)
    centers = position + jax.vmap(small.matvec)(rotation, bodies.center_of_mass)
    return jnp.sum(bodies.mass[:, None] * centers, axis=0) / jnp.sum(bodies.mass)


@of_an_instant
def center_of_mass_jacobian(
    system: AbstractMultibodySystem, q: Configuration
) -> Float[Array, "3 nv"]:
    """Jacobian (3, nv): the centre's velocity (m/s, inertial) is its product with v.

    Raises `ValueError` for `q` of another size than (nq,).
    """
    return centroidal_momentum_matrix(system, q)[:3] / jnp.sum(system.bodies.mass)


@of_an_instant
def centroidal_momentum(
    system: AbstractMultibodySystem, q: Configuration, v: Velocity
) -> Float[Array, "6"]:
    """Linear momentum (kg m/s), then angular momentum about the centre of mass (kg m²/s), inertial.

    Both have three components, and change by gravity and contacts alone. Rotor inertia of joints
    has no part in them. Raises `ValueError` for `q` and `v` of other sizes than (nq,) and (nv,),
    and for mass between bodies (`Mechanism(inertias=)`).
    """
    _check_bodies(system)
    if is_flexible(system):
        linear, angular = system.momentum(q, v)
        about_center = angular - small.cross(center_of_mass(system, q), linear)
        return jnp.concatenate([linear, about_center])
    rotation, position = system.poses(q)
    arm = position - center_of_mass(system, q)[None]
    twists = system.twists(q, v)
    velocity = jax.vmap(small.matvec)(rotation, twists[:, :3])
    momenta = jax.vmap(rigid.momentum)(_bodies(system), rotation, arm, velocity, twists[:, 3:])
    return jnp.sum(jnp.concatenate(momenta, axis=1), axis=0)


@of_an_instant
def centroidal_momentum_matrix(
    system: AbstractMultibodySystem, q: Configuration
) -> Float[Array, "6 nv"]:
    """Matrix (6, nv): the centroidal momentum is its product with v.

    Raises `ValueError` for `q` of another size than (nq,).
    """
    still = jnp.zeros(system.nv, q.dtype)
    return jax.jacrev(lambda v: centroidal_momentum(system, q, v))(still)


def _mass_moment(system: AbstractMultibodySystem, q: Configuration) -> Float[Array, "3"]:
    """Mass times place (3,) of all of it, inertial, kg m: what gravity multiplies in the energy."""

    def height(gravity: Float[Array, "3"]) -> Float[Array, ""]:
        return -eqx.tree_at(lambda s: s.gravity, system, gravity).potential_energy(q)

    return jax.grad(height)(system.gravity)


def _check_bodies(system: AbstractMultibodySystem) -> None:
    if getattr(system, "inertias", ()):
        raise ValueError(
            "centres of mass and centroidal momenta are those of bodies, and the mechanism has "
            "mass between its bodies, inertias=: take system.momentum(q, v), which has all of it."
        )


def _bodies(system: AbstractMultibodySystem) -> rigid.MassProperties:
    """Bodies in the mechanism's order, without frames inside joints."""
    return jax.tree.map(lambda x: gather.pick(system.slots, x), system.bodies)
