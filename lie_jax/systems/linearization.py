"""Linearised equations of motion.

The residual r = M v̇ + Bᵀλ - f changes by K δq + C δv + M δv̇ + Bᵀδλ, where q moves along the
velocity δq. An implicit step whose q moves along T x needs

    [[M + d C + k K T, Bᵀ], [B T, 0]]

with two factors k and d of the method. Velocity constraints add rows B + (k/d) R T, where R are the
derivatives of the constraints' rates along velocities. A stabilised step, whose q moves along T z
with z = x - Nᵀη and the reactions N of positions at its start, needs

    [[M + d C + k K T, Bᵀ, -k K T Nᵀ], [B + (k/d) R T, 0, -(k/d) R T Nᵀ], [B T, 0, -B T Nᵀ]],

the last rows those of positions alone.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.numerics import small
from lie_jax.numerics.dense import DenseMatrix, inertias, product
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.spaces.base import AbstractSpace

Square = Float[Array, "nv nv"]
Factor = float | Float[Array, ""]


class AbstractReactions(eqx.Module):
    """Jacobian N (positions, nv) of the position constraints at one instant."""

    @property
    @abc.abstractmethod
    def rows(self) -> Float[Array, "positions nv"]:
        """The matrix N of full size."""

    @abc.abstractmethod
    def of(self, multipliers: Float[Array, " positions"]) -> Float[Array, " nv"]:
        """Nᵀη for these multipliers η."""


class DenseReactions(AbstractReactions):
    """Reactions by the matrix of full size."""

    jacobian: Float[Array, "positions nv"]

    @property
    @override
    def rows(self):
        return self.jacobian

    @override
    def of(self, multipliers):
        return small.matvec(self.jacobian.T, multipliers)


class ImplicitIncrement(NamedTuple):
    """Local coordinates x (nv,) = x₀ + T(x)⁻¹ w of a step, whose w (nv,) changes with its unknowns.

    They move along T(x) ẋ, where ẋ = `implicit_rate` of a velocity, in place of T(x) T(0)⁻¹.
    """

    x: Float[Array, "..."]
    w: Float[Array, "..."]


# Local coordinates of a step, None where it starts at them: T is the identity there.
Increment = Float[Array, " nv"] | ImplicitIncrement | None


class AbstractLinearization(eqx.Module):
    """Derivatives of the residual and of the constraints at one instant."""

    residual: eqx.AbstractVar[Float[Array, " nv"]]

    @abc.abstractmethod
    def dense(self) -> "AbstractDenseLinearization":
        """Linearization with matrices of full size."""

    @abc.abstractmethod
    def step_matrix(
        self, x: Increment, stiffness: Factor, damping: Factor, mass: Factor = 1.0
    ) -> AbstractMatrix:
        """[[m M + d C + k K T, Bᵀ], [B T, 0]] with factors m, k and d, and rows of velocity
        constraints.

        T = T(x) T(0)⁻¹ is the tangent operator at the local coordinates x, the identity without.
        """

    def stabilized_matrix(
        self,
        x: Increment,
        stiffness: Factor,
        damping: Factor,
        reactions: AbstractReactions,
    ) -> AbstractMatrix:
        """Matrix of a stabilised step with the factors k and d, and the reactions at its start."""
        return self.dense().stabilized_matrix(x, stiffness, damping, reactions)


class AbstractDenseLinearization(AbstractLinearization):
    """Matrices of full size: B (nc, nv), and products with M, K, C and R.

    `rates(dq)` is the change (nc,) of the constraints' rates along a velocity dq; the last
    `velocity_rows` are those of velocity constraints. `bounds` (nc, nv): those of the system's
    `constraint_bounds`.
    """

    space: AbstractSpace
    residual: Float[Array, " nv"]
    constraints: Float[Array, "nc nv"]
    bounds: Float[Array, "nc nv"] | None
    rates: Callable
    velocity_rows: int = eqx.field(static=True)

    @abc.abstractmethod
    def combined(
        self, along: Float[Array, "nv n"], stiffness: Factor, damping: Factor, mass: Factor = 1.0
    ) -> Float[Array, "nv n"]:
        """[m M + d C, 0] + k K `along`, where `along` may have more columns than nv."""

    @override
    def dense(self):
        return self

    @override
    def step_matrix(self, x, stiffness, damping, mass=1.0):
        along = tangent_columns(self.space, x, jnp.eye(self.space.nv, dtype=self.residual.dtype))
        dynamic = self.combined(along, stiffness, damping, mass)
        if not self.velocity_rows:
            return saddle(dynamic, self.constraints, along, self.bounds)
        positions = self.constraints.shape[0] - self.velocity_rows
        rows = [product(self.constraints[:positions], along)]
        rows.append(
            self.constraints[positions:] + self.rate_columns(along, stiffness / damping)[positions:]
        )
        return bordered_matrix(dynamic, self.constraints, jnp.concatenate(rows), self.bounds)

    @override
    def stabilized_matrix(self, x, stiffness, damping, reactions):
        nv, normals = self.space.nv, reactions.rows
        directions = jnp.concatenate([jnp.eye(nv, dtype=self.residual.dtype), -normals])
        along = tangent_columns(self.space, x, directions)
        dynamic = self.combined(along, stiffness, damping)

        def row(by_motion, by_multipliers):
            return jnp.concatenate([by_motion[:, :nv], by_multipliers, by_motion[:, nv:]], axis=1)

        by_velocity = jnp.pad(self.constraints, ((0, 0), (0, along.shape[1] - nv)))
        rates = by_velocity + self.rate_columns(along, stiffness / damping)
        positions = product(self.constraints[: normals.shape[0]], along)
        constraints = jnp.concatenate([rates, positions])
        none = jnp.zeros((constraints.shape[0], self.constraints.shape[0]), dynamic.dtype)
        entries = [row(dynamic, self.constraints.T), row(constraints, none)]
        sizes = None
        if self.bounds is not None:
            # The multipliers of positions correct the increment by Nᵀη, without an inertia.
            of_rates = row_sizes(self.bounds, inertias(dynamic[:, :nv]))
            of_positions = row_sizes(self.bounds[: normals.shape[0]], jnp.ones(nv, dynamic.dtype))
            sizes = jnp.concatenate([of_rates, of_positions])
        return DenseMatrix(
            jnp.concatenate(entries), constraints.shape[0], sizes, correcting=normals.shape[0]
        )

    def rate_columns(self, along: Float[Array, "nv n"], factor: Factor) -> Float[Array, "nc n"]:
        """Changes of the constraints' rates along these velocities, times a factor."""
        return factor * jax.vmap(self.rates, in_axes=1, out_axes=1)(along)


class MatrixLinearization(AbstractDenseLinearization):
    """Linearization by its matrices M, K and C (nv, nv)."""

    mass: Square
    stiffness: Square
    damping: Square

    @override
    def combined(self, along, stiffness, damping, mass=1.0):
        beyond = along.shape[1] - self.space.nv
        direct = jnp.pad(mass * self.mass + damping * self.damping, ((0, 0), (0, beyond)))
        return direct + stiffness * product(self.stiffness, along)


class ForwardLinearization(AbstractDenseLinearization):
    """Linearization by forward-mode derivatives.

    `push(dq, dv, dv̇)` is the change (nv,) of the residual, dq that of the coordinates at q. One
    derivative serves M, K and C of a column together, and costs a third of three.
    """

    q: Float[Array, " nq"]
    push: Callable

    @override
    def combined(self, along, stiffness, damping, mass=1.0):
        def column(along, rate):
            return self.push(
                self.space.lift(self.q, stiffness * along), damping * rate, mass * rate
            )

        rates = jnp.eye(*along.shape, dtype=along.dtype)
        return jax.vmap(column, in_axes=1, out_axes=1)(along, rates)


def tangent_columns(
    space: AbstractSpace, x: Increment, directions: Float[Array, "n nv"]
) -> Float[Array, "nv n"]:
    """Velocities T(x) T(0)⁻¹ d of increments that change along n directions d; d without x.

    T(x) ẋ of an implicit increment, with ẋ its rate.
    """
    if x is None:
        return directions.T
    return jax.vmap(_tangent(space, x), out_axes=1)(directions)


def tangent_rows(
    space: AbstractSpace, x: Increment, rows: Float[Array, "n nv"]
) -> Float[Array, "n nv"]:
    """Products of rows with T(x) T(0)⁻¹, by the transposed operator; that of `tangent_columns`."""
    if x is None:
        return rows
    transposed = jax.linear_transpose(_tangent(space, x), rows[0])
    return jax.vmap(lambda row: transposed(row)[0])(rows)


def _tangent(space: AbstractSpace, x: Float[Array, " nv"] | ImplicitIncrement) -> Callable:
    def column(direction):
        if isinstance(x, ImplicitIncrement):
            return space.tangent_operator(x.x, space.implicit_rate(*x, direction))
        return space.tangent_operator(x, space.rate_at_zero(direction))

    return column


def saddle(
    dynamic: Square,
    constraints: Float[Array, "nc nv"],
    along: Square | None = None,
    bounds: Float[Array, "nc nv"] | None = None,
) -> DenseMatrix:
    """The matrix [[dynamic, Bᵀ], [B `along`, 0]]; `along` is the identity by default."""
    moved = constraints if along is None else product(constraints, along)
    return bordered_matrix(dynamic, constraints, moved, bounds)


def bordered_matrix(
    dynamic: Square,
    constraints: Float[Array, "nc nv"],
    rows: Float[Array, "nc nv"],
    bounds: Float[Array, "nc nv"] | None = None,
) -> DenseMatrix:
    """The matrix [[dynamic, Bᵀ], [rows, 0]]; `bounds` are those of the entries of B, if known."""
    count = rows.shape[0]
    if not count:
        return DenseMatrix(dynamic, 0)
    none = jnp.zeros((count, count), dynamic.dtype)
    entries = jnp.block([[dynamic, constraints.T], [rows, none]])
    sizes = None if bounds is None else row_sizes(bounds, inertias(dynamic))
    return DenseMatrix(entries, count, sizes)


def row_sizes(bounds: Float[Array, "nc nv"], inertia: Float[Array, " nv"]) -> Float[Array, " nc"]:
    """Bounds of the diagonal of B M⁻¹ Bᵀ, one for rows that are zero."""
    sizes = jnp.sum(bounds * bounds / inertia[None], axis=1)
    return jnp.where(sizes > 0.0, sizes, 1.0)
