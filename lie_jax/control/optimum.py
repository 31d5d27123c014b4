"""Results of `solve`."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lie_jax.control.guess import Multipliers
from lie_jax.control.newton import step
from lie_jax.control.parts import Layout
from lie_jax.control.phase import Phase
from lie_jax.control.points import Problem
from lie_jax.control.search import Search
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


def collect(problem: Problem, phases: list[Phase], found: Search, layout: Layout) -> Optimum:
    """Results where a search ended, with lists of those of the phases."""
    at, derived = found.look.at, found.look.derived
    zero = jnp.zeros_like(found.barrier)
    last = step(problem, at, derived, found.look.units, found.barrier, zero)
    columns: list[list[Any]] = [[] for _ in range(6)]
    for j, (phase, part, stretch) in enumerate(
        zip(phases, problem.parts, at.stretches, strict=True)
    ):
        chunks, count = stretch.chunks, phase.steps

        def rows(tables: Sequence[Any], count: int = count) -> Array:
            return jnp.asarray(np.concatenate([np.asarray(x) for x in tables])[:count])

        def nodes_of(first: Array, tables: Sequence[Any], count: int = count) -> Array:
            return rows([np.asarray(first)[None], *tables], count + 1)

        first = chunks[0].first.state
        states = State(
            nodes_of(first.q, [x.after.state.q for x in chunks]),
            nodes_of(first.v, [x.after.state.v for x in chunks]),
        )
        placement = np.asarray(part.placement)
        inputs = np.asarray(part.fixed) + np.asarray(rows([x.u for x in chunks])) @ placement.T
        multipliers = Multipliers(
            nodes_of(stretch.costate, [x.costates for x in chunks]), stretch.ends,
            *(rows([getattr(x, name) for x in chunks]) for name in ("pulls", "low", "high")),
        )  # fmt: skip
        start, duration = part.clock.start_at(at.p), part.clock.duration_at(at.p)
        times = float(start) + float(duration) * np.linspace(0.0, 1.0, count + 1)
        gains = placement @ _gains(derived, last.gains[j], j, count)
        times = jnp.asarray(times, at.p.dtype)
        values = states, jnp.asarray(inputs), duration, times, jnp.asarray(gains), multipliers
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    end = int(found.iterations)
    history = np.asarray(found.history)[: end + 1]
    numbers = (jnp.asarray(x) for x in history[end])
    read = layout.read(at.p)
    states, inputs, durations, times, gains, multipliers = columns
    cost, norm, violation = numbers
    return Optimum(
        states=states,
        inputs=inputs,
        duration=durations,
        times=times,
        gains=gains,
        multipliers=multipliers,
        parameters=read[0] if read else None,
        cost=cost,
        gradient_norm=norm,
        violation=violation,
        iterations=found.iterations,
        history=jnp.asarray(history),
        converged=found.converged,
    )


def _gains(derived: Any, gains: Sequence[Array], phase: int, count: int) -> np.ndarray:
    """Gains (steps, m, n) by all local coordinates of the nodes before the steps."""
    expansions = derived.expansions[phase]
    r = expansions[0].gaps.shape[1]
    table = np.concatenate([np.asarray(x)[:, :, :r] for x in gains])[:count]
    first = derived.firsts[phase]
    if first is None:
        return table
    inverses = [
        np.asarray(first.inverse)[None],
        *(np.asarray(x.charts.inverse) for x in expansions),
    ]
    return table @ np.concatenate(inverses)[:count]


def alone(result: Optimum) -> Optimum:
    """Result of one phase, without lists."""
    names = ("states", "inputs", "duration", "times", "gains", "multipliers")
    return eqx.tree_at(
        lambda x: [getattr(x, name) for name in names],
        result,
        [getattr(result, name)[0] for name in names],
    )
