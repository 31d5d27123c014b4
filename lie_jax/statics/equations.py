"""Equations of equilibrium, r(t, q, v, 0, λ, u) = 0 with the constraints, and their matrix.

v is zero, or the velocity v(q) of a rotation of all bodies as one.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.multibody import predictions
from lie_jax.multibody.absolute.system import RigidBodySystem
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.numerics.matrices import AbstractMatrix
from lie_jax.statics import rotation
from lie_jax.systems import linearization
from lie_jax.systems.system import AbstractSystem

# Unknowns up to which matrices are solved at full size, with pivots, and free directions are held:
# parts of a mechanism may be free by themselves.
MOST = 400
# Least size (rad, m) that a change of coordinates is relative to.
_SMALLEST = 1e-2


class EquilibriumEquations(NamedTuple):
    """System, instant (s), inputs, and the rate (3,) of a steady rotation, rad/s, None at rest."""

    system: AbstractSystem
    t: Array
    u: Array | None
    rate: Array | None = None

    def under_loads(self, part: Array) -> "EquilibriumEquations":
        """The equations under a part of the given loads."""
        return self._replace(system=self.system.under_loads(part))

    @property
    def size(self) -> int:
        """Number of unknowns: increments and multipliers."""
        return self.system.nv + self.system.nc

    def velocity(self, q: Array) -> Float[Array, " nv"]:
        """Velocity at q: zero, or that of the rotation."""
        if self.rate is None:
            return jnp.zeros(self.system.nv, q.dtype)
        assert isinstance(self.system, RigidBodySystem)
        return rotation.rigid_rotation(self.system, q, self.rate)

    def defect(self, q: Array, multipliers: Array) -> Float[Array, " n"]:
        """Unbalanced forces (nv,), then constraints (nc,)."""
        system, still = self.system, jnp.zeros(self.system.nv, q.dtype)
        forces = system.residual(self.t, q, self.velocity(q), still, multipliers, self.u)
        return jnp.concatenate([forces, system.constraint(self.t, q)])

    def matrix(self, q: Array, multipliers: Array, x: Array | None = None) -> AbstractMatrix:
        """Derivative of `defect` by increments z with q = flow(q₀, z), and by multipliers.

        x: local coordinates of z, None at z = 0.
        """
        if self.rate is not None or self.size <= MOST:
            return self.dense_matrix(q, multipliers, x)
        return self._linearization(q, multipliers).step_matrix(x, 1.0, 0.0, 0.0)

    def dense_matrix(self, q: Array, multipliers: Array, x: Array | None = None) -> DenseMatrix:
        """`matrix` of full size: stiffness (nv, nv), then constraints."""
        linear = self._linearization(q, multipliers).dense()
        if self.rate is None:
            return linear.step_matrix(x, 1.0, 0.0, 0.0)
        # Along an increment the velocity of the rotation changes by [v, x].
        v = self.velocity(q)
        identity = jnp.eye(self.system.nv, dtype=v.dtype)
        along = linearization.tangent_columns(self.system.space, x, identity)
        by_velocity = linear.combined(identity, 0.0, 1.0, 0.0)
        changes = rotation.bracket(self.system.space, v) @ along
        dynamic = linear.combined(along, 1.0, 0.0, 0.0) + by_velocity @ changes
        return linearization.saddle(dynamic, linear.constraints, along, linear.bounds)

    def _linearization(self, q: Array, multipliers: Array) -> linearization.AbstractLinearization:
        still = jnp.zeros(self.system.nv, q.dtype)
        return self.system.linearization(self.t, q, self.velocity(q), still, multipliers, self.u)

    def solver(self, q: Array, multipliers: Array) -> Callable[[Array], Array]:
        """Function that solves with `matrix`, which it factorises once."""
        return self.matrix(q, multipliers).solver()

    def predict(self, q: Array, change: Array) -> tuple:
        """Strains to the first order after a change (n,), for `foreseeing`; empty for most."""
        return predictions.predict(self.system, q, change[: self.system.nv])

    def foreseeing(self, predicted: tuple) -> "EquilibriumEquations":
        """The equations whose matrix has the forces of predicted strains."""
        return self._replace(system=predictions.with_predictions(self.system, predicted))

    def move(self, q: Array, multipliers: Array, change: Array) -> tuple[Array, Array]:
        """Configuration and multipliers after a change (n,) of both."""
        nv = self.system.nv
        return self.system.space.flow(q, change[:nv]), multipliers + change[nv:]

    def length(self, q: Array, change: Array) -> Float[Array, ""]:
        """Size of a change (n,) of unknowns, by that of q: multipliers do not count."""
        # Of all bodies together: one of them may be at the origin. All joint coordinates may be
        # zero, where no relative size is ever small.
        size = jnp.maximum(jnp.max(self.system.space.magnitude(q)), _SMALLEST)
        return jnp.max(jnp.abs(change[: self.system.nv])) / size

    def valid(self, q: Array) -> Array:
        """Whether coordinates are regular at q, all forces' laws describe it, and joints hold there
        on their right sides.
        """
        system = self.system
        departed = system.validity.leaves_range(self.t, q, jnp.zeros(system.nv, q.dtype))
        sound = ~jnp.any(departed) & jnp.all(system.validity.branch_signs(self.t, q) > 0.0)
        return system.validity.regular(q) & sound & jnp.all(jnp.isfinite(q))
