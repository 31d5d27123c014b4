"""Configuration spaces: a group law, absolute coordinates and a local chart.

A space says how a configuration q, a flat array of absolute coordinates, moves along local
coordinates x, a flat array of as many numbers as there are velocities:

- `retract(q, x)` is the configuration reached from q: the local-global transition map of [S0];
- `inverse_retract(q0, q1)` is the x that leads from q0 to q1;
- `lift(q, v)` is the time derivative q̇ of the coordinates for the velocity v;
- `tangent_operator(x, dx)` is T(x) ẋ = dexp(-x) ẋ, the velocity that belongs to ẋ;
- `tangent_operator_inv(x, v)` is T(x)⁻¹ v, the ẋ that belongs to a velocity, for angles below 2π;
- `tangent_operator_inv_derivative(x, dx, v)` is the derivative of T(x)⁻¹ v along dx, written out;
- `rate_at_zero(v)` is T(0)⁻¹ v, the ẋ at the start of a step;
- `magnitude(q)` is what relative tolerances of local coordinates refer to;
- `turn(v)` is how far a displacement turns next to the largest turn that the chart describes.

Integrators see nothing else of a configuration, so each of them runs on every space.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks


class AbstractSpace(eqx.Module):
    """What a configuration space offers; see the module's text."""

    @property
    @abc.abstractmethod
    def nq(self) -> int:
        """Number of absolute coordinates."""

    @property
    @abc.abstractmethod
    def nv(self) -> int:
        """Number of velocities and of local coordinates."""

    @abc.abstractmethod
    def retract(self, q: Float[Array, " nq"], x: Float[Array, " nv"]) -> Float[Array, " nq"]:
        """Configuration reached from q along the local coordinates x."""

    @abc.abstractmethod
    def inverse_retract(
        self, q0: Float[Array, " nq"], q1: Float[Array, " nq"]
    ) -> Float[Array, " nv"]:
        """Local coordinates that lead from q0 to q1."""

    @abc.abstractmethod
    def lift(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, " nq"]:
        """Time derivative of the absolute coordinates for a velocity v."""

    @abc.abstractmethod
    def tangent_operator(
        self, x: Float[Array, " nv"], dx: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        """Velocity dexp(-x) dx that belongs to the rate dx of the local coordinates."""

    @abc.abstractmethod
    def tangent_operator_inv(
        self, x: Float[Array, " nv"], v: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        """Rate of the local coordinates that belongs to a velocity v."""

    @property
    @abc.abstractmethod
    def canonical(self) -> bool:
        """Whether a constant velocity moves along a straight line of local coordinates.

        So it is with the exponential map; x = t v then leads where the velocity v leads in time t.
        """

    @abc.abstractmethod
    def tangent_operator_inv_derivative(
        self, x: Float[Array, " nv"], dx: Float[Array, " nv"], v: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        """Derivative of `tangent_operator_inv(x, v)` in x along dx, by its closed form."""

    def rate_at_zero(self, v: Float[Array, " nv"]) -> Float[Array, " nv"]:
        """`tangent_operator_inv(0, v)`, without its cost: v itself for the exponential."""
        return v

    def magnitude(self, q: Float[Array, " nq"]) -> Float[Array, " nv"]:
        """Size of q along each local coordinate; the largest entry unless a space says else."""
        return jnp.full(self.nv, jnp.max(jnp.abs(q)))

    def turn(self, v: Float[Array, " nv"]) -> Float[Array, " nv"] | None:
        """Square of the angle by which a displacement v (velocity times time) turns, in parts of
        the largest angle that the chart describes: for each of its entries, zero for those that
        turn nothing. None for a space without rotations.
        """
        return None

    @abc.abstractmethod
    def invalid(self, q: np.ndarray) -> str | None:
        """Why the numbers q are no configuration (with the fix), or None when they are one."""


class AbstractVectorSpace(AbstractSpace):
    """A space of n numbers with velocities q̇: retraction is addition."""

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return self.nq

    @property
    def canonical(self):
        """True."""
        return True

    def retract(self, q, x):
        """Q + x."""
        return q + x

    def inverse_retract(self, q0, q1):
        """q1 - q0."""
        return q1 - q0

    def lift(self, q, v):
        """V."""
        return v

    def tangent_operator(self, x, dx):
        """Dx."""
        return dx

    def tangent_operator_inv(self, x, v):
        """V."""
        return v

    def tangent_operator_inv_derivative(self, x, dx, v):
        """Zero."""
        return 0.0 * v

    def magnitude(self, q):
        """|q|."""
        return jnp.abs(q)


class Rn(AbstractVectorSpace):
    """The vector space Rⁿ: retraction is addition, and each integrator its classical self."""

    n: int = eqx.field(static=True)

    def __check_init__(self):
        checks.positive_integer("Rn(n=)", self.n, "the dimension")

    @property
    def nq(self) -> int:
        """Number of absolute coordinates."""
        return self.n

    def invalid(self, q):
        """Every array of n numbers is a configuration."""
        return None


class Power(AbstractSpace):
    """n copies of one space, stored one after the other: the configurations of n bodies.

    `label` is what messages call a copy.
    """

    factor: AbstractSpace
    n: int = eqx.field(static=True)
    label: str = eqx.field(static=True, default="body")

    def __check_init__(self):
        checks.positive_integer("Power(n=)", self.n, "the number of copies")

    @property
    def nq(self) -> int:
        """Number of absolute coordinates of all copies."""
        return self.n * self.factor.nq

    @property
    def nv(self) -> int:
        """Number of velocities of all copies."""
        return self.n * self.factor.nv

    def _each(self, function: Callable, *arrays: Array) -> Array:
        if self.n == 1:
            return function(*arrays)
        return jax.vmap(function)(*(a.reshape(self.n, -1) for a in arrays)).reshape(-1)

    def retract(self, q, x):
        """Each copy's retraction."""
        return self._each(self.factor.retract, q, x)

    def inverse_retract(self, q0, q1):
        """Each copy's inverse retraction."""
        return self._each(self.factor.inverse_retract, q0, q1)

    def lift(self, q, v):
        """Each copy's lift."""
        return self._each(self.factor.lift, q, v)

    def tangent_operator(self, x, dx):
        """Each copy's tangent operator."""
        return self._each(self.factor.tangent_operator, x, dx)

    def tangent_operator_inv(self, x, v):
        """Each copy's inverse tangent operator."""
        return self._each(self.factor.tangent_operator_inv, x, v)

    def tangent_operator_inv_derivative(self, x, dx, v):
        """Each copy's derivative."""
        return self._each(self.factor.tangent_operator_inv_derivative, x, dx, v)

    @property
    def canonical(self) -> bool:
        """As the copies are."""
        return self.factor.canonical

    def rate_at_zero(self, v):
        """Each copy's rate."""
        return self._each(self.factor.rate_at_zero, v)

    def magnitude(self, q):
        """Each copy's magnitude."""
        return self._each(self.factor.magnitude, q)

    def turn(self, v):
        """Each copy's turn."""
        if self.factor.turn(jnp.zeros(self.factor.nv, v.dtype)) is None:
            return None
        return self._each(self.factor.turn, v)

    def invalid(self, q):
        """The first copy that is no configuration."""
        for i, part in enumerate(np.asarray(q).reshape(self.n, -1)):
            reason = self.factor.invalid(part)
            if reason is not None:
                return f"{self.label} {i}: {reason}"
        return None
