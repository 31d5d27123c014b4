"""Free directions: motions along which no force changes, as the spin of a wheel.

A search holds them by springs as stiff as the others. Where forces balance these springs carry
nothing: the equilibrium is that of the mechanism, and of all of them the one that the start reaches
without a move along free directions.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.numerics import lapack, rules
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.statics.equations import Problem
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
    """Free directions as columns of `motions` (nv, n), those of the others zero, and the stiffness
    that holds them (nv, nv).
    """

    motions: Float[Array, "nv n"]
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
    return Directions(right / size[:, None], (size[:, None] * left) @ (size[:, None] * right).T)


class HeldProblem(Problem):
    """The equations, free directions of which are held; their defect is that of the mechanism."""

    def matrix(self, q: Array, multipliers: Array, x: Array | None = None) -> DenseMatrix:
        """As that of the equations, with the stiffness that holds free directions at z = 0."""
        dense = super().matrix(q, multipliers, x)
        assert isinstance(dense, DenseMatrix)
        return DenseMatrix(dense.entries + self._held(q, multipliers), dense.rows)

    def _held(self, q: Array, multipliers: Array) -> Float[Array, "n n"]:
        held, nv = rules.held((self, q, multipliers)), self.system.nv
        own, q, multipliers = held
        stiffness = directions(Problem.dense_matrix(own, q, multipliers), nv).stiffness
        return jnp.pad(stiffness, (0, self.system.nc))


@eqx.filter_jit
def _motions(problem: Problem, q: Array, multipliers: Array) -> Array:
    return directions(problem.dense_matrix(q, multipliers), problem.system.nv).motions


def owners(problem: Problem, q: Array, multipliers: Array) -> tuple[int, list[str]]:
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
