"""Linear algebra of a system: the matrices that integrators and solutions of its equations need."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics.matrices import AbstractMatrix, AbstractSaddle
from lie_jax.spaces import derivatives
from lie_jax.systems import linearization
from lie_jax.systems.linearization import AbstractReactions, ForwardLinearization

Time = float | Float[Array, ""]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]


class Algebra(eqx.Module):
    """Matrices of a `system` from its mass matrix and its constraints, of full size.

    Systems that store them in blocks, or solve along a tree, have a subclass as their `algebra`.
    """

    system: Any

    @property
    def slow_to_linearize(self) -> bool:
        """Whether a linearization takes many times as long as a residual, and serves many steps."""
        return False

    def momentum(
        self, t: Time, q: Configuration, v: Velocity, u: Float[Array, " nu"] | None
    ) -> Velocity:
        """M(q) v (nv,), without the matrix; t and u do not change it."""
        system, at_rest = self.system, jnp.zeros_like(v)
        none = jnp.zeros(system.nc, v.dtype)

        def residual(acceleration: Velocity) -> Velocity:
            return system.residual(t, q, at_rest, acceleration, none, u)

        return jax.jvp(residual, (at_rest,), (v,))[1]

    def saddle(self, t: Time, q: Configuration) -> AbstractSaddle:
        """The matrix [[M, Bᵀ], [B, 0]] of the equations of motion with constraints."""
        system = self.system
        return linearization.saddle(system.mass_matrix(q), system.constraint_jacobian(t, q))

    def step_saddle(self, t: Time, q: Configuration, x: Velocity | None = None) -> AbstractMatrix:
        """The matrix [[M, Bᵀ], [B T, 0]], as `step_matrix` of a linearization has it.

        T = T(x) T(0)⁻¹ is the tangent operator at the local coordinates x, the identity without.
        """
        system = self.system
        identity = jnp.eye(system.nv, dtype=q.dtype)
        along = linearization.tangent_columns(system.space, x, identity)
        rows, bounds = system.constraint_jacobian(t, q), self.bounds(t, q)
        return linearization.saddle(system.mass_matrix(q), rows, along, bounds)

    def position_reactions(self, t: Time, q: Configuration) -> AbstractReactions:
        """Reactions of the position constraints at an instant."""
        positions = self.system.nc - self.system.velocity_rows
        return linearization.DenseReactions(self.system.constraint_jacobian(t, q)[:positions])

    def change_of_rates(self, t: Time, q: Configuration, v: Velocity) -> Callable:
        """The function of a velocity that returns the change of `constraint_rate` along it."""
        space, rate = self.system.space, self.system.constraint_rate

        def change(along):
            return derivatives.derivative_along(space, lambda q: rate(t, q, v), q, along)

        return change

    def bounds(self, t: Time, q: Configuration) -> Float[Array, "nc nv"] | None:
        """Sizes that entries of B have where their terms do not cancel; None for those of B.

        Constraints that no velocity changes, as those of a plane loop across its plane, have rows
        of rounding errors. They are redundant, which their size relative to these bounds shows.
        """
        return None

    def forward(
        self,
        t: Time,
        q: Configuration,
        v: Velocity,
        residual: Float[Array, " nv"],
        push: Callable,
    ) -> ForwardLinearization:
        """Linearization with this residual, which changes by `push`, and the constraints."""
        return ForwardLinearization(
            space=self.system.space,
            residual=residual,
            constraints=self.system.constraint_jacobian(t, q),
            bounds=self.bounds(t, q),
            rates=self.change_of_rates(t, q, v),
            velocity_rows=self.system.velocity_rows,
            q=q,
            push=push,
        )
