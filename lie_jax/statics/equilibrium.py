"""Static equilibrium of a system."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from lie_jax import checks
from lie_jax.numerics import newton, rules
from lie_jax.numerics.conversion import as_float
from lie_jax.statics.equations import Problem
from lie_jax.statics.search import Search, load
from lie_jax.system import AbstractSystem, State


class EquilibriumError(RuntimeError):
    """Search without an equilibrium.

    `state` is the last one that carries a part of the load, `part`, between 0 and 1.
    """

    def __init__(self, message: str, state: State, part: float):
        super().__init__(message)
        self.state, self.part = state, part


def equilibrium(
    system: AbstractSystem,
    state: State,
    *,
    t: ArrayLike = 0.0,
    inputs: ArrayLike | None = None,
) -> State:
    """A state at rest in which all forces balance, near the given one.

    Newton's method on the configuration space, with a line search, in load steps: the unbalanced
    forces of the start are taken away bit by bit, in bits that are smaller where that is harder.
    An equilibrium may be unstable, and where a load is carried in several ways it is the one that
    continues the start. Loops whose start does not close are closed on the
    way. Derivatives are those of the equilibrium by all parameters, to any order, whatever the
    search did; those by the start are zero.

    **Arguments:** `state`: where to start, its velocities do not matter; `t`: the instant (s) of
    loads and drivers that are functions of time; `inputs`: (nu,), held.

    Raises `EquilibriumError`, which has the last state and the part of the load at which the search
    ended, where there is none or where a direction is free of forces; under `jax.jit` and other
    transformations the state is NaN then. Raises `ValueError` for systems with velocity
    constraints: rolling bodies are at rest anywhere.
    """
    if system.velocity_rows:
        raise ValueError(
            f"equilibrium(system=) has {system.velocity_rows} constraints on velocities, which "
            "hold at rest everywhere: leave them out, or hold the bodies by joints."
        )
    checks.instant("equilibrium(state=): q", state.q, system.nq)
    u = None if inputs is None else as_float(inputs)
    problem = Problem(system, jnp.asarray(t, state.q.dtype), u)
    found = _found(rules.held(problem), rules.held(state.q))
    if not checks.traced(found.converged) and not bool(found.converged):
        raise _error(problem, found)
    change = _change(problem, found)
    q, _ = problem.moved(found.q, found.multipliers, change)
    return State(jnp.where(found.converged, q, jnp.nan), jnp.zeros_like(state.v))


@eqx.filter_jit
def _found(problem: Problem, q: Array) -> Search:
    return load(problem, q)


def _change(problem: Problem, found: Search) -> Array:
    """Zeros (n,), whose derivatives are those of the equilibrium and of its multipliers."""

    def search(guess: Array, kept: None, args: Any) -> newton.Root:
        zero = jnp.zeros((), jnp.int32)
        record = jnp.full(newton.HISTORY, newton.NONE, guess.dtype)
        return newton.Root(guess, zero, found.converged, record, zero)

    none, held = jnp.zeros(problem.size, found.q.dtype), rules.held(found)
    return newton.root(search, _residual, _linearized, none, None, (problem, held)).y


def _residual(y: Array, args: Any) -> Array:
    problem, found = args
    return problem.defect(*problem.moved(found.q, found.multipliers, y))


def _linearized(y: Array, args: Any):
    problem, found = args
    q, multipliers = problem.moved(found.q, found.multipliers, y)
    x = problem.system.space.rate_at_zero(y[: problem.system.nv])
    return problem.defect(q, multipliers), problem.matrix(q, multipliers, x)


def _error(problem: Problem, found: Search) -> EquilibriumError:
    owner = problem.system.owner(int(found.worst))
    part = float(found.part)
    state = State(found.q, jnp.zeros(problem.system.nv, found.q.dtype))
    return EquilibriumError(
        f"equilibrium: the search ended at {part:.4g} of the load; beyond it no equilibrium "
        f"continues the start, or a direction is free of forces. The last attempt failed at "
        f"{owner}. Give a smaller load, a start nearer to the equilibrium, or hold what is free.",
        state,
        part,
    )
