"""Results of users' functions by shape, and the traced values that such functions close over."""

from typing import Any

import jax

from lie_jax.callables import snapshots
from lie_jax.numerics import jax_internals


def shapes(where: str, function: Any, arguments: dict[str, Any]) -> Any:
    """Shapes of a function's results; an error of JAX's tracing gets a note with the fix."""
    try:
        # A new function: JAX caches traces by identity.
        return jax.eval_shape(lambda *values: function(*values), *arguments.values())
    except TypeError as error:  # JAX's errors of tracing are of this type, too.
        error.add_note(
            f"{where} is called with ({', '.join(arguments)}), which JAX traces: compute with "
            "jax.numpy, and take jnp.where in the place of `if`."
        )
        raise


def closed(function: Any, *arguments: Any) -> Any:
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
        return jax.tree.unflatten(structure, jax_internals.evaluated(program, consts, *flat))

    return jax.tree_util.Partial(with_values, program.consts)
