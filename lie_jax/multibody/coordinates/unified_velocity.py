"""Six translational velocities of each body in place of its twist.

Velocities and local coordinates are those of SE(3), times a constant matrix D.
"""

from typing import no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import unified_velocity
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.numerics import small
from lie_jax.spaces.products import AbstractComposedSpace

Rows = tuple[tuple[float, ...], ...]


class UnifiedVelocity(AbstractComposedSpace, SE3):
    """Rigid-body configurations as SE(3) with unified local velocities w = D (Rᵀ ṙ, ω).

    Each wᵢ = bᵢ · (U + ω × yᵢ) is the velocity of a body-fixed point yᵢ along a direction bᵢ, U
    that of the frame's origin in body components: six velocities of one kind. Configurations are
    stored as `SE3()` stores them, position and unit quaternion, local coordinates are D times those
    of SE(3). The motion does not depend on the choice of points and directions.

    **Arguments:** `points`: y (6, 3), m; `directions`: b (6, 3), both in the body frame, numbers
    and not parameters to be differentiated; without them those of
    `lie_jax.groups.unified_velocity.hexahedron()`. The edges of a tetrahedron are
    `UnifiedVelocity(*lie_jax.groups.unified_velocity.tetrahedron())`. Raises `ValueError` for one
    without the other, other shapes, and lines that do not determine the motion. Source: [S2] (68),
    (114) to (117).
    """

    points: Rows = eqx.field(static=True, default=())
    directions: Rows = eqx.field(static=True, default=())

    # Other shapes raise `ValueError` below.
    @no_type_check
    def __init__(self, points: ArrayLike | None = None, directions: ArrayLike | None = None):
        if checks.has_tracers(points, directions):
            raise ValueError(
                "UnifiedVelocity(points=, directions=) are traced by JAX; they must be numbers, "
                "for the motion does not depend on them: build the formulation outside of jit, "
                "vmap and derivatives."
            )
        if (points is None) != (directions is None):
            given, other = "points", "directions"
            if points is None:
                given, other = other, given
            raise ValueError(
                f"UnifiedVelocity({given}=) comes without {other}; give both, six lines in the "
                "body frame, or neither for those of a hexahedron."
            )
        # A model may be built inside a compiled function; these numbers are not part of it.
        with jax.ensure_compile_time_eval():
            if points is None or directions is None:
                points, directions = unified_velocity.hexahedron()
            unified_velocity.projection(points, directions)
        self.coordinates, self.chart = "quaternion", "exp"
        self.points, self.directions = (
            tuple(map(tuple, np.asarray(vectors, float).tolist()))
            for vectors in (points, directions)
        )

    def _matrix(self) -> np.ndarray:
        y, b = np.asarray(self.points), np.asarray(self.directions)
        return np.concatenate([b, np.cross(y, b)], axis=1)  # [S2] (70)

    def _to_unified(self, twist: Array) -> Array:
        return small.matvec(jnp.asarray(self._matrix(), twist.dtype), twist)

    def _twist(self, w: Array) -> Array:
        return small.matvec(jnp.asarray(np.linalg.inv(self._matrix()), w.dtype), w)

    @override
    def _apply(self, method, arguments, types):
        """The map of SE(3) between twists, T for example D T(D⁻¹ x) D⁻¹. [S2] (114)"""
        images = (
            self._twist(x) if letter == "v" else x
            for x, letter in zip(arguments, types[:-1], strict=True)
        )
        result = getattr(SE3(), method)(*images)
        return self._to_unified(result) if types[-1] == "v" else result

    @override
    def rate_at_zero(self, v):
        return v

    @override
    def magnitude(self, q):
        """|D| times the magnitude of SE(3)."""
        sizes = jnp.asarray(np.abs(self._matrix()), q.dtype)
        return small.matvec(sizes, SE3().magnitude(q))

    @override
    def hybrid_velocity(self, rotation, q, v):
        return super().hybrid_velocity(rotation, q, self._twist(v))

    @override
    def hybrid_acceleration(self, rotation, q, v, dv):
        return super().hybrid_acceleration(rotation, q, self._twist(v), self._twist(dv))

    @override
    def generalized_force(self, rotation, q, force, torque):
        """D⁻ᵀ (Rᵀ f, τ). [S2] (101)"""
        wrench = super().generalized_force(rotation, q, force, torque)
        return small.matvec(jnp.asarray(np.linalg.inv(self._matrix()).T, wrench.dtype), wrench)

    @override
    def velocity(self, rotation, q, linear, omega):
        return self._to_unified(super().velocity(rotation, q, linear, omega))

    @override
    def acceleration(self, rotation, q, v, linear, angular):
        twist = self._twist(v)
        return self._to_unified(super().acceleration(rotation, q, twist, linear, angular))

    @override
    def turn(self, v):
        """The turn of the twist D⁻¹ w, to which each velocity belongs."""
        return jnp.broadcast_to(jnp.max(super().turn(self._twist(v))), (6,))
