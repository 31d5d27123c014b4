"""Free directions: motions along which no force changes, as the spin of a wheel.

A search holds them by springs as stiff as the others, and takes its steps without their parts along
them. Where forces balance these springs carry nothing: the equilibrium is that of the mechanism,
and of all of them the one that the start reaches without a move along free directions.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import lapack, rules
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.statics.equations import EquilibriumEquations
from lie_jax.statics.linear import null_space

# Stiffness relative to those of the coordinates it moves, in units of rounding times their number,
# below which a direction is free.
_FREE = 1e3
# Least stiffness that a coordinate counts by, relative to the largest one: where there is none,
# rounding errors of that one stand.
_SOFTEST = 1e-2
# Entries of a free direction below this part of its largest one do not name a body.
_MOVES = 1e-3


class Directions(NamedTuple):
    """Free directions as columns of `motions` (nv, n), those of the others zero, with those of
    `parts` (nv, n), dual to them, and the stiffness that holds them (nv, nv).
    """

    motions: Float[Array, "nv n"]
    parts: Float[Array, "nv n"]
    stiffness: Float[Array, "nv nv"]


def directions(matrix: Float[Array, "n n"], nv: int) -> Directions:
    """Free directions of equations [[K, Bᵀ], [B, 0]] with independent rows B."""
    stiffness, rows = matrix[:nv, :nv], matrix[nv:, :nv]
    # Coordinates count by their own stiffness: a soft spring beside a stiff one holds.
    size = jnp.sum(jnp.abs(stiffness), axis=1)
    largest = jnp.max(size)
    size = jnp.sqrt(jnp.maximum(size, _SOFTEST * jnp.where(largest > 0.0, largest, 1.0)))
    basis = null_space(rows / size[None])
    scaled = basis.T @ (stiffness / size[:, None] / size[None]) @ basis
    left, values, right = lapack.singular_values(scaled)
    free = values <= _FREE * nv * jnp.finfo(matrix.dtype).eps
    left, right = basis @ jnp.where(free, left, 0.0), basis @ jnp.where(free[:, None], right, 0.0).T
    parts = size[:, None] * right
    return Directions(right / size[:, None], parts, (size[:, None] * left) @ parts.T)


class HeldEquations(EquilibriumEquations):
    """The equations, free directions of which are held; their defect is that of the mechanism."""

    def matrix(self, q: Array, multipliers: Array, x: Array | None = None) -> DenseMatrix:
        """As that of the equations, with the stiffness that holds free directions at z = 0."""
        dense = self.dense_matrix(q, multipliers, x)
        return DenseMatrix(dense.entries + self._holding_stiffness(q, multipliers), dense.rows)

    def solver(self, q: Array, multipliers: Array) -> Callable[[Array], Array]:
        """Function that solves with `matrix` for changes without parts along free directions.

        Forces of the start turn with the body whose coordinates they belong to: they may push a
        vehicle that pitches along its way, which nothing balances.
        """
        nv, solve = self.system.nv, super().solver(q, multipliers)
        free = self._directions(q, multipliers)

        def within(b: Array) -> Array:
            change = solve(b)
            return change.at[:nv].add(-free.motions @ (free.parts.T @ change[:nv]))

        return within

    def balances(self, q: Array, multipliers: Array) -> Array:
        """Whether the springs that hold free directions carry nothing."""
        change = EquilibriumEquations.solver(self, q, multipliers)(self.defect(q, multipliers))
        size = self.length(q, change)
        return size <= jnp.finfo(size.dtype).eps ** 0.5

    def _holding_stiffness(self, q: Array, multipliers: Array) -> Float[Array, "n n"]:
        return jnp.pad(self._directions(q, multipliers).stiffness, (0, self.system.nc))

    def _directions(self, q: Array, multipliers: Array) -> Directions:
        own, q, multipliers = rules.stop_gradient((self, q, multipliers))
        return directions(own.dense_matrix(q, multipliers).entries, self.system.nv)


@eqx.filter_jit
def _motions(problem: EquilibriumEquations, q: Array, multipliers: Array) -> Array:
    return directions(problem.dense_matrix(q, multipliers).entries, problem.system.nv).motions


def owners(problem: EquilibriumEquations, q: Array, multipliers: Array) -> tuple[int, list[str]]:
    """Number of free directions at a state, and the bodies or joints that move in them."""
    motions = np.asarray(_motions(problem, q, multipliers))
    lengths = np.linalg.norm(motions, axis=0)
    motions = motions[:, lengths > 0.0] / lengths[lengths > 0.0]
    moves = np.linalg.norm(motions, axis=1)
    named = [
        problem.system.owner(int(k))
        for k in np.flatnonzero(moves > _MOVES * moves.max(initial=0.0))
    ]
    return motions.shape[1], list(dict.fromkeys(named))
