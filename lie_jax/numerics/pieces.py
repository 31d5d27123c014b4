"""Bodies of loops in pieces, each of which XLA compiles for the CPU as one function.

XLA makes one function of a small loop and all that is in it. LLVM then nests hundreds of small
loops in a large one, and whenever it changes one of them, it visits all of the outermost loop
around it: time squared in the length of the body. Pieces are functions that a loop calls and XLA
does not compile with it: time in proportion to the length, and some microseconds a passage.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from lie_jax.numerics import cuts, jax_internals, native
from lie_jax.numerics.calls import Program, trace_call

P = ParamSpec("P")
T = TypeVar("T")

# Equations of a body from which on it is cut. At 6000, a slider-crank, that would save a tenth of
# the wait and cost two fifths of the speed; at 12000, one with a flexible rod, it takes two fifths
# from the wait, as much time as half a million steps lose.
_LARGE = 8000


def cut(body: Callable[P, T]) -> Callable[P, T]:
    """Body of a loop, a function of pytrees, in a piece of its own if it is large.

    Its values are those of the body, and so are derivatives of any order and mode, and batches. A
    loop around this loop is compiled apart from it, too: its body should be `cut_around`. It passes
    on the first floating-point array of its arguments.
    """
    return _in_pieces(body, lambda program: cuts.size(program) >= _LARGE)


def cut_around(body: Callable[P, T]) -> Callable[P, T]:
    """Body of a loop in pieces between the loops in it whose bodies are `cut`, if it has any."""
    return _in_pieces(body, _has_cuts)


def _in_pieces(body: Callable, is_cut: Callable[[Program], bool]) -> Any:
    @functools.wraps(body)
    def call(*args, **kwargs):
        if not native.compiles_for((args, kwargs)):
            return body(*args, **kwargs)
        program, leaves, together = trace_call(body, args, kwargs)
        program, constants = program.with_constants()
        if not is_cut(program):
            return together(program(*constants, *leaves))
        first = next((i for i, x in enumerate(leaves) if eqx.is_inexact_array(x)), None)
        if first is not None:
            leaves[first] = _apart(leaves[first])
        return together(cuts.run(program, [*constants, *leaves], _stands_alone, _call))

    return call


def _has_cuts(program: Any) -> bool:
    return any(x.primitive.name == "apart" for x in jax_internals.equations(program))


def _stands_alone(equation: Any) -> bool:
    # Reverse mode keeps values by their names.
    if equation.primitive.name == "name" or not native.compiles(equation):
        return True
    return any(map(_has_cuts, jax_internals.inside(equation)))


def _call(function: Callable, given: list) -> Sequence:
    return native.call(Program.trace(function, *given), given)


def _apart(x: jax.Array) -> jax.Array:
    """x, computed so that XLA compiles the loop around it apart from the pieces of its body."""
    return _primitive()(x, program=Program.trace(lambda x: [x], x))[0]


@functools.cache
def _primitive() -> Callable:
    return jax_internals.call_primitive("apart", _lower)


def _lower(program: Program, arguments: Sequence) -> list[Any]:
    # XLA makes no function of a loop with a sort in it. Any order of one number twice is the same.
    first, *others = program(*arguments)
    if not first.size:
        return [first, *others]
    flat = jnp.ravel(first)
    one = jax.lax.sort(jnp.concatenate([flat[:1], flat[:1]]))[:1]
    return [jnp.concatenate([one, flat[1:]]).reshape(first.shape), *others]
