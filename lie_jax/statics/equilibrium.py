"""Static equilibrium of a system."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from lie_jax import checks
from lie_jax.multibody import arguments
from lie_jax.numerics import newton, rules, waits
from lie_jax.numerics.conversion import as_float
from lie_jax.statics import failure, free, rotation
from lie_jax.statics.equations import MOST, EquilibriumEquations
from lie_jax.statics.free import HeldEquations
from lie_jax.statics.search import Search, load
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import libraries, snapshots

# Bodies and joints that a warning names.
_NAMED = 6


class EquilibriumError(RuntimeError):
    """Search without an equilibrium.

    `state` is the last one that carries a part of the load, `part`, between 0 and 1.
    """

    def __init__(self, message: str, state: State, part: float):
        super().__init__(message)
        self.state, self.part = state, part


@waits.announce("the search for an equilibrium")
def equilibrium(
    system: AbstractSystem,
    state: State,
    *,
    t: ArrayLike = 0.0,
    inputs: ArrayLike | None = None,
    rate: ArrayLike | Sequence[ArrayLike] | None = None,
) -> State:
    """A state at rest, or in steady rotation, in which all forces balance, near the given one.

    Damped Newton steps on the configuration space, in load steps: given loads grow
    in proportion, and other unbalanced forces of the start are taken away at the same rate, in
    steps that are smaller where that is harder. Where this ends early, as for a pendulum, whose
    weight in parts has no other direction, all loads act and only the latter are taken away.
    Free directions, in which no force changes, as the spin of a wheel or the way of a vehicle, stay
    near the place of the start, and a warning names what moves in them; derivatives have no part
    along them, as if they were held. An equilibrium may be unstable, and where a load is carried in
    several ways it is the one that continues the start. Constraints that the start breaks are
    closed on the way. Derivatives are those of the equilibrium by all parameters, to any order,
    whatever the search did; those by the start are zero.

    In absolute coordinates springs of hinges have angles between -π and π. Those that a run has
    wound further keep their turns in
    `system.with_memory(jax.tree.map(lambda x: x[k], run.memory))`, with `t=run.t[k]`.

    **Arguments:** `state`: where to start, its velocities do not matter; `t`: the instant (s) of
    loads and drivers that are functions of time; `inputs`: (nu,), held; `rate` (3,): angular
    velocity of a steady rotation of all bodies as one about the inertial origin, rad/s, inertial
    components. The state has the velocities of that rotation, which inertia forces balance. Loads
    and joints must turn along: a `JointDriver` at that rate holds a hub; the ground and gravity
    across the axis do not, and `lie_jax.linearize` refuses such states. `rate` needs
    `lie_jax.SE3()`.

    Raises `EquilibriumError`, which has the last state and the part of the load at which the search
    ended, where there is none, where a load acts along a direction that nothing holds (also at the
    start: a pendulum that begins horizontally) or constraints are redundant; under `jax.jit` and
    other transformations the state is NaN then, and where directions are free. Raises `ValueError`
    for systems with velocity constraints: rolling bodies are at rest anywhere.
    """
    t, u = arguments.instant("equilibrium", system, state, t, inputs)
    if system.velocity_rows:
        raise ValueError(
            f"equilibrium(system=) has {system.velocity_rows} constraints on velocities, which "
            "hold at rest everywhere: leave them out, or hold the bodies by joints."
        )
    system = snapshots.freeze(system)
    if rate is not None:
        rotation.check_twists(system)
        rate = as_float(rate)
        checks.shape("equilibrium(rate=)", rate, (3,), "rad/s")
        rate = jnp.asarray(rate, state.q.dtype)
    problem = EquilibriumEquations(system, t, u, rate)
    reached = _search(rules.stop_gradient(problem), rules.stop_gradient(state.q))
    if not checks.has_tracers(reached.converged) and not bool(reached.converged):
        problem, reached = _least_change(problem, state.q, reached)
    change = _change(problem, reached)
    q, _ = problem.move(reached.q, reached.multipliers, change)
    q = jnp.where(reached.converged, q, jnp.nan)
    return State(q, problem.velocity(q))


def _least_change(
    problem: EquilibriumEquations, start: Array, failed: Search
) -> tuple[EquilibriumEquations, Search]:
    """The search again with free directions held, after one that failed; raises without any."""
    own, start = rules.stop_gradient(problem), rules.stop_gradient(start)
    if problem.size > MOST or failure.redundant(own, start):
        raise _error(own, start, failed)
    held = HeldEquations._make(own)
    reached = _search(held, start)
    balances = reached.converged & _balances(held, reached.q, reached.multipliers)
    count, owners = free.owners(own, reached.q, reached.multipliers)
    if not bool(balances) or not count:
        raise _error(own, start, failed)
    moving = ", ".join(owners[:_NAMED]) + (" and others" if len(owners) > _NAMED else "")
    libraries.warn(
        f"equilibrium: {count} direction{'s are' if count > 1 else ' is'} free: no force changes "
        f"when {moving} move{'s' if len(owners) == 1 else ''} in {'them' if count > 1 else 'it'}. "
        "The state is near the place of the start there: give a joint or a spring to choose one.",
    )
    return HeldEquations._make(problem), reached


_balances = eqx.filter_jit(HeldEquations.balances)


@eqx.filter_jit
def _search(problem: EquilibriumEquations, q: Array) -> Search:
    return load(problem, q)


def _change(problem: EquilibriumEquations, reached: Search) -> Array:
    """Zeros (n,), whose derivatives are those of the equilibrium and of its multipliers."""
    none, args = jnp.zeros(problem.size, reached.q.dtype), (problem, rules.stop_gradient(reached))
    return newton.attach_derivatives(none, _residual, _linearize, args)


def _residual(y: Array, args: Any) -> Array:
    problem, reached = args
    return problem.defect(*problem.move(reached.q, reached.multipliers, y))


def _linearize(y: Array, args: Any):
    problem, reached = args
    q, multipliers = problem.move(reached.q, reached.multipliers, y)
    x = problem.system.space.rate_at_zero(y[: problem.system.nv])
    return problem.defect(q, multipliers), problem.matrix(q, multipliers, x)


def _error(problem: EquilibriumEquations, start: Array, reached: Search) -> EquilibriumError:
    part, state = float(reached.part), State(reached.q, problem.velocity(reached.q))
    reason = failure.causes(problem, start, reached)
    return EquilibriumError(
        f"equilibrium: the search ended at {part:.4g} of the load. {reason}", state, part
    )
