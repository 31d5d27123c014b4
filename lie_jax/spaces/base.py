"""Configuration spaces: a group law, absolute coordinates and a local chart.

A space defines how a configuration q, a flat array of absolute coordinates, moves along local
coordinates x, one for each velocity. With T(x) = dexp(-x), a rate ẋ of local coordinates belongs to
the velocity T(x) ẋ. Integrators use nothing else, so each of them runs on every space.
"""

import abc
from typing import TYPE_CHECKING, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.numerics import small

Configuration = Float[Array, " nq"]
# Velocities and local coordinates.
Velocity = Float[Array, " nv"]


class AbstractSpace(eqx.Module):
    """Configuration space: moves along local coordinates and their velocities; see the module."""

    if TYPE_CHECKING:
        # A declared type would allow class attributes or properties, but not both.
        nq = nv = 0
    else:
        # Number of absolute coordinates: a class attribute, a field or a property.
        nq: eqx.AbstractVar[int]
        # Number of velocities and of local coordinates.
        nv: eqx.AbstractVar[int]

    @abc.abstractmethod
    def retract(self, q: Configuration, x: Velocity) -> Configuration:
        """Configuration reached from q along x: the local-global transition map of [S0]."""

    @abc.abstractmethod
    def inverse_retract(self, q0: Configuration, q1: Configuration) -> Velocity:
        """Local coordinates that lead from q0 to q1."""

    @abc.abstractmethod
    def lift(self, q: Configuration, v: Velocity) -> Configuration:
        """Time derivative of the absolute coordinates for a velocity v."""

    @abc.abstractmethod
    def tangent_operator(self, x: Velocity, dx: Velocity) -> Velocity:
        """Velocity T(x) dx that belongs to the rate dx of the local coordinates."""

    @abc.abstractmethod
    def tangent_operator_inv(self, x: Velocity, v: Velocity) -> Velocity:
        """Rate T(x)⁻¹ v of the local coordinates for a velocity v, for angles below 2π."""

    @abc.abstractmethod
    def invalid(self, q: np.ndarray) -> str | None:
        """Why the numbers q are no configuration (with the fix), or None when they are one."""

    @final
    def flow(self, q: Configuration, increment: Velocity) -> Configuration:
        """Configuration reached from q by an increment, a velocity times time.

        Local coordinates are unscaled: those of "cayley" are half of a small increment.
        """
        return self.retract(q, self.rate_at_zero(increment))

    def rate_at_zero(self, v: Velocity) -> Velocity:
        """T(0)⁻¹ v, the rate at the start of a step; an override avoids its cost."""
        return self.tangent_operator_inv(jnp.zeros_like(v), v)

    def tangent_operator_inv_derivative(self, x: Velocity, dx: Velocity, v: Velocity) -> Velocity:
        """Derivative of `tangent_operator_inv(x, v)` in x along dx."""
        return jax.jvp(lambda x: self.tangent_operator_inv(x, v), (x,), (dx,))[1]

    def implicit_rate(self, x: Velocity, w: Velocity, v: Velocity) -> Velocity:
        """Rate ẋ of local coordinates x = x₀ + T(x)⁻¹ w whose w changes at the rate v.

        ẋ = T(x)⁻¹ v + D ẋ, with the derivative D of T(x)⁻¹ w in x. For angles of w well below 2π.
        """
        identity = jnp.eye(x.shape[0], dtype=x.dtype)
        turned = jax.vmap(lambda dx: self.tangent_operator_inv_derivative(x, dx, w), out_axes=1)
        inverse = small.inverse(identity - turned(identity))
        return small.matvec(inverse, self.tangent_operator_inv(x, v))

    def turning(self, v: Velocity, acceleration: Velocity) -> Velocity:
        """Third time derivative of the increment of a motion from its start, without v̈.

        1/2 [v, v̇] on a group with the exponential chart. An override with a closed form avoids
        second derivatives of T(x)⁻¹.
        """
        zero = jnp.zeros_like(v)

        def derivative(x, w):
            return self.tangent_operator_inv_derivative(x, rate, w)

        rate, second = self.rate_at_zero(v), self.rate_at_zero(acceleration)
        along_v, curved = jax.jvp(lambda x: derivative(x, v), (zero,), (rate,))
        third = curved + 2.0 * derivative(zero, acceleration)
        third = third + self.tangent_operator_inv_derivative(zero, second + along_v, v)
        return self.tangent_operator(zero, third)

    @property
    def canonical(self) -> bool:
        """Whether a constant velocity v moves along x = t v, as with exp: T(x) x is T(0) x."""
        with jax.ensure_compile_time_eval():
            x = jnp.linspace(0.1, 0.4, self.nv)
            curved = self.tangent_operator(x, x) - self.tangent_operator(jnp.zeros_like(x), x)
            return bool(jnp.max(jnp.abs(curved)) < jnp.sqrt(jnp.finfo(x.dtype).eps))

    def magnitude(self, q: Configuration) -> Velocity:
        """Size of q along each local coordinate: the largest entry of q."""
        return jnp.full(self.nv, jnp.max(jnp.abs(q)))

    def turn(self, v: Velocity) -> Velocity | None:
        """Squares of the angles of a displacement v (velocity times time), relative to the largest
        angle of the chart; zero for entries that turn nothing, None without rotations.
        """
        return None

    def deviation(self, q: Configuration) -> Velocity | None:
        """By how much q is no configuration, for each velocity; None where all numbers are one.

        For quaternions the distance of their norm from one, as `invalid` for compiled functions.
        """
        return None


class AbstractVectorSpace(AbstractSpace):
    """A space of n numbers with velocities q̇: retraction is addition."""

    @property
    @override
    def nv(self) -> int:
        return self.nq

    @override
    def retract(self, q, x):
        return q + x

    @override
    def inverse_retract(self, q0, q1):
        return q1 - q0

    @override
    def lift(self, q, v):
        return v

    @override
    def tangent_operator(self, x, dx):
        return dx

    @override
    def tangent_operator_inv(self, x, v):
        return v

    @override
    def implicit_rate(self, x, w, v):
        return v

    @override
    def turning(self, v, acceleration):
        return jnp.zeros_like(v)

    @override
    def magnitude(self, q):
        return jnp.abs(q)


class Rn(AbstractVectorSpace):
    """The vector space Rⁿ: retraction is addition, and each integrator its classical self.

    **Arguments:** `n`: the dimension. Raises `ValueError` unless it is a positive integer.
    """

    n: int = eqx.field(static=True)

    def __check_init__(self):
        checks.positive_integer("Rn(n=)", self.n, "the dimension")

    @property
    @override
    def nq(self) -> int:
        return self.n

    @override
    def invalid(self, q):
        return None
