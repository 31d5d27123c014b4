"""Equilibria along growing and falling loads: the arc-length method."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from lie_jax import checks
from lie_jax.multibody import arguments
from lie_jax.numerics import newton, waits
from lie_jax.numerics.conversion import as_float
from lie_jax.statics.equations import EquilibriumEquations
from lie_jax.statics.equilibrium import EquilibriumError, equilibrium
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import snapshots

# Newton's steps of one step along the path; fewer than _EASY are followed by a longer one.
_ITERATIONS, _EASY = 12, 6
# Of the given length, below which the search gives up.
_SMALLEST = 1.0 / 256.0
# Part of the load that moves a configuration by rounding alone.
_UNMOVED = 1e12


class EquilibriumPath(NamedTuple):
    """Equilibria `q` (points, nq) that carry the parts `part` (points,) of the given loads."""

    part: Float[Array, " points"]
    q: Float[Array, "points nq"]


class _Point(NamedTuple):
    q: Array
    multipliers: Array
    part: Array


class _Step(NamedTuple):
    """Point after a step, the tangent that led there (increments, multipliers and part), the number
    of iterations, the equation with the largest defect, and whether it is an equilibrium.
    """

    point: _Point
    direction: Array
    iterations: Int[Array, ""]
    worst: Int[Array, ""]
    converged: Array


@waits.announce("the path of equilibria")
def equilibrium_path(
    system: AbstractSystem,
    state: State,
    *,
    steps: int = 100,
    length: ArrayLike = 0.05,
    t: ArrayLike = 0.0,
    inputs: ArrayLike | None = None,
) -> EquilibriumPath:
    """Equilibria one after another, past the largest load that a system carries.

    Where loads snap a system through, `equilibrium` ends at the largest one. Here the configuration
    leads and the part of the loads follows: it grows from zero, may fall, and may pass one. It
    multiplies all given loads and gravity, but no springs, beams or drivers.

    **Arguments:** `state`: near an equilibrium without loads, its velocities do not matter;
    `steps`: number of points after it; `length`: of a step, the root of the mean square of the
    increments of all coordinates in parts of the largest coordinate (of 1 where that is smaller).
    Steps become shorter where they fail. `t`: the instant (s) of loads and drivers; `inputs` (nu,),
    held.

    The first point is the equilibrium without loads. Points are states of
    `system.under_loads(part)`: `lie_jax.equilibrium` of that system, started there, has derivatives
    by parameters, which the path has not. It runs outside of `jax.jit` and other transformations.
    Where a path branches it goes on in its direction.

    Raises `EquilibriumError` with the last state and its part where the search ends early, or there
    is no equilibrium without loads; `ValueError` for other values and for traced ones.
    Source: Crisfield, "A fast incremental/iterative solution procedure that handles
    'snap-through'" (1981), with the orthogonal correction of Riks.
    """
    checks.positive_integer("equilibrium_path(steps=)", steps, "the number of points")
    checks.positive("equilibrium_path(length=)", length, "parts of the configuration's size")
    if checks.has_tracers(system, state, length, t, inputs):
        raise ValueError(
            "equilibrium_path runs outside of JAX's transformations: take derivatives of "
            "lie_jax.equilibrium(system.under_loads(part), state) at its points."
        )
    t, u = arguments.instant("equilibrium_path", system, state, t, inputs)
    system = snapshots.freeze(system)
    problem = EquilibriumEquations(system, t, u)
    none = jnp.zeros((), state.q.dtype)
    unloaded = equilibrium(system.under_loads(none), state, t=t, inputs=u)
    now = _Point(unloaded.q, jnp.zeros(system.nc, state.q.dtype), none)
    # Loads grow at the start.
    direction = jnp.zeros(problem.size + 1, state.q.dtype).at[-1].set(1.0)
    points, longest = [now], float(as_float(length))
    size = longest
    while len(points) <= steps:
        step = _advance(problem, now, direction, jnp.asarray(size, state.q.dtype))
        if bool(step.converged):
            now, direction = step.point, step.direction
            points.append(now)
            if int(step.iterations) < _EASY:
                size = min(2.0 * size, longest)
        elif size > _SMALLEST * longest:
            size *= 0.5
        else:
            raise _error(problem, step, points)
    return EquilibriumPath(
        jnp.stack([point.part for point in points]), jnp.stack([point.q for point in points])
    )


@eqx.filter_jit
def _advance(problem: EquilibriumEquations, start: _Point, before: Array, length: Array) -> _Step:
    """A step along the tangent, and Newton's steps across it."""
    nv = problem.system.nv
    scale = jnp.maximum(jnp.max(problem.system.space.magnitude(start.q)), 1.0) * jnp.sqrt(nv)

    def slopes(point: _Point) -> tuple[Array, Array, Array]:
        """Defect, Newton's step at constant loads, and the derivative of the unknowns by their
        part.
        """

        def defect(part: Array) -> Array:
            return problem.under_loads(part).defect(point.q, point.multipliers)

        value, by_part = jax.jvp(defect, (point.part,), (jnp.ones_like(point.part),))
        solve = problem.under_loads(point.part).solver(point.q, point.multipliers)
        return value, -solve(value), -solve(by_part)

    def move(point: _Point, change: Array) -> _Point:
        q, multipliers = problem.move(point.q, point.multipliers, change[:-1])
        return _Point(q, multipliers, point.part + change[-1])

    *_, by_part = slopes(start)
    tangent = jnp.concatenate([by_part, jnp.ones_like(by_part[:1])])
    tangent = tangent * scale * length / jnp.linalg.norm(tangent[:nv])
    # The path goes on as it came; at the start loads grow.
    along = before[:nv] @ tangent[:nv] + jnp.where(jnp.any(before[:nv] != 0.0), 0.0, tangent[-1])
    tangent = jnp.where(along < 0.0, -tangent, tangent)

    def correct(point: _Point, first: Array) -> newton.Correction:
        value, left, by_part = slopes(point)
        part = -(tangent[:nv] @ left[:nv]) / (tangent[:nv] @ by_part[:nv])
        change = jnp.concatenate([left + part * by_part, part[None]])
        size = jnp.linalg.norm(change[:nv]) / scale
        last = size <= jnp.sqrt(jnp.finfo(size.dtype).eps) * length
        # A correction longer than the step leads to another part of the path.
        change = jnp.where(size < length, change, jnp.nan)
        return newton.Correction(move(point, change), change, size, last, value)

    begun = newton.initial_root(move(start, tangent))
    # Parts of Newton's steps would use up the iterations where the path bends most: what fails here
    # succeeds with a shorter step along it.
    none = jnp.zeros_like(tangent)
    root = newton.damped_search(correct, move, begun, none, _ITERATIONS, undamped=_ITERATIONS)
    good = root.converged & problem.valid(root.y.q)
    return _Step(root.y, tangent, root.iterations, root.worst, good)


def _error(problem: EquilibriumEquations, step: _Step, points: list[_Point]) -> EquilibriumError:
    part, owner = float(points[-1].part), problem.system.owner(int(step.worst))
    state = State(points[-1].q, jnp.zeros(problem.system.nv, points[-1].q.dtype))
    failed = f"the last attempt failed at {owner}. Give a smaller length=, or fewer steps."
    if not abs(float(step.direction[-1])) < _UNMOVED:
        failed = (
            "no part of the load moves anything from there. Such a state is an equilibrium under "
            "any load: start from lie_jax.equilibrium, or add a small load that moves it."
        )
    return EquilibriumError(
        f"equilibrium_path: the search ended after {len(points) - 1} steps at {part:.4g} of the "
        f"load; {failed}",
        state,
        part,
    )
