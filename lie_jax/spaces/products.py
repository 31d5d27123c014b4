"""Products of spaces: several copies of one space, or spaces of several kinds."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.numerics import gather
from lie_jax.spaces.base import AbstractSpace


def _forward(method: str, types: str) -> Callable[..., Array]:
    return lambda space, *arguments: space._apply(method, arguments, types)


class AbstractComposedSpace(AbstractSpace):
    """Space whose methods are those of other spaces, applied to parts or images of arguments."""

    @abc.abstractmethod
    def _apply(self, method: str, arguments: tuple[Array, ...], types: str) -> Array:
        """Result of a method: `types` has "q" for coordinates and "v" for velocities or local
        coordinates, one letter for each argument and the last one for the result.
        """

    retract = _forward("retract", "qvq")
    inverse_retract = _forward("inverse_retract", "qqv")
    lift = _forward("lift", "qvq")
    tangent_operator = _forward("tangent_operator", "vvv")
    tangent_operator_inv = _forward("tangent_operator_inv", "vvv")
    tangent_operator_inv_derivative = _forward("tangent_operator_inv_derivative", "vvvv")
    implicit_rate = _forward("implicit_rate", "vvvv")
    rate_at_zero = _forward("rate_at_zero", "vv")
    magnitude = _forward("magnitude", "qv")
    turning = _forward("turning", "vvv")


class Power(AbstractComposedSpace):
    """n copies of one space, one after the other; `label` is the name of a copy in messages."""

    factor: AbstractSpace
    n: int = eqx.field(static=True)
    label: str = eqx.field(static=True, default="body")

    def __check_init__(self):
        checks.positive_integer("Power(n=)", self.n, "the number of copies")

    @property
    @override
    def nq(self) -> int:
        return self.n * self.factor.nq

    @property
    @override
    def nv(self) -> int:
        return self.n * self.factor.nv

    @override
    def _apply(self, method, arguments, types):
        function = getattr(self.factor, method)
        if self.n == 1:
            return function(*arguments)
        copies = (argument.reshape(self.n, -1) for argument in arguments)
        return jax.vmap(function)(*copies).reshape(-1)

    @override
    def turn(self, v):
        if self.factor.turn(jnp.zeros(self.factor.nv, v.dtype)) is None:
            return None
        return self._apply("turn", (v,), "vv")

    @override
    def deviation(self, q):
        if self.factor.deviation(jnp.zeros(self.factor.nq, q.dtype)) is None:
            return None
        return self._apply("deviation", (q,), "qv")

    @override
    def invalid(self, q):
        for i, part in enumerate(np.asarray(q).reshape(self.n, -1)):
            reason = self.factor.invalid(part)
            if reason is not None:
                return f"{self.label} {i}: {reason}"
        return None


class Product(AbstractComposedSpace):
    """The product of spaces, coordinates and velocities of its factors in a given order.

    `q_order[i]`, `v_order[i]`: index of coordinate or velocity i among those of all factors.
    """

    factors: tuple[AbstractSpace, ...]
    q_order: tuple[int, ...] = eqx.field(static=True)
    v_order: tuple[int, ...] = eqx.field(static=True)

    @property
    @override
    def nq(self) -> int:
        return sum(factor.nq for factor in self.factors)

    @property
    @override
    def nv(self) -> int:
        return sum(factor.nv for factor in self.factors)

    def _parts(self, array: Array, letter: str) -> list[Array]:
        order = {"q": self.q_order, "v": self.v_order}[letter]
        sizes = [{"q": factor.nq, "v": factor.nv}[letter] for factor in self.factors]
        in_factors = gather.pick(tuple(np.argsort(order).tolist()), array)
        return jnp.split(in_factors, np.cumsum(sizes)[:-1].tolist())

    def _join(self, parts: list[Array], letter: str) -> Array:
        order = {"q": self.q_order, "v": self.v_order}[letter]
        return gather.pick(order, jnp.concatenate(parts))

    @override
    def _apply(self, method, arguments, types):
        parts = (self._parts(*pair) for pair in zip(arguments, types[:-1], strict=True))
        pairs = zip(self.factors, zip(*parts, strict=True), strict=True)
        return self._join([getattr(space, method)(*part) for space, part in pairs], types[-1])

    @override
    def turn(self, v):
        parts = self._parts(v, "v")
        turns = [factor.turn(part) for factor, part in zip(self.factors, parts, strict=True)]
        if all(turn is None for turn in turns):
            return None
        pairs = zip(turns, parts, strict=True)
        filled = [jnp.zeros_like(part) if turn is None else turn for turn, part in pairs]
        return self._join(filled, "v")

    @override
    def deviation(self, q):
        pairs = zip(self.factors, self._parts(q, "q"), strict=True)
        parts = [factor.deviation(part) for factor, part in pairs]
        if all(part is None for part in parts):
            return None
        none = (jnp.zeros(factor.nv, q.dtype) for factor in self.factors)
        filled = [zero if part is None else part for part, zero in zip(parts, none, strict=True)]
        return self._join(filled, "v")

    @override
    def invalid(self, q):
        in_factors = np.asarray(q)[np.argsort(self.q_order)]
        ends = np.cumsum([factor.nq for factor in self.factors])[:-1]
        parts = zip(self.factors, np.split(in_factors, ends), strict=True)
        return next(filter(None, (factor.invalid(part) for factor, part in parts)), None)
