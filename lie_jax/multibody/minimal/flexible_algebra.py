"""Linear algebra of trees with flexible bodies, by their mass matrix of full size."""

import jax
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.multibody.minimal.loops import LoopAlgebra
from lie_jax.numerics import rules, small
from lie_jax.numerics.dense import DenseMatrix, eliminate
from lie_jax.numerics.schur import SchurMatrix
from lie_jax.systems import linearization
from lie_jax.systems.algebra import Algebra


class MassMatrix(DenseMatrix):
    """A symmetric, positive definite matrix, solved without a call of a library up to 48 rows."""

    @override
    def solve(self, b):
        return jax.lax.custom_linear_solve(
            lambda x: small.matvec(self.entries, x),
            b,
            solve=lambda _, b: eliminate(self.entries, b[:, None])[:, 0],
            symmetric=True,
        )


class FlexibleAlgebra(Algebra):
    """Accelerations by the mass matrix."""

    @property
    @override
    def slow_to_linearize(self):
        # A linearization has one derivative of the residual for each velocity. Contacts set in
        # where a kept matrix is no longer right.
        elements = (group.element for group in self.system.forces)
        return all(element.is_smooth or element.is_load for element in elements)

    @override
    def saddle(self, t, q):
        return MassMatrix(self.system.mass_matrix(q))


class FlexibleLoopAlgebra(LoopAlgebra):
    """Schur complement of the cut joints' rows, with solutions by the mass matrix."""

    @override
    def saddle(self, t, q):
        system = self.system
        mass = system.mass_matrix(q)
        still = rules.stop_gradient(mass)
        inverse = eliminate(still, jnp.eye(system.nv, dtype=q.dtype))
        rows, bounds = system.rows(t, q, system.kinematics(q))
        ease = jnp.diagonal(inverse)
        sizes = linearization.row_sizes(bounds, 1.0 / ease)
        return SchurMatrix(
            lambda x: small.matvec(mass, x), lambda b: small.matvec(inverse, b), rows, sizes, ease
        )
