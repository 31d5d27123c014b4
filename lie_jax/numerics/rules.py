"""Custom derivative rules: constants, and values differentiated as if they were something else.

JAX drops the rules of functions (`jax.custom_jvp`) inside a `jax.lax.scan` under reverse mode: a
second derivative, in either mode, then differentiates the code that the rule replaces. JAX keeps
the rules of primitives: all rules here belong to primitives.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from lie_jax.numerics import jax_internals


def stop_gradient(tree: Any) -> Any:
    """`tree` with gradients stopped through every floating-point leaf."""
    arrays, others = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), others)


def with_tangents_of(tree: Any, others: Any) -> Any:
    """`tree` with (zero) tangents wherever `others` has tangents.

    JAX traces the derivative of a loop again and again until no further number of the carry has a
    tangent. A loop that starts with this tree is traced once.
    """
    arrays, static = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(_with_tangents_of(arrays, eqx.filter(others, eqx.is_inexact_array)), static)


@jax.custom_jvp
def _with_tangents_of(arrays, others):
    # `jax.vmap` maps the values of a rule apart from their tangents, but both must be mapped alike:
    # the values depend on `others`, too. A sum would turn -0.0 into 0.0.
    zero, never = _dependent_zero(others), jnp.zeros((), bool)
    return jax.tree.map(lambda x: jnp.where(never, zero.astype(x.dtype), x), arrays)


def _dependent_zero(others):
    # JAX drops tangents that depend on nothing; a product with zero would be NaN for NaN.
    sums = [jnp.sum(x.real).astype(jnp.float32) for x in jax.tree.leaves(others)]
    zero = jnp.zeros((), jnp.float32)
    return jnp.where(jnp.zeros((), bool), sum(sums, zero), zero)


@_with_tangents_of.defjvp
def _with_tangents_of_jvp(primals, tangents):
    arrays, others = tangents
    zero = _dependent_zero(others)
    return _with_tangents_of(*primals), jax.tree.map(lambda x: x + zero.astype(x.dtype), arrays)


def zeros_along(x: jax.Array, others: Any) -> jax.Array:
    """Zeros in the form of x that JAX takes for linear in `others`, which are tangents."""
    return jnp.zeros_like(x) + _dependent_zero(others).astype(x.dtype)


def value_with_rule(values: Any, rule: Callable[[Any, Any, Any], Any], parameters: Any) -> Any:
    """`values`, differentiated as a function of `parameters` by a rule.

    **Arguments:**

    - `values`: pytree of arrays, computed in any way.
    - `rule(values, parameters, tangents)`: tangents of `values`, in their structure, along
      `tangents`, which has the structure of `parameters` with None for zero. Further derivatives
      are those of this function, in which `values` follow the rule again: they are right to any
      order if the rule holds at other `values` and `parameters`, too. It must use no array but its
      arguments.
    - `parameters`: any pytree.
    """
    leaves, structure = jax.tree.flatten(values)
    numbers, array_structure, together = _split_arrays(parameters)

    def flat_rule(values, numbers, tangents):
        changes = jax.tree.unflatten(array_structure, tangents)
        return jax.tree.leaves(
            rule(jax.tree.unflatten(structure, values), together(numbers), changes)
        )

    ruled = _rule_primitive()(*leaves, *numbers, rule=flat_rule, count=len(leaves))
    return jax.tree.unflatten(structure, ruled)


def value_as(values: Any, function: Callable[[Any], Any], parameters: Any) -> Any:
    """`values`, differentiated as function(parameters) of the same structure, to any order.

    The function must use no array but its arguments. Parameters may be any pytree.
    """
    leaves, structure = jax.tree.flatten(values)
    numbers, _, together = _split_arrays(parameters)

    def flat(numbers):
        return jax.tree.leaves(function(together(numbers)))

    ruled = _rule_primitive()(*leaves, *numbers, rule=_DerivativeOf(flat), count=len(leaves))
    return jax.tree.unflatten(structure, ruled)


def derivative(function: Callable, parameters: Any, tangents: Any) -> Any:
    """Derivative of a function of a pytree along `tangents`, in its structure with None for zero.

    Parameters without a tangent are constants: JAX traces no derivative by them.
    """
    leaves, structure = jax.tree.flatten(parameters)
    changes = structure.flatten_up_to(tangents)
    moving = [i for i, change in enumerate(changes) if change is not None]

    def along(*moved):
        values = dict(zip(moving, moved, strict=True))
        return function(
            jax.tree.unflatten(structure, [values.get(i, x) for i, x in enumerate(leaves)])
        )

    start, direction = ([x[i] for i in moving] for x in (leaves, changes))
    return jax.jvp(along, start, direction)[1]


class _DerivativeOf(NamedTuple):
    """Rule of `value_as`: the derivative of a function of a list of arrays.

    A batch maps the function and not its derivative: `jax.lax.cond` with a mapped predicate stops
    gradients of its operands, which JAX cannot transpose where these are tangents.
    """

    function: Callable

    def __call__(self, values, numbers, tangents):
        return derivative(self.function, list(numbers), list(tangents))

    def batch(self, axes: list, size: int) -> "_DerivativeOf":
        """The rule of a batch."""
        return _DerivativeOf(jax.vmap(self.function, in_axes=(axes,), axis_size=size))


def _split_arrays(parameters: Any) -> tuple[list, Any, Callable]:
    """Arrays of a pytree and their structure, and the function that puts others in their place."""
    arrays, static = eqx.partition(parameters, eqx.is_array)
    numbers, structure = jax.tree.flatten(arrays)

    def together(numbers):
        # Constants of a program arrive as NumPy's arrays.
        arrays = jax.tree.unflatten(structure, [jnp.asarray(x) for x in numbers])
        return eqx.combine(arrays, static)

    return numbers, structure, together


@functools.cache
def _rule_primitive() -> Callable:
    return jax_internals.pass_through("value_with_rule", _values, _batch, _jvp)


def _values(*arguments, rule, count):
    return arguments[:count]


def _jvp(primals, tangents, *, rule, count):
    values = _rule_primitive()(*primals, rule=rule, count=count)
    changes = tangents[count:]
    if all(change is None for change in changes):
        return values, [None] * count
    return values, rule(values, primals[count:], changes)


def _batch(arguments, axes, *, rule, count):
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)

    def at_front(x, axis):
        if axis is None:
            return jnp.broadcast_to(x, (size, *jnp.shape(x)))
        return jnp.moveaxis(x, axis, 0)

    # Values are mapped in any case: their tangents are mapped if a parameter is.
    arguments = [
        at_front(x, axis) if i < count or axis is not None else x
        for i, (x, axis) in enumerate(zip(arguments, axes, strict=True))
    ]
    axes_of_numbers = [None if axis is None else 0 for axis in axes[count:]]
    if isinstance(rule, _DerivativeOf):
        mapped = rule.batch(axes_of_numbers, size)
        return _rule_primitive()(*arguments, rule=mapped, count=count), [0] * count

    def batched_rule(values, numbers, tangents):
        present = zip(tangents, axes_of_numbers, strict=True)
        axes_of_tangents = [None if x is None else axis for x, axis in present]
        in_axes = 0, axes_of_numbers, axes_of_tangents
        mapped = jax.vmap(rule, in_axes=in_axes, axis_size=size)
        return mapped(list(values), list(numbers), list(tangents))

    return _rule_primitive()(*arguments, rule=batched_rule, count=count), [0] * count
