"""Steady motions: velocities that are constant in the coordinates of a space."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.multibody.absolute.system import RigidBodySystem
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.numerics import small
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import AbstractSystem, Configuration, Velocity


def check_twists(system: AbstractSystem) -> None:
    """Raise unless velocities of bodies are twists, which a steady rotation leaves constant."""
    if not isinstance(getattr(system, "formulation", None), SE3):
        raise ValueError(
            "equilibrium(rate=) needs velocities that are constant in a steady rotation: assemble "
            "the mechanism with lie_jax.SE3()."
        )


def rigid_rotation(
    system: RigidBodySystem, q: Configuration, rate: Float[Array, "3"]
) -> Float[Array, " nv"]:
    """Velocities of bodies that turn as one about the inertial origin; `rate` rad/s, inertial."""
    rotations, positions = system.poses(q)

    def body(rotation: Array, position: Array, q: Array) -> Array:
        linear, omega = small.cross(rate, position), small.matvec(rotation.T, rate)
        return system.formulation.velocity(rotation, q, linear, omega)

    of_bodies = jax.vmap(body)(rotations, positions, system.split(q)).reshape(-1)
    # Amplitudes are constant in a rotation of all as one.
    return jnp.pad(of_bodies, (0, system.nv - of_bodies.size))


def bracket(space: AbstractSpace, v: Velocity) -> Float[Array, "nv nv"]:
    """Matrix of x ↦ [v, x]: of a motion q∘x near one with the velocity v, δv = ẋ + [v, x].

    [v, x] = D T(0)[x] v - D T(0)[v] x by increments, in every chart.
    """

    def rate(increment: Array, along: Array) -> Array:
        return space.tangent_operator(space.rate_at_zero(increment), space.rate_at_zero(along))

    def column(x: Array) -> Array:
        none = jnp.zeros_like(v)
        change = jax.jvp(lambda increment: rate(increment, v), (none,), (x,))[1]
        return change - jax.jvp(lambda increment: rate(increment, x), (none,), (v,))[1]

    return jax.vmap(column, out_axes=1)(jnp.eye(space.nv, dtype=v.dtype))
