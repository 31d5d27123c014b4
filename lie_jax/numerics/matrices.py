"""Matrices of linear equations: one contract for all storages.

All are [[S, Bᵀ], [B', C]] of velocities and multipliers, or S alone: of full size (`dense`), in
blocks along a forest (`block_matrix`) or a graph (`block_graph`), or a recursion (`schur`).
"""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import Array, Float

Vector = Float[Array, " size"]
M = TypeVar("M")


class AbstractSaddle(eqx.Module):
    """Matrix (size, size) of equations of motion with constraints."""

    @property
    def may_be_redundant(self) -> bool:
        """Whether constraints of several joints may depend on each other."""
        return True

    @abc.abstractmethod
    def matvec(self, x: Vector) -> Vector:
        """Product with a vector."""

    @abc.abstractmethod
    def solve(self, b: Vector) -> Vector:
        """Solution x of the regular matrix times x = b; differentiable to any order."""

    @abc.abstractmethod
    def solve_constrained(self, b: Vector) -> Vector:
        """Solution x of the matrix times x = b for constraints that may be redundant.

        Solution with the matrix of `regularize`, corrected for the regularisation.
        Differentiable to any order.
        """

    @abc.abstractmethod
    def smallest_row(self) -> Float[Array, ""]:
        """Smallest singular value of B with columns and rows scaled to length one.

        It is zero if and only if the rows depend on each other, whatever units and sizes are.
        """


class AbstractMatrix(AbstractSaddle):
    """Matrix (size, size) of a step, which may be asymmetric.

    Newton's method takes `solve_from`, `rough_solver`, or `inverse` and `solve_from_by`. Defaults
    are those of an elimination without pivots, for which a second attempt has no use.
    """

    @abc.abstractmethod
    def transpose(self: M) -> M:
        """Transposed matrix."""

    def solution(self, method: Callable[[Any, Array], Array], b: Vector) -> Vector:
        """Solution method(matrix, b), whose derivatives are solutions by the same method."""
        return jax.lax.custom_linear_solve(
            self.matvec,
            b,
            solve=lambda _, b: method(self, b),
            transpose_solve=lambda _, b: method(self.transpose(), b),
        )

    @abc.abstractmethod
    def inverse(self) -> Any:
        """Array or `Factors` whose product with b (size,), `inverse @ b`, is the solution; not to
        be differentiated.
        """

    @abc.abstractmethod
    def regularize(self: M) -> M:
        """The matrix with constraints, solvable if some of them are redundant.

        Diagonal entries of multipliers are lowered by ε times the size of B S⁻¹ Bᵀ, which they
        regularise: a relative change of ε times its condition number, and with dependent rows of B
        a multiplier that stays near the smallest one, while S⁻¹ Bᵀ λ does not change.
        """

    @abc.abstractmethod
    def plus(self: M, push: Callable[[Array], Array]) -> M:
        """The matrix [[S + P, Bᵀ], [B', C]], P the matrix of a linear function of velocities.

        In blocks `push` couples the velocities of one body alone.
        """

    @abc.abstractmethod
    def with_rows(self: M, end: M) -> M:
        """The matrix with the rows of constraints, B' and C, of another one."""

    def solve_roughly(self, b: Vector) -> Vector:
        """Solution up to eps^(4/5) of what each equation sums up; not to be differentiated."""
        return self.solve(b)

    def solve_from(self, b: Vector, y: Vector) -> Vector:
        """Rough solution x, by the matrix of `regularize`, for the smallest multipliers y + x.

        Rounding errors of constraints decide the part of x in which rows depend on each other, over
        the small diagonal that regularises. A search from step to step would add these parts up.
        """
        return self.solve_from_by(y, self.solve, b)

    def solve_from_by(self, y: Vector, solve: Callable[[Array], Array], b: Vector) -> Vector:
        """The solution x of `solve_from` by a function that solves with this matrix."""
        return solve(b)

    def rough_solver(self) -> Callable[[Array], Array]:
        """Function of b that returns x without a second attempt, for iterations that check it."""
        inverse = self.inverse()
        return lambda b: inverse @ b

    def solver(self) -> Callable[[Array], Array]:
        """Function of b that returns x, with one factorisation, outside of time loops."""
        return self.rough_solver()
