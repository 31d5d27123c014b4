"""Programs cut into pieces: groups of equations as functions, and equations that stand alone."""

from collections.abc import Callable, Sequence
from typing import Any

from lie_jax.numerics import jax_internals

CALLS = ("jit", "pjit", "closed_call", "core_call")


def size(program: Any) -> int:
    """Number of equations of a program, those of programs inside of it included."""
    return sum(1 for _ in jax_internals.equations(program))


def run(
    program: Any,
    arguments: Sequence,
    stands_alone: Callable[[Any], bool],
    call: Callable[[Callable, list], Sequence],
) -> list[Any]:
    """Results of a program, of which groups of equations are computed by `call(function, values)`.

    An equation that `stands_alone(equation)` is computed by itself, or cut in its turn if it is a
    call. All others that need the same of these make a group.
    """
    jaxpr, constants = jax_internals.unpack(program)
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))
    results = [x for x in jaxpr.outvars if not _is_literal(x)]

    def read(x):
        return x.val if _is_literal(x) else values[x]

    pieces = _pieces(jaxpr, stands_alone)
    for (equations, alone), later in zip(pieces, _used_later(pieces, results), strict=True):
        if alone:
            (equation,) = equations
            given = list(map(read, equation.invars))
            if equation.primitive.name in CALLS:
                inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
                found = run(inner, given, stands_alone, call)
            else:
                found = jax_internals.bind(equation, given)
            values |= dict(zip(equation.outvars, found, strict=True))
        else:
            made = [x for equation in equations for x in equation.outvars if x in later]
            needed = list(_used(equations))
            if made:
                function = _function(equations, needed, made)
                found = call(function, [values[x] for x in needed])
                values |= dict(zip(made, found, strict=True))
    return list(map(read, jaxpr.outvars))


def _is_literal(x: Any) -> bool:
    return hasattr(x, "val")


def _pieces(jaxpr: Any, stands_alone: Callable) -> list[tuple[list, bool]]:
    """Equations of each piece, in an order in which they can be computed, and whether it is one
    that stands alone.
    """
    # Stage of a variable: number of equations that stand alone on the longest way to it.
    stages: dict[Any, int] = {}
    groups: list[tuple[list, list]] = []
    for equation in jaxpr.eqns:
        alone = stands_alone(equation)
        stage = max((stages.get(x, 0) for x in equation.invars if not _is_literal(x)), default=0)
        stages.update((x, stage + alone) for x in equation.outvars)
        groups += [([], []) for _ in range(stage + 1 - len(groups))]
        groups[stage][alone].append(equation)
    result: list[tuple[list, bool]] = []
    for together, singles in groups:
        if together:
            result.append((together, False))
        result += [([equation], True) for equation in singles]
    return result


def _used(equations: list) -> dict[Any, None]:
    """Variables that a piece takes from others."""
    made = {x for equation in equations for x in equation.outvars}
    inputs = (x for equation in equations for x in equation.invars if not _is_literal(x))
    return {x: None for x in inputs if x not in made}


def _used_later(pieces: list[tuple[list, bool]], results: list) -> list[set]:
    """Variables that are used after each piece."""
    later, found = set(results), []
    for equations, _ in reversed(pieces):
        found.append(set(later))
        later |= set(_used(equations))
    return found[::-1]


def _function(equations: list, needed: list, made: list) -> Callable:
    def function(*arguments):
        values = dict(zip(needed, arguments, strict=True))
        for equation in equations:
            given = [x.val if _is_literal(x) else values[x] for x in equation.invars]
            values |= dict(zip(equation.outvars, jax_internals.bind(equation, given), strict=True))
        return [values[x] for x in made]

    return function
