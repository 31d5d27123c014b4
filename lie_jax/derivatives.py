"""What has no derivatives, and what has those of something else.

JAX forgets the rules of functions (`jax.custom_jvp`) in what runs in a `jax.lax.scan` under reverse
mode: a second derivative, in either mode, then goes through what the rule was written to spare.
Rules of primitives are never forgotten.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array


def held(tree: Any) -> Any:
    """A pytree whose numbers count as constants in every derivative."""
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def alike(tree: Any, others: Any) -> Any:
    """`tree`, all of whose numbers count as depending on what those of `others` depend on.

    JAX traces the derivative of a loop anew until no more numbers turn out to have one. In a loop
    that starts with these, all have one at once.
    """
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(_alike(arrays, eqx.filter(others, eqx.is_inexact_array)), rest)


@jax.custom_jvp
def _alike(arrays, others):
    return arrays


@_alike.defjvp
def _alike_jvp(primals, tangents):
    arrays, others = tangents
    # Zeros that depend on nothing would count as none; a product with zero would be NaN for NaN.
    reached = [jnp.sum(x.real).astype(jnp.float32) for x in jax.tree.leaves(others)]
    zero = jnp.zeros((), jnp.float32)
    nothing = jnp.where(jnp.zeros((), bool), sum(reached, zero), zero)
    return primals[0], jax.tree.map(lambda x: x + nothing.astype(x.dtype), arrays)


def with_derivatives_of(value: Array, other: Array) -> Array:
    """`value`, with the derivatives of `other`, an array of the same shape and type.

    `other` is computed only where it is differentiated.
    """
    return _with_derivatives_of.bind(value, other)


def _jvp(primals, tangents):
    return _with_derivatives_of.bind(*primals), tangents[1]


def _batched(arguments, axes):
    mapped = [
        (x, axis)
        for x, axis in zip(arguments, axes, strict=True)
        if axis is not batching.not_mapped
    ]
    size = mapped[0][0].shape[mapped[0][1]]

    def in_front(x, axis):
        if axis is batching.not_mapped:
            return jnp.broadcast_to(x, (size, *x.shape))
        return jnp.moveaxis(x, axis, 0)

    return _with_derivatives_of.bind(*map(in_front, arguments, axes)), 0


_with_derivatives_of = Primitive("with_derivatives_of")
_with_derivatives_of.def_impl(lambda value, other: value)
_with_derivatives_of.def_abstract_eval(lambda value, other: value)
ad.primitive_jvps[_with_derivatives_of] = _jvp
batching.primitive_batchers[_with_derivatives_of] = _batched
mlir.register_lowering(_with_derivatives_of, lambda context, value, other: [value])
