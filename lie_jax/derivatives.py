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
