"""What has no derivatives, and what has those of something else.

JAX forgets the rules of functions (`jax.custom_jvp`) in what runs in a `jax.lax.scan` under reverse
mode: a second derivative, in either mode, then goes through what the rule was written to spare.
Rules of primitives are never forgotten.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from lie_jax import jax_internals


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
    # `jax.vmap` maps the values of a rule and their derivatives each for itself: these must be
    # mapped where those are. A sum would turn -0.0 into 0.0.
    nothing, never = _nothing(others), jnp.zeros((), bool)
    return jax.tree.map(lambda x: jnp.where(never, nothing.astype(x.dtype), x), arrays)


def _nothing(others):
    # Zeros that depend on nothing would count as none; a product with zero would be NaN for NaN.
    reached = [jnp.sum(x.real).astype(jnp.float32) for x in jax.tree.leaves(others)]
    zero = jnp.zeros((), jnp.float32)
    return jnp.where(jnp.zeros((), bool), sum(reached, zero), zero)


@_alike.defjvp
def _alike_jvp(primals, tangents):
    arrays, others = tangents
    nothing = _nothing(others)
    return _alike(*primals), jax.tree.map(lambda x: x + nothing.astype(x.dtype), arrays)


def by_rule(values: Any, rule: Callable[[Any, Any, Any], Any], parameters: Any) -> Any:
    """A pytree of arrays that count as a function of `parameters`, with the derivatives of a rule.

    **Arguments:**

    - `values`: the arrays. How they were computed does not matter.
    - `rule(values, parameters, tangents)`: what they change by, in the form of `values`, along
      `tangents`, which has the form of `parameters` with None for what does not change. Further
      derivatives are those of this function, in which `values` follow the rule again: they are
      right to any order if it is right at other `values` and `parameters`, too. It must use no
      array but its arguments.
    - `parameters`: any pytree.
    """
    leaves, form = jax.tree.flatten(values)
    arrays, rest = eqx.partition(parameters, eqx.is_array)
    flat, kind = jax.tree.flatten(arrays)

    def flat_rule(values, numbers, tangents):
        arrays = jax.tree.unflatten(kind, numbers)
        changes = jax.tree.unflatten(kind, tangents)
        return jax.tree.leaves(
            rule(jax.tree.unflatten(form, values), eqx.combine(arrays, rest), changes)
        )

    found = _by_rule()(*leaves, *flat, rule=flat_rule, count=len(leaves))
    return jax.tree.unflatten(form, found)


@functools.cache
def _by_rule() -> Callable:
    return jax_internals.pass_through("by_rule", _values, _batched, _jvp)


def _values(*arguments, rule, count):
    return arguments[:count]


def _jvp(primals, tangents, *, rule, count):
    values = _by_rule()(*primals, rule=rule, count=count)
    changes = tangents[count:]
    if all(change is None for change in changes):
        return values, [None] * count
    return values, rule(values, primals[count:], changes)


def _batched(arguments, axes, *, rule, count):
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)

    def at_front(x, axis):
        if axis is None:
            return jnp.broadcast_to(x, (size, *jnp.shape(x)))
        return jnp.moveaxis(x, axis, 0)

    # Values are mapped in any case: their changes are, if a parameter is.
    arguments = [
        at_front(x, axis) if i < count or axis is not None else x
        for i, (x, axis) in enumerate(zip(arguments, axes, strict=True))
    ]
    over = [None if axis is None else 0 for axis in axes[count:]]

    def rule_of_each(values, numbers, tangents):
        each = [None if x is None else axis for x, axis in zip(tangents, over, strict=True)]
        mapped = jax.vmap(rule, in_axes=(0, over, each), axis_size=size)
        return mapped(list(values), list(numbers), list(tangents))

    return _by_rule()(*arguments, rule=rule_of_each, count=count), [0] * count
