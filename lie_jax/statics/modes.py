"""Natural frequencies and modes of systems about equilibria and steady motions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Inexact

from lie_jax import checks
from lie_jax.multibody import arguments
from lie_jax.numerics import lapack, rules, waits
from lie_jax.statics import pencils
from lie_jax.statics.linear import LinearMotion, linearize
from lie_jax.systems.system import AbstractSystem, State

# Smallest eigenvalue of a mass matrix with a unit diagonal, in units of rounding.
_MASSLESS = 10.0
# Damping forces relative to √(K M), and asymmetry of K, that count as none.
_CONSERVATIVE = 1e-9
# Least stiffness by which an asymmetry counts, relative to the largest stiffness.
_SOFTEST = 1e-5


class Modes(eqx.Module):
    """Motions exp(λ t) x near an equilibrium or a steady motion, by their frequencies.

    `frequencies`: |Im λ|, rad/s, ascending; `growth`: Re λ, 1/s, positive where the motion grows;
    `squares`: -Re λ², which is ω² of a system without damping, negative where it is unstable (its
    frequency is zero then); `shapes`: x (number, nv), increments with components of velocities,
    with x* M x = 1. They are complex of damped and turning systems.
    """

    frequencies: Float[Array, " number"]
    growth: Float[Array, " number"]
    squares: Float[Array, " number"]
    shapes: Inexact[Array, "number nv"]


@waits.announce("the modes")
def modes(
    system: AbstractSystem,
    state: State,
    *,
    number: int | None = None,
    t: ArrayLike = 0.0,
    inputs: ArrayLike | None = None,
    damped: bool | None = None,
) -> Modes:
    """Natural frequencies and modes about an equilibrium or a steady motion.

    **Arguments:**

    - `state`, `t`, `inputs`: see `lie_jax.linearize`.
    - `number`: of the lowest frequencies to return; by default all, which is one for each direction
      that constraints leave free, and more with `damped`.
    - `damped`: whether forces depend on velocities, by dampers or in steady rotations, or are not
      symmetric, as follower loads. By default the matrices decide; where JAX traces them it is
      False. Such modes have complex shapes. An overdamped or free direction has two rates of
      growth, which both count as modes: `number` may be up to twice the number of free directions,
      which is the default where JAX traces, and modes that do not exist are NaN.

    Without damping frequencies are those of a symmetric eigenvalue problem, and derivatives are
    right to any order where frequencies are simple; of equal frequencies each has a finite
    derivative, and the sum of their squares the right one. With `damped`, growth rates and
    frequencies have first derivatives, shapes none; the eigenvalue solver needs a CPU. The state
    moves with parameters if it is that of an `equilibrium` that depends on them. Free directions
    have frequencies or growth rates of the size of rounding. Matrices are dense, meant for some
    thousand velocities and, damped, some four hundred.

    Raises `ValueError` as `linearize`, for a direction without mass, and for `damped=False` where
    forces depend on velocities. Under `jax.jit` and other transformations the result is NaN then.
    """
    if damped is not None:
        checks.one_of("modes(damped=)", damped, (True, False))
    t, u = arguments.instant("modes", system, state, t, inputs)
    linear = linearize(system, state, t=t, inputs=u)
    calm, massless = _properties(linear)
    if not checks.has_tracers(massless) and int(massless) >= 0:
        raise ValueError(
            "modes(system=) has a direction without mass, which moves most "
            f"{system.owner(int(massless))}: give it a mass and an inertia, or hold it by a joint."
        )
    known = not checks.has_tracers(calm)
    if damped is None:
        damped = known and not bool(calm)
    if not damped and known and not bool(calm):
        raise ValueError(
            "modes(damped=) is False, but forces depend on velocities or are not symmetric: leave "
            "it out or set it to True."
        )
    free = linear.basis.shape[1]
    most = 2 * free if damped else free
    everything, number = number is None, most if number is None else number
    checks.positive_integer("modes(number=)", number, "the number of modes")
    if number > most:
        raise ValueError(
            f"modes(number=) is {number}; the system has {free} free directions: ask for as many."
        )
    result = _modes(linear, number, damped)
    valid = massless < 0 if damped else (massless < 0) & calm
    result = jax.tree.map(lambda x: jnp.where(valid, x, jnp.nan), result)
    if everything and not checks.has_tracers(result.frequencies):
        # Of each pair one counts, so that there is a mode for each free direction at least.
        there = max(free, int(jnp.sum(~jnp.isnan(result.frequencies))))
        result = jax.tree.map(lambda x: x[:there], result)
    return result


@eqx.filter_jit
def _properties(linear: LinearMotion) -> tuple[Bool[Array, ""], Array]:
    """Whether forces are conservative, and the equation that a direction without mass moves most,
    -1 without one.
    """
    linear = rules.stop_gradient(linear)
    mass, stiffness = linear.reduced_mass, linear.reduced_stiffness
    damping = linear.reduced_damping
    size = jnp.sqrt(jnp.max(jnp.abs(stiffness), axis=1) * jnp.max(jnp.abs(mass), axis=1))
    damps = jnp.abs(damping) > _CONSERVATIVE * jnp.sqrt(size[:, None] * size[None])
    # Rounding errors stand in the rows of free directions, and are not symmetric.
    softest = _SOFTEST * jnp.max(jnp.abs(stiffness), initial=0.0)
    rows = jnp.sqrt(jnp.maximum(jnp.max(jnp.abs(stiffness), axis=1), softest))
    tilts = jnp.abs(stiffness - stiffness.T) > _CONSERVATIVE * rows[:, None] * rows[None]
    calm = ~jnp.any(damps) & ~jnp.any(tilts)
    diagonal = jnp.diagonal(mass)
    scale = jnp.where(diagonal > 0.0, 1.0 / jnp.sqrt(jnp.where(diagonal > 0.0, diagonal, 1.0)), 1.0)
    least, directions = lapack.symmetric_eigen(mass * scale[:, None] * scale[None])
    small = least[0] <= _MASSLESS * mass.shape[0] * jnp.finfo(mass.dtype).eps
    moved = jnp.abs(linear.basis @ (scale * directions[:, 0]))
    return calm, jnp.where(small, jnp.argmax(moved), -1)


@eqx.filter_jit
def _modes(linear: LinearMotion, number: int, damped: bool) -> Modes:
    mass, stiffness, basis = linear.reduced_mass, linear.reduced_stiffness, linear.basis
    if damped:
        exponents = pencils.general(mass, linear.reduced_damping, stiffness, number)
        growth, frequencies = exponents.growth, exponents.frequencies
        shapes = rules.stop_gradient(basis).astype(exponents.motions.dtype) @ exponents.motions
        return Modes(frequencies, growth, frequencies**2 - growth**2, shapes.T)
    squares, motions = pencils.conservative(mass, stiffness)
    squares = squares[:number]
    shapes = _fix_signs(basis @ motions[:, :number])
    return Modes(_root(squares), _root(-squares), squares, shapes.T)


def _root(x: Array) -> Array:
    """√x for positive numbers, zero for others."""
    return jnp.where(x > 0.0, jnp.sqrt(jnp.where(x > 0.0, x, 1.0)), 0.0)


def _fix_signs(shapes: Any) -> Any:
    """Columns with the signs by which their largest entries are positive."""
    k = jnp.argmax(jnp.abs(shapes), axis=0)
    return shapes * jnp.sign(jnp.take_along_axis(shapes, k[None], axis=0))
