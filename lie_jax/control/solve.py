"""Optimal control of phases by an interior-point method on the states and inputs of all steps."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from lie_jax import checks
from lie_jax.control import guess as guesses
from lie_jax.control import search
from lie_jax.control.guess import Guess, Multipliers
from lie_jax.control.newton import step
from lie_jax.control.phase import FUNCTIONS, Phase, bounds
from lie_jax.control.points import Limits, Point, Problem
from lie_jax.control.search import Look, Rules, Search
from lie_jax.control.transcription import Clock, Layout, Part
from lie_jax.control.verdict import warn_unless_converged
from lie_jax.numerics import waits
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots

# Barrier of a search that starts cold: products of distances from limits and their multipliers.
_BARRIER = 0.1


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


@waits.announce("the optimal control of phases")
def solve(
    problem: Phase | Sequence[Phase],
    state: State | Callable,
    *,
    links: Sequence[Callable | None] | None = None,
    begin: Callable | None = None,
    periodic: bool | Callable = False,
    parameters: PyTree = None,
    parameter_limits: tuple[PyTree, PyTree] | None = None,
    guess: Any = None,
    tolerance: float = 1e-9,
    max_iterations: int = 300,
) -> Optimum:
    """Find the inputs, durations and parameters that minimise the cost of one phase or several.

    An interior-point method on the states and inputs of all steps: every node between steps is
    unknown and meets the end of the step before it at the optimum alone, so that unstable motions
    and guesses of states are welcome. Systems with constraints, closed loops too, keep their nodes
    on them. Compiled once for all numbers of steps and iterations; not to be traced by JAX.

    **Arguments:**

    - `problem`: a `Phase`, or a list of them, one after the other.
    - `state`: the `State` from which the motion starts, or a function of the parameters that
      returns it; where `begin` or `periodic` is given, where the search starts.
    - `links`: between phases, functions (q, v) -> (q, v) from the last state of one to the first of
      the next, such as an impact; None for the same state. By default nothing changes.
    - `begin(q, v)`: an array that must be zero at the first state, which is free otherwise.
    - `periodic`: whether the last state is the first one again, or its image (q, v) -> (q, v) under
      a symmetry; the first state is free. Their velocities and positions count, not the time.
    - `parameters`: pytree of start values of numbers that are optimised, too, and that the systems
      and all functions take as their last argument. `parameter_limits`: (lower, upper), pytrees
      like them.
    - `guess`: a `Guess` or an `Optimum`, for a list of phases a list of guesses or its `Optimum`.
    - `tolerance`: on the gradient norm, the violation and the barriers' share of the cost.
      `max_iterations`: at most so many.

    **Returns** an `Optimum`, and warns if it has not converged, with what is left. It is a local
    optimum: others may be found from other guesses. Second derivatives of steps are differences of
    exact first ones; they change the way, not the optimum. Raises `ValueError` for wrong shapes,
    limits that cross, systems and methods that do not go together. Source: Wächter and Biegler,
    Math. Program. 106 (2006); Rawlings, Mayne and Diehl, Model Predictive Control (2017), ch. 8.
    """
    phases = [problem] if isinstance(problem, Phase) else list(problem)
    _check_phases(phases)
    if checks.has_tracers(phases, state, parameters, guess):
        raise ValueError(
            "control.solve is not to be traced by JAX: call it outside of jax.jit, jax.vmap and "
            "jax.grad, or take lie_jax.control.ilqr, which works in them."
        )
    given = _guesses(guess, phases, isinstance(problem, Phase))
    changes = _links(links, phases)
    checks.positive("solve(tolerance=)", tolerance, "error of the conditions of an optimum")
    checks.positive_integer("solve(max_iterations=)", max_iterations, "steps of the search")
    layout, p, limits = _parameters(phases, given, parameters, parameter_limits)
    start = _start(state, layout, p)
    parts = _parts(phases, given, layout, p)
    firsts = guesses.first_states(parts, changes, given, start, p)
    parts = [
        dataclasses.replace(part, freedom=guesses.freedom_of(part, first, p))
        for part, first in zip(parts, firsts, strict=True)
    ]
    _check_functions(phases, parts, firsts, p)
    is_free = periodic is not False or begin is not None
    watched = {
        "begin": begin,
        "periodic": periodic if callable(periodic) else None,
        "state": None if isinstance(state, State) else state,
    }
    for name, function in watched.items():
        if function is not None:
            names = () if name == "state" else ("q", "v")
            checks.function(
                f"solve({name}=)", function, *names, *(("parameters",) * _count(layout))
            )
            watched[name] = snapshots.watch(function)
    fixed = start if watched["state"] is None else watched["state"]
    whole = snapshots.freeze(
        Problem(
            tuple(parts), changes, None if is_free else fixed, watched["begin"],
            watched["periodic"], periodic is not False, limits,
        )
    )  # fmt: skip
    at = _first_point(whole, phases, given, firsts, p)
    found = _search(whole, at, given, tolerance, max_iterations)
    result = _optimum(whole, phases, found, layout)
    warn_unless_converged(whole, found, tolerance, max_iterations)
    return _alone(result) if isinstance(problem, Phase) else result


def _count(layout: Layout) -> int:
    return 0 if layout.structure is None else 1


def _check_phases(phases: list[Any]) -> None:
    if not phases:
        raise ValueError("solve(problem=) is an empty list; give at least one control.Phase.")
    for phase in phases:
        if not isinstance(phase, Phase):
            raise ValueError(
                f"solve(problem=) has a {type(phase).__name__}; it must be a control.Phase(system, "
                "method, steps=, duration=, ...), or a list of them."
            )


def _guesses(guess: Any, phases: list[Phase], is_alone: bool) -> list[Guess]:
    if isinstance(guess, Optimum):
        rows = guess.states, guess.inputs, guess.duration, guess.multipliers
        parts = [rows] if is_alone else list(zip(*rows, strict=True))
        result = [Guess(u, x, t, multipliers) for x, u, t, multipliers in parts]
    elif guess is None:
        result = [Guess()] * len(phases)
    else:
        result = [guess] if is_alone else list(guess)
    if len(result) != len(phases) or not all(isinstance(x, Guess) for x in result):
        raise ValueError(
            "solve(guess=) must be a control.Guess or an Optimum, for a list of phases a list with "
            f"one Guess for each, here {len(phases)}."
        )
    return [
        _check_guess(one, phase, j)
        for j, (one, phase) in enumerate(zip(result, phases, strict=True))
    ]


def _check_guess(guess: Guess, phase: Phase, number: int) -> Guess:
    where = f"solve(guess=) of phase {number}"
    if guess.inputs is not None:
        checks.real(f"{where}: inputs", guess.inputs)
        shape = np.shape(guess.inputs)
        if len(shape) != 2 or shape[0] != phase.steps:
            raise ValueError(
                f"{where}: inputs have shape {shape}; they must have shape ({phase.steps}, nu), a "
                "row for each step."
            )
        checks.finite(f"{where}: inputs", guess.inputs)
    if guess.states is not None:
        rows = np.shape(guess.states.q)[0], np.shape(guess.states.v)[0]
        if rows != (phase.steps + 1,) * 2:
            raise ValueError(
                f"{where}: states have {rows[0]} rows q and {rows[1]} rows v; they must have "
                f"{phase.steps + 1}, one before each step and one after the last."
            )
        checks.finite(f"{where}: q", guess.states.q)
        checks.finite(f"{where}: v", guess.states.v)
    if guess.duration is not None and phase.is_free:
        checks.positive(f"{where}: duration", guess.duration, "s")
    known = guess.multipliers
    if known is not None and len(known.path) != phase.steps:
        return Guess(guess.inputs, guess.states, guess.duration)
    return guess


def _links(links: Any, phases: list[Phase]) -> tuple[Any, ...]:
    if links is None:
        return (None,) * (len(phases) - 1)
    if len(links) != len(phases) - 1:
        raise ValueError(
            f"solve(links=) has {len(links)} entries for {len(phases)} phases; it must have "
            f"{len(phases) - 1}, one between each and the next: None where nothing changes."
        )
    for link in links:
        if link is not None:
            checks.function("solve(links=)", link, "q", "v")
    return tuple(None if link is None else snapshots.watch(link) for link in links)


def _parameters(
    phases: list[Phase], given: list[Guess], parameters: PyTree, limits: Any
) -> tuple[Layout, Array, Limits]:
    """Layout of p, its start, and its limits: free durations first."""
    dtype = jnp.zeros(()).dtype
    free = [(phase, one) for phase, one in zip(phases, given, strict=True) if phase.is_free]
    lower, upper, start = [], [], []
    for phase, one in free:
        shortest, longest = (float(x) for x in phase.duration)
        middle = 0.5 * (shortest + longest) if np.isfinite(longest) else max(1.0, 2.0 * shortest)
        start.append(middle if one.duration is None else float(one.duration))
        lower.append(shortest)
        upper.append(longest)
    if parameters is not None:
        checks.real_leaves("solve(parameters=)", parameters)
    leaves, structure = jax.tree.flatten(parameters)
    shapes = tuple(tuple(np.shape(x)) for x in leaves)
    sides: list[Any] = [lower, upper]
    for side, unlimited, table in zip((0, 1), (-np.inf, np.inf), sides, strict=True):
        if limits is None:
            values = [np.full(shape, unlimited) for shape in shapes]
        else:
            values, other = jax.tree.flatten(limits[side])
            if other != structure:
                raise ValueError(
                    "solve(parameter_limits=) must be a pair (lower, upper) of pytrees like "
                    f"parameters, {structure}; one is {other}."
                )
            values = [
                np.broadcast_to(np.asarray(x), s) for x, s in zip(values, shapes, strict=True)
            ]
        table.extend(np.concatenate([np.ravel(x) for x in values]) if values else [])
    start.extend(np.concatenate([np.ravel(x) for x in leaves]) if leaves else [])
    low, high = np.asarray(lower, float), np.asarray(upper, float)
    if not np.all(low < high):
        raise ValueError(
            "solve(parameter_limits=): every lower limit must be below the upper one: look for a "
            "wrong sign, leave a number that is fixed out of parameters."
        )
    p = guesses.inside(np.asarray(start, float), low, high)
    layout = Layout(len(free), None if parameters is None else structure, shapes)
    return layout, jnp.asarray(p, dtype), Limits(jnp.asarray(low, dtype), jnp.asarray(high, dtype))


def _start(state: Any, layout: Layout, p: Array) -> State:
    start = state if isinstance(state, State) or not callable(state) else state(*layout.read(p))
    if not isinstance(start, State):
        raise ValueError(
            f"solve(state=) is a {type(start).__name__}; it must be a lie_jax.State(q, v), as "
            "lie_jax.assemble returns it, or a function of the parameters that returns one."
        )
    checks.finite("solve(state=): q", start.q)
    checks.finite("solve(state=): v", start.v)
    return start


def _parts(phases: list[Phase], given: list[Guess], layout: Layout, p: Array) -> list[Part]:
    dtype, size = p.dtype, len(p)
    start, row = 0.0, np.zeros(size)
    result, number = [], 0
    for phase, one in zip(phases, given, strict=True):
        own = np.zeros(size)
        if phase.is_free:
            own[number], number, fixed = 1.0, number + 1, 0.0
        else:
            fixed = float(phase.duration)
        clock = Clock(*(jnp.asarray(x, dtype) for x in (start, row, fixed, own)))
        start, row = start + fixed, row + own
        result.append(_part(phase, one, clock, layout, p))
    return result


def _part(phase: Phase, guess: Guess, clock: Clock, layout: Layout, p: Array) -> Part:
    dtype = p.dtype
    is_given = isinstance(phase.system, AbstractSystem)
    system = phase.system if is_given else phase.system(*layout.read(p))
    if not isinstance(system, AbstractSystem):
        raise ValueError(
            f"Phase(system=) returned a {type(system).__name__}; it must return the system alone: "
            "take the first of what lie_jax.assemble returns."
        )
    phase.method.check(system)
    nu = system.nu if guess.inputs is None else np.shape(guess.inputs)[1]
    if system.nu and nu != system.nu:
        raise ValueError(
            f"solve(guess=): inputs have {nu} columns, and the system reads {system.nu} inputs."
        )
    lower, upper = (np.asarray(x) for x in bounds("Phase(limits=)", phase.limits, nu, dtype))
    free = np.flatnonzero(lower < upper)
    placement = np.zeros((nu, len(free)))
    placement[free, np.arange(len(free))] = 1.0
    slow, fast = (np.asarray(x)[free] for x in bounds("Phase(rates=)", phase.rates, nu, dtype))
    rows = [tuple(np.flatnonzero(np.isfinite(x)).tolist()) for x in (slow, fast)]
    arrays = (
        np.where(lower < upper, 0.0, lower), placement, lower[free], upper[free],
        slow[list(rows[0])], fast[list(rows[1])],
    )  # fmt: skip
    return Part(
        phase.system, phase.method, phase.running, phase.final, phase.end, phase.path, clock,
        jnp.asarray(phase.steps), layout, *(jnp.asarray(x, dtype) for x in arrays), *rows, None,
        phase.is_free and phase.running is None,
    )  # fmt: skip


def _check_functions(phases: list[Phase], parts: list[Part], firsts: list[State], p: Array) -> None:
    """Raise `ValueError` for functions that take or return something else than they must."""
    for phase, part, state in zip(phases, parts, firsts, strict=True):
        system = part.system(p)
        checks.shape("solve(state=): q", state.q, (system.nq,), "the system's coordinates")
        checks.shape("solve(state=): v", state.v, (system.nv,), "the system's velocities")
        extra = part.layout.read(p)
        number = jnp.zeros((), p.dtype)
        known = {"t": number, "q": state.q, "v": state.v, "u": part.inputs(part.lower * 0.0)}
        for name, names in FUNCTIONS.items():
            function = getattr(phase, name)
            if function is None:
                continue
            arguments = (*names, *(("parameters",) * len(extra)))
            where = f"Phase({name}=)"
            checks.function(where, function, *arguments)
            with closures.refuse_numbers(where, function, f"({', '.join(arguments)})"):
                value: Any = jax.eval_shape(function, *(known[x] for x in names), *extra)
            if not hasattr(value, "shape") or value.dtype != p.dtype:
                kind = f"dtype {value.dtype}" if hasattr(value, "shape") else type(value).__name__
                raise ValueError(
                    f"{where} returns {kind}; it must return an array of {p.dtype}: compute it "
                    "with jax.numpy from the arguments."
                )
            if name in ("running", "final") and value.shape != ():
                raise ValueError(
                    f"{where} returns shape {value.shape}; a cost is one number: use jnp.sum."
                )


def _first_point(
    problem: Problem, phases: list[Phase], given: list[Guess], firsts: list[State], p: Array
) -> Point:
    barrier = _barrier(given)
    stretches = []
    for part, phase, one, state in zip(problem.parts, phases, given, firsts, strict=True):
        node = guesses.Node(state, part.lower * 0.0 if part.has_rates else part.lower[:0])
        number = jnp.zeros((), p.dtype)
        paths = jax.eval_shape(
            part.path, part.count, number, number, node, node, part.lower, p
        ).shape[0]
        stretches.append(guesses.stretch(part, phase.steps, one, state, p, paths, barrier))
    state = firsts[0]
    begin = jnp.zeros(0, p.dtype)
    if problem.begin is not None:
        read = problem.parts[0].layout.read(p)
        shape = jax.eval_shape(problem.begin, state.q, state.v, *read)
        begin = jnp.zeros(int(np.prod(shape.shape)), p.dtype)
    period = jnp.zeros_like(stretches[-1].costate) if problem.periodic else None
    known = guesses.parameters(np.asarray(p), problem.limits, barrier)
    return Point(tuple(stretches), known, begin, period)


def _barrier(given: list[Guess]) -> float:
    """Barrier at the start: that of the multipliers where all phases have some."""
    if any(one.multipliers is None for one in given):
        return _BARRIER
    return 1e-6


def _search(
    problem: Problem, at: Point, given: list[Guess], tolerance: float, max_iterations: int
) -> Search:
    dtype = at.p.dtype
    barrier = _barrier(given)
    first = search.look(problem, at)
    stretches = [
        guesses.with_slacks(one, [x.values for x in rows], barrier, known.multipliers is not None)
        for one, rows, known in zip(at.stretches, first.derived.expansions, given, strict=True)
    ]
    at = at._replace(stretches=tuple(stretches))
    here = Look(at, first.derived, *search.errors(problem, at, first.derived))
    rules = Rules(jnp.asarray(tolerance, dtype), jnp.asarray(max_iterations))
    return search.run(problem, rules, here, jnp.asarray(barrier, dtype), max_iterations)


def _optimum(problem: Problem, phases: list[Phase], found: Search, layout: Layout) -> Optimum:
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
    return Optimum(
        *columns, read[0] if read else None, *numbers, found.iterations, jnp.asarray(history),
        found.converged,
    )  # fmt: skip


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


def _alone(result: Optimum) -> Optimum:
    """Result of one phase, without lists."""
    names = ("states", "inputs", "duration", "times", "gains", "multipliers")
    return eqx.tree_at(
        lambda x: [getattr(x, name) for name in names],
        result,
        [getattr(result, name)[0] for name in names],
    )
