"""Places where the bodies of a system touch, for methods that solve for the impulses of a step.

During a step a place is held: its normal and the map from velocities v to the velocity w of one
body against the other there. The force on the first body is a function of w that falls with it, so
that its work is the derivative of a convex function of v.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small


class AbstractPlaces(eqx.Module):
    """Places that are held for a step from an instant.

    `jacobian` (n, 3, nv): w = jacobian v, inertial components, m/s.
    """

    jacobian: Float[Array, "n 3 nv"]

    @property
    @abc.abstractmethod
    def rub(self) -> bool:
        """Whether any place has friction."""

    @abc.abstractmethod
    def limits(self, dt: Float[Array, ""] | float, w: Float[Array, "n 3"]) -> Float[Array, " n"]:
        """Largest friction forces (N): the coefficient times the normal force after a time dt (s).

        Coefficients are those of the instant.
        """

    @abc.abstractmethod
    def forces(
        self, dt: Float[Array, ""], limits: Float[Array, " n"], w: Float[Array, "n 3"]
    ) -> Float[Array, "n 3"]:
        """Forces (N) after a time dt (s) with the relative velocities w.

        The normal force is the law's with the overlap and the rate that w leads to; friction obeys
        the given limits. Each force is minus the derivative of a convex function of its w.
        """

    def relative(self, v: Float[Array, " nv"]) -> Float[Array, "n 3"]:
        """Relative velocities w (m/s) at velocities v."""
        return jnp.sum(self.jacobian * v[None, None], axis=2)

    def generalized_force(self, forces: Float[Array, "n 3"]) -> Float[Array, " nv"]:
        """Generalised force of the forces at the places."""
        return jnp.sum(self.jacobian * forces[:, :, None], axis=(0, 1))

    def slopes(
        self, dt: Float[Array, ""], limits: Float[Array, " n"], w: Float[Array, "n 3"]
    ) -> Float[Array, "n 3 3"]:
        """Derivatives of minus the forces by w, symmetric and positive semidefinite, N s/m."""

        def column(direction):
            along = jnp.broadcast_to(direction, w.shape)
            return -jax.jvp(lambda w: self.forces(dt, limits, w), (w,), (along,))[1]

        return small.once(jax.vmap(column, out_axes=2)(jnp.eye(3, dtype=w.dtype)))
