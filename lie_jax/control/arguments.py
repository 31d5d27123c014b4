"""Arguments of `solve`, checked, as parts of a problem."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from lie_jax import checks
from lie_jax.control import guess as guesses
from lie_jax.control.guess import Guess
from lie_jax.control.nodes import Node
from lie_jax.control.optimum import Optimum
from lie_jax.control.parts import Clock, Layout, Part
from lie_jax.control.phase import FUNCTIONS, Phase, bounds
from lie_jax.control.points import Limits
from lie_jax.integrators import one_step
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots


def _count(layout: Layout) -> int:
    return len(layout.structure)


def check_phases(phases: list[Any]) -> None:
    """Raise `ValueError` for anything else than phases."""
    if not phases:
        raise ValueError("solve(problem=) is an empty list; give at least one control.Phase.")
    for phase in phases:
        if not isinstance(phase, Phase):
            raise ValueError(
                f"solve(problem=) has a {type(phase).__name__}; it must be a control.Phase(system, "
                "method, steps=, duration=, ...), or a list of them."
            )


def guesses_of(guess: Any, phases: list[Phase], is_alone: bool) -> list[Guess]:
    """A guess for each phase."""
    if isinstance(guess, Optimum):
        is_of_one = isinstance(guess.states, State)
        if is_of_one != is_alone:
            kinds = "of one phase", "of a list of phases"
            raise ValueError(
                f"solve(guess=) is an Optimum {kinds[not is_of_one]}, and the problem one "
                f"{kinds[not is_alone]}; give a Guess(inputs, states, duration) of its parts, for "
                "a list of phases a list of them."
            )
        rows = guess.states, guess.inputs, guess.duration, guess.multipliers
        parts = [rows] if is_alone else list(zip(*rows, strict=True))
        result = [Guess(u, x, t, multipliers) for x, u, t, multipliers in parts]
    elif guess is None:
        result = [Guess()] * len(phases)
    else:
        several: list[Any] = list(guess) if isinstance(guess, tuple | list) else []
        result = [guess] if is_alone else several
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


def links_of(links: Any, phases: list[Phase], parameters: PyTree) -> tuple[Any, ...]:
    """Maps between phases, as JAX may hold them."""
    if links is None:
        return (None,) * (len(phases) - 1)
    if len(links) != len(phases) - 1:
        raise ValueError(
            f"solve(links=) has {len(links)} entries for {len(phases)} phases; it must have "
            f"{len(phases) - 1}, one between each and the next: None where nothing changes."
        )
    for link in links:
        if link is not None:
            extra = () if parameters is None else ("parameters",)
            checks.function("solve(links=)", link, "q", "v", *extra)
    return tuple(None if link is None else snapshots.watch(link) for link in links)


def parameters_of(
    phases: list[Phase], given: list[Guess], parameters: PyTree, limits: Any, dtype: Any
) -> tuple[Layout, Array, Limits]:
    """Layout of p, its start, and its limits: free durations first."""
    free = [(phase, one) for phase, one in zip(phases, given, strict=True) if phase.is_free]
    lower, upper, start = [], [], []
    xp = guesses.library(phases, given, parameters, limits)
    for phase, one in free:
        shortest, longest = phase.duration
        between, far = 0.5 * (shortest + longest), xp.maximum(1.0, 2.0 * shortest)
        middle = xp.where(xp.isfinite(longest), between, far)
        start.append(middle if one.duration is None else one.duration)
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
                xp.broadcast_to(xp.asarray(x), s) for x, s in zip(values, shapes, strict=True)
            ]
        table.extend(values)
    vectors = (
        [xp.ravel(xp.asarray(x, float)) for x in rows] for rows in (lower, upper, [*start, *leaves])
    )
    low, high, begin = (xp.concatenate([np.zeros(0), *rows]) for rows in vectors)
    if not checks.has_tracers(low, high) and not np.all(low < high):
        raise ValueError(
            "solve(parameter_limits=): every lower limit must be below the upper one: look for a "
            "wrong sign, leave a number that is fixed out of parameters."
        )
    p = guesses.inside(begin, low, high)
    layout = Layout(len(free), () if parameters is None else (structure,), shapes)
    return layout, jnp.asarray(p, dtype), Limits(jnp.asarray(low, dtype), jnp.asarray(high, dtype))


def start_of(state: Any, layout: Layout, p: Array) -> State:
    """The state at the start, with the parameters as they are guessed."""
    start = state if isinstance(state, State) or not callable(state) else state(*layout.read(p))
    if not isinstance(start, State):
        raise ValueError(
            f"solve(state=) is a {type(start).__name__}; it must be a lie_jax.State(q, v), as "
            "lie_jax.assemble returns it, or a function of the parameters that returns one."
        )
    checks.finite("solve(state=): q", start.q)
    checks.finite("solve(state=): v", start.v)
    return start


def parts_of(
    phases: list[Phase],
    given: list[Guess],
    layout: Layout,
    p: Array,
    known: Sequence[Part | None] | None = None,
) -> list[Part]:
    """Phases as the search reads them, before the freedom of their constraints is known, or with
    what may not depend on traced numbers from `known` parts.
    """
    dtype, size = p.dtype, len(p)
    start, row = 0.0, np.zeros(size)
    result, number = [], 0
    like = [None] * len(phases) if known is None else known
    for phase, one, other in zip(phases, given, like, strict=True):
        own = np.zeros(size)
        if phase.is_free:
            own[number], number, fixed = 1.0, number + 1, 0.0
        else:
            fixed = phase.duration
        clock = Clock(*(jnp.asarray(x, dtype) for x in (start, row, fixed, own)))
        start, row = start + fixed, row + own
        result.append(_part(phase, one, clock, layout, p, other))
    return result


def _part(
    phase: Phase, guess: Guess, clock: Clock, layout: Layout, p: Array, known: Part | None
) -> Part:
    dtype = p.dtype
    is_given = isinstance(phase.system, AbstractSystem)
    system = phase.system if is_given else phase.system(*layout.read(p))
    if not isinstance(system, AbstractSystem):
        raise ValueError(
            f"Phase(system=) returned a {type(system).__name__}; it must return the system alone: "
            "take the first of what lie_jax.assemble returns."
        )
    phase.method.check(system)
    one_step.check_group("Phase(method=)", phase.method, system)
    nu = system.nu if guess.inputs is None else np.shape(guess.inputs)[1]
    if system.nu and nu != system.nu:
        raise ValueError(
            f"solve(guess=): inputs have {nu} columns, and the system reads {system.nu} inputs."
        )
    lower, upper = bounds("Phase(limits=)", phase.limits, nu, dtype)
    free = _where(lower < upper) if known is None else np.asarray(known.free, int)
    placement = np.zeros((nu, len(free)))
    placement[free, np.arange(len(free))] = 1.0
    slow, fast = (x[free] for x in bounds("Phase(rates=)", phase.rates, nu, dtype))
    rows = [_where(jnp.isfinite(x)) for x in (slow, fast)]
    if known is not None:
        rows = [np.asarray(x, int) for x in (known.lower_rows, known.upper_rows)]

    def array(x: Any) -> Array:
        return jnp.asarray(x, dtype)

    return Part(
        model=phase.system,
        method=phase.method,
        running=phase.running,
        final=phase.final,
        end_values=phase.end,
        path_values=phase.path,
        clock=clock,
        count=jnp.asarray(phase.steps),
        layout=layout,
        fixed=array(jnp.where(lower < upper, 0.0, lower)),
        placement=array(placement),
        lower=array(lower[free]),
        upper=array(upper[free]),
        lower_rate=array(slow[rows[0]]),
        upper_rate=array(fast[rows[1]]),
        free=tuple(free.tolist()),
        lower_rows=tuple(rows[0].tolist()),
        upper_rows=tuple(rows[1].tolist()),
        freedom=None if known is None else known.freedom,
        by_time=phase.is_free and phase.running is None,
        curvature="all",
        has_past=False,
    )


def _where(true: Array) -> np.ndarray:
    """Places of what is true: all of them where JAX traces, which may not depend on numbers."""
    return np.arange(len(true)) if checks.has_tracers(true) else np.flatnonzero(true)


def check_functions(phase: Phase, part: Part, state: State, p: Array) -> None:
    """Raise `ValueError` for functions that take or return something else than they must."""
    system = part.system(p)
    checks.shape("solve(state=): q", state.q, (system.nq,), "the system's coordinates")
    checks.shape("solve(state=): v", state.v, (system.nv,), "the system's velocities")
    extra = part.layout.read(p)
    number = jnp.zeros((), p.dtype)
    if not part.fixed.shape[0]:
        _check_without_inputs(part, state, p)
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
        _check_array(where, value, p.dtype)
        if name in ("running", "final") and value.shape != ():
            raise ValueError(
                f"{where} returns shape {value.shape}; a cost is one number: use jnp.sum."
            )


def _check_without_inputs(part: Part, state: State, p: Array) -> None:
    """Raise `ValueError` for a system that reads inputs of which nothing tells the number."""
    number, node = jnp.zeros((), p.dtype), Node(state, p[:0])
    try:
        jax.eval_shape(part.after, number, number, node, p[:0], p)
    except (TypeError, ValueError, IndexError) as error:
        name = type(part.system(p)).__name__
        raise ValueError(
            f"Phase(system=) is a {name} whose nu is 0, and its step fails without inputs "
            f"({str(error).splitlines()[0][:100]}): give the class a property nu, or inputs in "
            "guess=control.Guess(inputs=jnp.zeros((steps, nu)))."
        ) from error


def _check_array(where: str, value: Any, dtype: Any) -> None:
    if not hasattr(value, "shape") or value.dtype != dtype:
        kind = f"dtype {value.dtype}" if hasattr(value, "shape") else type(value).__name__
        raise ValueError(
            f"{where} returns {kind}; it must return an array of {dtype}: compute it "
            "with jax.numpy from the arguments."
        )


def check_map(where: str, function: Any, state: State, following: Part, p: Array) -> None:
    """Raise `ValueError` unless a map of states returns one of the following phase."""
    extra, system = following.layout.read(p), following.system(p)
    names = ", ".join(("q", "v", *("parameters",) * len(extra)))
    with closures.refuse_numbers(where, function, f"({names})"):
        value: Any = jax.eval_shape(function, state.q, state.v, *extra)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(
            f"{where} returns {type(value).__name__}; it must return two arrays: write return q, v."
        )
    for name, one, size in zip("qv", value, (system.nq, system.nv), strict=True):
        _check_array(f"{where}: {name}", one, p.dtype)
        checks.shape(f"{where}: {name}", one, (size,), "that of the state after it")


def check_start(begin: Any, symmetry: Any, start: State, last: State, part: Part, p: Array) -> None:
    """Raise `ValueError` for conditions at the start, or a symmetry, of a wrong result."""
    if begin is not None:
        extra = part.layout.read(p)
        names = ", ".join(("q", "v", *("parameters",) * len(extra)))
        with closures.refuse_numbers("solve(begin=)", begin, f"({names})"):
            value = jax.eval_shape(begin, start.q, start.v, *extra)
        _check_array("solve(begin=)", value, p.dtype)
    if symmetry is not None:
        check_map("solve(periodic=)", symmetry, last, part, p)


def functions_of(state: Any, begin: Any, periodic: Any, layout: Layout) -> tuple[Any, Any, Any]:
    """Start, conditions on it and symmetry of a period, as JAX may hold them."""
    if not callable(periodic) and not isinstance(periodic, bool):
        raise ValueError(
            f"solve(periodic=) is {periodic!r}; it must be True, False or a symmetry (q, v) -> "
            "(q, v)."
        )
    symmetry = periodic if callable(periodic) else None
    extra = ("parameters",) * _count(layout)
    result = []
    for name, function, names in (
        ("state", None if isinstance(state, State) else state, ()),
        ("begin", begin, ("q", "v")),
        ("periodic", symmetry, ("q", "v")),
    ):
        if function is not None:
            checks.function(f"solve({name}=)", function, *names, *extra)
            function = snapshots.watch(function)
        result.append(function)
    return result[0] or state, result[1], result[2]
