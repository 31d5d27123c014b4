"""Results of users' functions by shape, and the traced values that such functions close over."""

import contextlib
import os
import traceback
from collections.abc import Iterator
from typing import Any

import jax

from lie_jax.numerics import jax_internals
from lie_jax.user_functions import libraries, reader, snapshots

# Errors of JAX where code needs the number of a traced value.
_NEED_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@contextlib.contextmanager
def refuse_numbers(where: str, function: Any, arguments: str) -> Iterator[None]:
    """Raise `ValueError` with the name of a function of the user that needs numbers where JAX
    traces it; other errors of types get a note.

    `arguments`: those that it is called with, in words.
    """
    try:
        yield
    except _NEED_NUMBERS as error:
        lines = traceback.extract_tb(error.__traceback__)
        lines = [line for line in lines if not libraries.holds(line.filename)]
        last = lines[-1] if lines else None
        place = f"line {last.lineno} of {os.path.basename(last.filename)}" if last else "it"
        inner = function.function if isinstance(function, snapshots.Function) else function
        raise ValueError(
            f"{where} is {reader.name_of(inner)}; it is called under jax.jit, without numbers, "
            f"with {arguments}, and {place} needs one: compute with jax.numpy in the place of "
            "numpy, math and float, and take jnp.where or jax.lax.cond in the place of `if`."
        ) from error
    except TypeError as error:
        error.add_note(
            f"{where} is called with {arguments}, which JAX traces: compute with jax.numpy, and "
            "take jnp.where in the place of `if`."
        )
        raise


def shapes(where: str, function: Any, arguments: dict[str, Any]) -> Any:
    """Shapes of a function's results; raises `ValueError` where it needs numbers."""
    with refuse_numbers(where, function, f"({', '.join(arguments)})"):
        # A new function: JAX caches traces by identity.
        return jax.eval_shape(lambda *values: function(*values), *arguments.values())


def convert(function: Any, *arguments: Any) -> Any:
    """Function whose values that JAX traces around the run are parameters."""
    if not isinstance(function, snapshots.Function) or function.parameters is not None:
        return function
    plain = function.function
    program, form = jax.make_jaxpr(lambda *values: plain(*values), return_shape=True)(*arguments)
    if not any(jax_internals.is_traced(x) for x in program.consts):
        return function
    structure = jax.tree.structure(form)

    def with_values(consts, *arguments):
        flat = jax.tree.leaves(arguments)
        return jax.tree.unflatten(structure, jax_internals.evaluate(program, consts, *flat))

    return jax.tree_util.Partial(with_values, program.consts)
