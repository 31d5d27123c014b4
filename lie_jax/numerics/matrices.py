"""Matrices of linear equations, with one interface.

All are [[S, Bᵀ], [B', C]] of velocities and multipliers, or S alone: `matvec`, `solve`,
`solve_roughly`, `solve_from`, `started_from`, `solve_constrained`, `rough_solver`, `inverse`,
`regularized`, `plus`, `with_rows` and `smallest_row`.
"""

from lie_jax.numerics.block_graph import BlockGraph
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.numerics.schur import SchurMatrix

Matrix = DenseMatrix | BlockTree | BlockGraph
# Of equations of motion, which are solved alone.
Saddle = Matrix | SchurMatrix
