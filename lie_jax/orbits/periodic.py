"""Periodic motions of a system: the public entry."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Complex, Float, Int

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import lapack, newton, rules, waits
from lie_jax.orbits import failure
from lie_jax.orbits.arguments import prepare
from lie_jax.orbits.return_map import Point, ReturnMap, correction
from lie_jax.orbits.search import Found, search
from lie_jax.simulation.events import Event
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.systems.system import AbstractSystem, State

# Multipliers that differ from one by less, in units of the cube root of rounding, are one: those
# of a shift in time, and of families of motions.
_ONE = 10.0


class PeriodicOrbit(eqx.Module):
    """A periodic motion, or the best one of a search that has not converged.

    - `state`: where it starts; `period`: s; `trajectory`: the `Trajectory` of one period.
    - `monodromy` (n, n): derivative of the end's coordinates by those of the start, through events
      and symmetry; `basis` (2 nv, n): its coordinates as columns, changes of q (nv,), with
      components of velocities, and of v (nv,). n = 2 nv without constraints.
    - `freedom`: number of directions of the start, of n, in which others close as well to first
      order: 0 of a driven motion or one to an event, 1 of a limit cycle, which is the shift along
      itself, 2 of a motion that conserves energy, and more where more is conserved.
    - `residual`: largest difference of end and start, m or rad, velocities over 2π / period, and
      values of the condition; `residual_history`: at each evaluation, NaN beyond the last one;
      `iterations`: number of evaluations of the return map; `converged`.
    - `multipliers` (n,): Floquet multipliers, complex, the largest first; `stable`.
    """

    state: State
    period: Float[Array, "..."]
    trajectory: Trajectory
    monodromy: Float[Array, "..."]
    basis: Float[Array, "..."]
    freedom: Int[Array, "..."]
    residual: Float[Array, "..."]
    residual_history: Float[Array, "..."]
    iterations: Int[Array, "..."]
    converged: Bool[Array, "..."]

    @property
    def multipliers(self) -> Complex[Array, "..."]:
        """Eigenvalues of the monodromy (n,), the largest first; without derivatives, on a CPU."""
        eigen = lapack.eigen
        for _ in range(self.monodromy.ndim - 2):
            eigen = jax.vmap(eigen)
        values = eigen(rules.stop_gradient(self.monodromy))[0]
        return jnp.take_along_axis(values, jnp.argsort(-jnp.abs(values), axis=-1), axis=-1)

    @property
    def stable(self) -> Bool[Array, "..."]:
        """Whether all neighbours come nearer: multipliers below one, but one of each direction of
        `freedom`; False for families that conserve something, which have more of size one.
        """
        values = self.multipliers
        one = _ONE * float(jnp.finfo(self.monodromy.dtype).eps) ** (1.0 / 3.0)
        ones = jnp.sum(jnp.abs(values) > 1.0 - one, axis=-1, dtype=jnp.int32)
        shifts = jnp.sum(jnp.abs(values - 1.0) <= one, axis=-1, dtype=jnp.int32)
        return self.converged & (ones <= self.freedom) & (ones == shifts) & (self.freedom <= 1)


class PeriodicOrbitError(RuntimeError):
    """Search without a periodic motion; `orbit` is its last `PeriodicOrbit`."""

    def __init__(self, message: str, orbit: PeriodicOrbit):
        super().__init__(message)
        self.orbit = orbit


@waits.announce("the search for a periodic motion with {integrator}")
def periodic_orbit(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: State,
    *,
    period: ArrayLike,
    steps: int,
    free_period: bool = False,
    until: Event | None = None,
    events: Sequence[Event] = (),
    symmetry: Callable[..., Any] | None = None,
    condition: Callable[..., Any] | None = None,
    t0: ArrayLike = 0.0,
) -> PeriodicOrbit:
    """A periodic motion near a start: Newton's method on the return map, with its stability.

    The map leads from a start to the end of the integrator's motion over one period: `steps` steps
    of the size `period / steps`. The motion is periodic for these steps: its errors are those of
    the integrator. Newton steps have the derivative of the whole motion, and are damped.

    **Arguments:**

    - `state`: where to start; it is projected onto the constraints first.
    - `period` (s): of a driven system, that of the drive or a multiple of it. With `free_period`
      a first guess of it; with `until` the longest time that the motion may take.
    - `steps`: number of steps of the period, known outside of JAX transformations.
    - `free_period`: whether the period is an unknown, as that of a system without explicit time. It
      is first fitted alone: a start on a limit cycle, or on a motion that conserves energy, stays.
    - `until`: `lie_jax.Event` with which the motion ends in place of a number of steps, as a walker
      with the impact of a foot; where its action is a function, the state after it is the end.
    - `events`: others on the way, as `lie_jax.simulate` takes them, at most 64 of them happen.
    - `symmetry(q, v)`: returns (q, v), the end as it is compared with the start: with the legs
      swapped, with the way travelled taken away, turned back about an axis. Constraints at `t0`
      must hold of it.
    - `condition(q, v)`: a number or an array, zero at the start that is looked for, of `jax.numpy`:
      its energy less the wanted one, an amplitude, or a section that it lies on.
    - `t0`: time at which the motion starts, s.

    Of motions that close next to each other, such as those of a pendulum by energy and by phase,
    each Newton step chooses the one whose start changes least, with velocities over 2π / period and
    without regard to the period; singular values of the closing below 6e-6 (eps^(1/3)) count as
    zero, for no integrator conserves everything to rounding. What is left of the closing then must
    be below 1e-6 (eps^(3/8)). A `condition` chooses another one.

    Derivatives of `state`, `period` and `trajectory` by all parameters, to any order in forward
    mode and the first in reverse mode, are those of the periodic motion by the implicit function
    theorem, with the same rule of least change; those by the start, and by a guess of the period,
    are zero, those of the other results too. Works under `jax.jit` and `jax.vmap`. Methods that
    carry more than the state, such as `GeneralizedAlpha`, begin anew in each period.

    Raises `PeriodicOrbitError` where no periodic motion is found, with what is left and what to
    try, where the motion ends at rest with a free period, and where the event never comes; under
    `jax.jit` and other transformations results are NaN then, with `converged` False. Raises
    `ValueError` for bad arguments, and where forces or drivers are not periodic.
    """
    problem, start = prepare(
        *(system, integrator, state, period, steps, free_period),
        **{"until": until, "events": events, "symmetry": symmetry, "condition": condition},
        t0=t0,
    )
    found = search(rules.stop_gradient(problem), rules.stop_gradient(start))
    known = not checks.has_tracers(found)
    # Outside of transformations the last motion of a search that failed shows why.
    point = _with_derivatives(problem, found.point, found.converged | known)
    run = problem.run(point)
    orbit = _orbit(problem, found, point, run)
    if known:
        values = rules.stop_gradient(orbit)
        if bool(found.linear.image.complete):
            failure.refuse_other_periods(
                rules.stop_gradient(problem), values.trajectory, values.period
            )
        if not bool(found.converged):
            raise PeriodicOrbitError(failure.message(problem, found, values.trajectory), values)
    return orbit


@eqx.filter_jit
def _with_derivatives(problem: ReturnMap, point: Point, sound: Array) -> Point:
    """The point with derivatives of the periodic motion, NaN where it is not `sound`."""
    point = rules.stop_gradient(point)
    around = problem.tangents(point.state)
    y = newton.attach_derivatives(problem.unknowns(around), _closing, _linearize, (problem, point))
    moved = problem.at(point, around, y)
    return jax.tree.map(lambda x: jnp.where(sound, x, jnp.nan), moved)


def _closing(y: Array, args: Any) -> Array:
    problem, point = args
    return problem.closing(point, problem.tangents(point.state), y)


def _linearize(y: Array, args: Any) -> Any:
    problem, point = args
    around = problem.tangents(point.state)
    linear = problem.linearize(point, around, y)
    return linear.closing, correction(linear, around.sizes[0], problem.free_period)


@eqx.filter_jit
def _orbit(problem: ReturnMap, found: Found, point: Point, run: Trajectory) -> PeriodicOrbit:
    around = rules.stop_gradient(problem).tangents(found.point.state)
    n = sum(around.sizes)
    history, there = found.history, found.history != newton.NONE
    sound = ~jnp.isnan(point.period)
    monodromy, residual = found.linear.monodromy, found.residual
    return PeriodicOrbit(
        state=point.state,
        period=problem.image_of(run, point).period,
        trajectory=run,
        monodromy=jnp.where(sound, monodromy, jnp.nan),
        basis=jax.vmap(around.ambient, in_axes=1, out_axes=1)(jnp.eye(n, dtype=monodromy.dtype)),
        freedom=n - found.rank,
        residual=residual,
        residual_history=jnp.where(there, history, jnp.nan),
        iterations=found.evaluations,
        converged=found.converged,
    )
