"""Results of `solve`."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lie_jax.control.elimination import Policy
from lie_jax.control.ends import end_cost
from lie_jax.control.guess import Multipliers, library
from lie_jax.control.newton import Sweep
from lie_jax.control.parts import Layout
from lie_jax.control.phase import Phase
from lie_jax.control.points import Point, Problem
from lie_jax.control.search import Search
from lie_jax.control.transcription import costs
from lie_jax.numerics import rules
from lie_jax.systems.system import State


class Optimum(eqx.Module):
    """An optimal control of phases, or where a search ended that has not converged.

    For one phase as follows, for a list of phases lists of these, one for each:

    - `states`: `State` of all nodes, `q` (steps + 1, nq) and `v` (steps + 1, nv); at an optimum the
      states to which the inputs lead. `inputs`: (steps, nu), held over each step.
    - `duration`: s. `times`: (steps + 1,), s.
    - `gains`: (steps, nu, n), the feedback: inputs + gains @ (local coordinates of q, v - v̄, and
      with limits of rates the change of the inputs before) around the nodes before each step.
    - `multipliers`: `Multipliers`, with which `Guess` starts another search.

    For the problem: `parameters`, a pytree like those given; `cost`, with durations that are costs;
    `gradient_norm`: largest entry of the gradient of cost + multipliers · conditions, relative to
    the terms that cancel in it; `violation`: largest gap between a step's end and the node after
    it, end value, gap of a link or a period, and path value above zero; `iterations`; `history`
    (iterations + 1, 3) of cost, gradient norm and violation; `converged`.
    """

    states: Any
    inputs: Any
    duration: Any
    times: Any
    gains: Any
    multipliers: Any
    parameters: PyTree
    cost: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    violation: Float[Array, ""]
    iterations: Int[Array, ""]
    history: Float[Array, "iterates 3"]
    converged: Bool[Array, ""]


def collect(
    problem: Problem, phases: list[Phase], found: Search, swept: Sweep, at: Point, layout: Layout
) -> Optimum:
    """Results of a search at its end, a point that has the derivatives of the optimum where JAX
    traces it, with the elimination of its steps, in lists of those of the phases.
    """
    derived, xp = found.look.derived, library(problem, found, at)
    columns: list[list[Any]] = [[] for _ in range(6)]
    for j, (phase, part, stretch) in enumerate(
        zip(phases, problem.parts, at.stretches, strict=True)
    ):
        chunks, count = stretch.chunks, phase.steps

        def rows(tables: Sequence[Any], count: int = count) -> Any:
            return xp.concatenate([xp.asarray(x) for x in tables])[:count]

        def nodes_of(first: Array, tables: Sequence[Any], count: int = count) -> Array:
            return jnp.asarray(rows([xp.asarray(first)[None], *tables], count + 1))

        first = chunks[0].first.state
        states = State(
            nodes_of(first.q, [x.after.state.q for x in chunks]),
            nodes_of(first.v, [x.after.state.v for x in chunks]),
        )
        placement = xp.asarray(part.placement)
        inputs = xp.asarray(part.fixed)[None] + rows([x.u for x in chunks]) @ placement.T
        multipliers = Multipliers(
            nodes_of(stretch.costate, [x.costates for x in chunks]), stretch.ends,
            *(
                jnp.asarray(rows([getattr(x, name) for x in chunks]))
                for name in ("pulls", "low", "high")
            ),
        )  # fmt: skip
        start, duration = part.clock.start_at(at.p), part.clock.duration_at(at.p)
        times = xp.asarray(start) + xp.asarray(duration) * np.linspace(0.0, 1.0, count + 1)
        gains = placement @ _gains(derived, swept.policies[j], j, count, xp)
        times = jnp.asarray(times, at.p.dtype)
        values = states, jnp.asarray(inputs), duration, times, jnp.asarray(gains), multipliers
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    history, end = xp.asarray(found.history), found.iterations
    if xp is np:
        history = history[: int(end) + 1]
    cost, norm, violation = (jnp.asarray(x) for x in history[xp.asarray(end)])
    read = layout.read(at.p)
    states, inputs, durations, times, gains, multipliers = columns
    return Optimum(
        states=states,
        inputs=inputs,
        duration=durations,
        times=times,
        gains=gains,
        multipliers=multipliers,
        parameters=read[0] if read else None,
        cost=cost if xp is np else _with_derivative(cost, problem, at),
        gradient_norm=norm,
        violation=violation,
        iterations=end,
        history=jnp.asarray(history),
        converged=found.converged,
    )


def _with_derivative(cost: Array, problem: Problem, at: Point) -> Array:
    """The cost, differentiated as that of the point."""

    def total(problem_and_point):
        problem, at = problem_and_point
        result = jnp.zeros_like(cost)
        for part, stretch in zip(problem.parts, at.stretches, strict=True):
            for chunk in stretch.chunks:
                result = result + jnp.sum(costs(part.of_steps, chunk, at.p))
            result = result + end_cost(part, stretch.last().state, at.p)
        return result

    return rules.value_as(cost, total, (problem, at))


def _gains(derived: Any, policies: Sequence[Policy], phase: int, count: int, xp: Any) -> Any:
    """Gains (steps, m, n) by all local coordinates of the nodes before the steps."""
    expansions = derived.expansions[phase]
    r = expansions[0].gaps.shape[1]
    table = xp.concatenate([xp.asarray(x.gains)[:, :, :r] for x in policies])[:count]
    first = derived.firsts[phase]
    if first is None:
        return table
    inverses = [
        xp.asarray(first.inverse)[None],
        *(xp.asarray(x.charts.inverse) for x in expansions),
    ]
    return table @ xp.concatenate(inverses)[:count]


def alone(result: Optimum) -> Optimum:
    """Result of one phase, without lists."""
    names = ("states", "inputs", "duration", "times", "gains", "multipliers")
    return eqx.tree_at(
        lambda x: [getattr(x, name) for name in names],
        result,
        [getattr(result, name)[0] for name in names],
    )
