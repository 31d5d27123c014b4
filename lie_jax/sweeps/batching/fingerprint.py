"""Fingerprints of programs: equal for programs that compute the same from equal arguments."""

import hashlib
from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

from lie_jax.numerics import conversion, jax_internals
from lie_jax.sweeps.batching import programs


class Fingerprint:
    """A program as a key of caches, without the values of its own constants.

    Programs inside of it count with the values of theirs, and calls as what they compute. Rules of
    derivatives do not count: they are no part of what is computed.
    """

    __slots__ = ("_hash", "_key", "program")

    def __init__(self, program: Any):
        self.program, self._key = program, _program(program)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._key == other._key

    def __hash__(self):
        return self._hash


def content(array: Any) -> Hashable:
    """Shape, dtype and values of an array."""
    values = conversion.as_numpy(array)
    # As bytes: types from outside of NumPy, such as bfloat16, have no buffers.
    entries = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return values.shape, str(array.dtype), hashlib.blake2b(entries.data, digest_size=16).digest()


def _program(program: Any) -> Hashable:
    jaxpr, _ = jax_internals.unpack(program)
    numbers: dict[Any, int] = {}

    def name(variables):
        for x in variables:
            numbers[x] = len(numbers)
        return tuple(x.aval for x in variables)

    def read(x):
        return (content(np.asarray(x.val)), x.aval) if hasattr(x, "val") else numbers[x]

    given = name(jaxpr.constvars), name(jaxpr.invars)
    equations = []
    for equation in jaxpr.eqns:
        operands = tuple(map(read, equation.invars))
        equations.append((_equation(equation, operands), name(equation.outvars)))
    return given, tuple(equations), tuple(map(read, jaxpr.outvars))


def _equation(equation: Any, operands: tuple) -> Hashable:
    inner = programs.inline(equation, operands)
    if inner is not None:
        return _value(inner[0]), tuple(inner[1])
    params = dict(equation.params)
    name = equation.primitive.name
    if name == "value_with_rule":
        del params["rule"]
    elif name == "custom_vmap_call":
        # JAX wraps the user's rule anew in each call.
        params["rule"] = getattr(params["rule"], "rule", params["rule"])
    return equation.primitive, operands, _value(params)


def _value(x: Any) -> Hashable:
    """Hashable form of a parameter of an equation; of one that has none its identity."""
    if hasattr(x, "eqns") or hasattr(x, "jaxpr"):
        _, constants = jax_internals.unpack(x)
        return _program(x), tuple(map(content, constants))
    if isinstance(x, dict):
        return tuple((key, _value(x[key])) for key in sorted(x))
    if isinstance(x, tuple | list):
        return type(x), tuple(map(_value, x))
    if isinstance(x, float | complex):
        # By digits: NaN does not equal itself, and -0.0 equals 0.0.
        return type(x), repr(x)
    if isinstance(x, np.ndarray | np.generic | jax.Array):
        return content(x)
    try:
        hash(x)
    except TypeError:
        return _Itself(x)
    return type(x), x


class _Itself:
    """An object that equals itself alone, and is kept alive so that no other has its identity."""

    def __init__(self, x: Any):
        self._x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._x is other._x

    def __hash__(self):
        return id(self._x)
