"""Configuration spaces of joint coordinates, and products of spaces.

With these a tree of bodies has the configuration space of [S1] Section V: poses of the bases, unit
quaternions of spherical joints, and numbers.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.groups import closed_forms, quaternion, so3
from lie_jax.numerics import gather, small
from lie_jax.spaces.base import AbstractSpace


class UnitQuaternions(AbstractSpace):
    """Rotations stored as unit quaternions (4,), with body-fixed ω (3,) and exponential chart."""

    @property
    def nq(self) -> int:
        """Four."""
        return 4

    @property
    def nv(self) -> int:
        """Three."""
        return 3

    @property
    def canonical(self):
        """True."""
        return True

    def retract(self, q, x):
        """Turn by the rotation vector x in the body frame."""
        return quaternion.renormalize(quaternion.multiply(q, quaternion.exp(x)))

    def inverse_retract(self, q0, q1):
        """Principal rotation vector from q0 to q1."""
        return quaternion.log(quaternion.multiply(quaternion.conjugate(q0), q1))

    def lift(self, q, v):
        """Rate of the quaternion."""
        return quaternion.lift(q, v)

    def tangent_operator(self, x, dx):
        """dexp(-x) of SO(3)."""
        return so3.dexp_apply(-x, dx)

    def tangent_operator_inv(self, x, v):
        """Its inverse."""
        return so3.dexp_inv_apply(-x, v)

    def tangent_operator_inv_derivative(self, x, dx, v):
        """That of the inverse."""
        return small.matvec(closed_forms.so3_ddexp_inv(-x, -dx), v)

    def magnitude(self, q):
        """One radian."""
        return jnp.ones_like(q[:3])

    def turn(self, v):
        """Turns by less than 2π."""
        return jnp.broadcast_to(jnp.sum(v * v) / (2.0 * np.pi) ** 2, (3,))

    def invalid(self, q):
        """A quaternion must have unit norm."""
        norm = float(np.linalg.norm(q))
        if abs(norm - 1.0) > np.sqrt(np.finfo(q.dtype).eps):
            return (
                f"the quaternion {q.tolist()} has norm {norm:.9g}; it must be a unit quaternion, "
                "scalar first: divide it by its norm"
            )
        return None


class Product(AbstractSpace):
    """The product of spaces, coordinates and velocities of its factors in a given order.

    `q_order[i]` is the place of coordinate i among those of the factors one after the other;
    `v_order` likewise for velocities.
    """

    factors: tuple[AbstractSpace, ...]
    q_order: tuple[int, ...] = eqx.field(static=True)
    v_order: tuple[int, ...] = eqx.field(static=True)

    @property
    def nq(self) -> int:
        """Number of absolute coordinates of all factors."""
        return sum(factor.nq for factor in self.factors)

    @property
    def nv(self) -> int:
        """Number of velocities of all factors."""
        return sum(factor.nv for factor in self.factors)

    @property
    def canonical(self) -> bool:
        """Whether all factors are."""
        return all(factor.canonical for factor in self.factors)

    def _parts(self, flat: Array, size: str) -> list[Array]:
        order = self.q_order if size == "nq" else self.v_order
        back = tuple(np.argsort(order).tolist())
        ends = np.cumsum([getattr(factor, size) for factor in self.factors])[:-1]
        return jnp.split(gather.pick(back, flat), ends.tolist())

    def _each(self, method: str, arrays: Sequence[Array], sizes: Sequence[str], out: str) -> Array:
        parts = [self._parts(*pair) for pair in zip(arrays, sizes, strict=True)]
        values = [
            getattr(factor, method)(*own)
            for factor, own in zip(self.factors, zip(*parts, strict=True), strict=True)
        ]
        return gather.pick(self.q_order if out == "nq" else self.v_order, jnp.concatenate(values))

    def retract(self, q, x):
        """Each factor's retraction."""
        return self._each("retract", (q, x), ("nq", "nv"), "nq")

    def inverse_retract(self, q0, q1):
        """Each factor's inverse retraction."""
        return self._each("inverse_retract", (q0, q1), ("nq", "nq"), "nv")

    def lift(self, q, v):
        """Each factor's lift."""
        return self._each("lift", (q, v), ("nq", "nv"), "nq")

    def tangent_operator(self, x, dx):
        """Each factor's tangent operator."""
        return self._each("tangent_operator", (x, dx), ("nv", "nv"), "nv")

    def tangent_operator_inv(self, x, v):
        """Each factor's inverse tangent operator."""
        return self._each("tangent_operator_inv", (x, v), ("nv", "nv"), "nv")

    def tangent_operator_inv_derivative(self, x, dx, v):
        """Each factor's derivative."""
        arrays, sizes = (x, dx, v), ("nv", "nv", "nv")
        return self._each("tangent_operator_inv_derivative", arrays, sizes, "nv")

    def rate_at_zero(self, v):
        """Each factor's rate."""
        return self._each("rate_at_zero", (v,), ("nv",), "nv")

    def magnitude(self, q):
        """Each factor's magnitude."""
        return self._each("magnitude", (q,), ("nq",), "nv")

    def turn(self, v):
        """Each factor's turn."""
        pairs = zip(self.factors, self._parts(v, "nv"), strict=True)
        turns = [(factor.turn(own), own) for factor, own in pairs]
        if all(turn is None for turn, _ in turns):
            return None
        whole = [jnp.zeros_like(own) if turn is None else turn for turn, own in turns]
        return gather.pick(self.v_order, jnp.concatenate(whole))

    def invalid(self, q):
        """The first factor that is no configuration."""
        inner = np.asarray(q)[np.argsort(self.q_order)]
        for factor in self.factors:
            reason = factor.invalid(inner[: factor.nq])
            if reason is not None:
                return reason
            inner = inner[factor.nq :]
        return None
