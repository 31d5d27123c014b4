"""Linearised equations of motion.

The residual r = M v̇ + Bᵀλ - f changes by K δq + C δv + M δv̇ + Bᵀδλ, where q moves along the
velocity δq. An implicit step whose q moves along T x needs

    [[M + d C + k K T, Bᵀ], [B T, 0]]

with two factors k and d of the method. Velocity constraints add rows B + (k/d) R T, where R are the
derivatives of the constraints' rates along velocities.
"""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics.dense import DenseMatrix, product
from lie_jax.numerics.matrices import Matrix
from lie_jax.spaces.base import AbstractSpace

Square = Float[Array, "nv nv"]
Factor = float | Float[Array, ""]


class AbstractLinearization(eqx.Module):
    """Derivatives of the residual and of the constraints at one instant."""

    residual: eqx.AbstractVar[Float[Array, " nv"]]

    @abc.abstractmethod
    def dense(self) -> "AbstractDenseLinearization":
        """Linearization with matrices of full size."""

    @abc.abstractmethod
    def step_matrix(
        self, x: Float[Array, " nv"] | None, stiffness: Factor, damping: Factor
    ) -> Matrix:
        """[[M + d C + k K T, Bᵀ], [B T, 0]] with the factors k and d, and rows of velocity
        constraints.

        T = T(x) T(0)⁻¹ is the tangent operator at the local coordinates x, the identity without.
        """

    @abc.abstractmethod
    def damping_matrix(self, factor: Factor) -> Matrix:
        """[[d C, Bᵀ], [B, 0]] with the factor d."""


class AbstractDenseLinearization(AbstractLinearization):
    """Matrices of full size: B (nc, nv), and products with M, K, C and R.

    `rates(dq)` is the change (nc,) of the constraints' rates along a velocity dq; the last
    `velocity_rows` are those of velocity constraints.
    """

    space: AbstractSpace
    residual: Float[Array, " nv"]
    constraints: Float[Array, "nc nv"]
    rates: Callable
    velocity_rows: int = eqx.field(static=True)

    @abc.abstractmethod
    def combined(
        self, along: Float[Array, "nv n"], stiffness: Factor, damping: Factor
    ) -> Float[Array, "nv n"]:
        """[M + d C, 0] + k K `along`, where `along` may have more columns than nv."""

    @abc.abstractmethod
    def damped(self) -> Square:
        """The matrix C."""

    @override
    def dense(self):
        return self

    @override
    def damping_matrix(self, factor):
        return saddle(factor * self.damped(), self.constraints)

    @override
    def step_matrix(self, x, stiffness, damping):
        along = tangent_columns(self.space, x, jnp.eye(self.space.nv, dtype=self.residual.dtype))
        dynamic = self.combined(along, stiffness, damping)
        if not self.velocity_rows:
            return saddle(dynamic, self.constraints, along)
        positions = self.constraints.shape[0] - self.velocity_rows
        rows = [product(self.constraints[:positions], along)]
        rows.append(
            self.constraints[positions:] + self.rate_columns(along, stiffness / damping)[positions:]
        )
        return bordered(dynamic, self.constraints, jnp.concatenate(rows))

    def rate_columns(self, along: Float[Array, "nv n"], factor: Factor) -> Float[Array, "nc n"]:
        """Changes of the constraints' rates along these velocities, times a factor."""
        return factor * jax.vmap(self.rates, in_axes=1, out_axes=1)(along)


class MatrixLinearization(AbstractDenseLinearization):
    """Linearization by its matrices M, K and C (nv, nv)."""

    mass: Square
    stiffness: Square
    damping: Square

    @override
    def damped(self):
        return self.damping

    @override
    def combined(self, along, stiffness, damping):
        beyond = along.shape[1] - self.space.nv
        direct = jnp.pad(self.mass + damping * self.damping, ((0, 0), (0, beyond)))
        return direct + stiffness * product(self.stiffness, along)


class ForwardLinearization(AbstractDenseLinearization):
    """Linearization by forward-mode derivatives.

    `push(dq, dv, dv̇)` is the change (nv,) of the residual, dq that of the coordinates at q. One
    derivative serves M, K and C of a column together, and costs a third of three.
    """

    q: Float[Array, " nq"]
    push: Callable

    @override
    def damped(self):
        units = jnp.eye(self.space.nv, dtype=self.q.dtype)
        none = jnp.zeros_like(self.q), jnp.zeros_like(units[0])
        return jax.vmap(lambda rate: self.push(none[0], rate, none[1]), out_axes=1)(units)

    @override
    def combined(self, along, stiffness, damping):
        def column(along, rate):
            return self.push(self.space.lift(self.q, stiffness * along), damping * rate, rate)

        rates = jnp.eye(*along.shape, dtype=along.dtype)
        return jax.vmap(column, in_axes=1, out_axes=1)(along, rates)


def tangent_columns(
    space: AbstractSpace, x: Float[Array, " nv"] | None, directions: Float[Array, "n nv"]
) -> Float[Array, "nv n"]:
    """Velocities T(x) T(0)⁻¹ d of increments that change along n directions d; d without x."""
    if x is None:
        return directions.T

    def column(direction):
        return space.tangent_operator(x, space.rate_at_zero(direction))

    return jax.vmap(column, out_axes=1)(directions)


def saddle(
    dynamic: Square, constraints: Float[Array, "nc nv"], along: Square | None = None
) -> DenseMatrix:
    """The matrix [[dynamic, Bᵀ], [B `along`, 0]]; `along` is the identity by default."""
    moved = constraints if along is None else product(constraints, along)
    return bordered(dynamic, constraints, moved)


def bordered(
    dynamic: Square, constraints: Float[Array, "nc nv"], rows: Float[Array, "nc nv"]
) -> DenseMatrix:
    """The matrix [[dynamic, Bᵀ], [rows, 0]]."""
    count = rows.shape[0]
    if not count:
        return DenseMatrix(dynamic, 0)
    none = jnp.zeros((count, count), dynamic.dtype)
    return DenseMatrix(jnp.block([[dynamic, constraints.T], [rows, none]]), count)
