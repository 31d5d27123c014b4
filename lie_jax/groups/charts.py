"""Charts of rotations and poses, and storages of orientations, by their names.

A chart is a map ψ from local coordinates to a group, with its inverse and its differentials. A
storage converts the absolute coordinates of an orientation to and from unit quaternions.
"""

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import closed_forms, quaternion, se3, so3, tait_bryan
from lie_jax.numerics import small


class AbstractChart(eqx.Module):
    """Local coordinates x (3,) of rotations of one's own, for `lie_jax.R3SO3(chart=)`.

    A chart gives `map`, with the inverse rotation at -x and the same slope in all directions at
    zero, and `inverse`; both are smooth at zero. By default its differentials are derivatives of
    these. `largest` is the angle (rad) that turns stay below. Charts have no parameters: they are
    static. `R3SO3` raises `ValueError` for maps that break these rules.
    """

    largest: ClassVar[float] = np.pi

    @abc.abstractmethod
    def map(self, x: Float[Array, "3"]) -> Float[Array, "4"]:
        """Unit quaternion of local coordinates."""

    @abc.abstractmethod
    def inverse(self, q: Float[Array, "4"]) -> Float[Array, "3"]:
        """Local coordinates of a unit quaternion; of q and -q the same."""

    def differential(self, x: Float[Array, "3"], y: Float[Array, "3"]) -> Float[Array, "3"]:
        """Angular velocity dψ(x) y, inertial components, where x changes by y."""
        q, rate = jax.jvp(self.map, (x,), (y,))
        return 2.0 * quaternion.multiply(rate, quaternion.conjugate(q))[1:]

    def differential_inv(self, x: Float[Array, "3"], y: Float[Array, "3"]) -> Float[Array, "3"]:
        """dψ(x)⁻¹ y."""
        return small.matvec(self._inverse(x), y)

    def differential_inv_derivative(
        self, x: Float[Array, "3"], u: Float[Array, "3"]
    ) -> Float[Array, "3 3"]:
        """Derivative of the matrix dψ(x)⁻¹ along u."""
        return jax.jvp(self._inverse, (x,), (u,))[1]

    def _inverse(self, x: Array) -> Float[Array, "3 3"]:
        columns = jax.vmap(lambda y: self.differential(x, y), out_axes=1)
        cofactors, determinant = small.adjugate(columns(jnp.eye(3, dtype=x.dtype)))
        return cofactors / determinant

    def objection(self) -> str | None:
        """Sentence on a rule that the maps break at some place, None without."""
        if jax.tree.leaves(self):
            return "has arrays, and a chart is static: make them numbers of Python in static fields"
        with jax.ensure_compile_time_eval():
            x = jnp.asarray([0.1, -0.2, 0.15])
            q, back = self.map(x), self.map(-x)
            identity = jnp.asarray([1.0, 0.0, 0.0, 0.0])
            slopes = jax.vmap(lambda y: self.differential(jnp.zeros(3), y))(jnp.eye(3))
            slack = 100.0 * float(jnp.finfo(x.dtype).eps)

            def off(a: Array, b: Array) -> bool:
                return not float(jnp.max(jnp.abs(a - b))) <= slack

            if off(small.dot(q, q), jnp.ones(())):
                return "maps x to a quaternion that has not unit length"
            if off(quaternion.multiply(q, back), identity):
                return "does not map -x to the inverse of the rotation of x"
            if off(self.inverse(q), x) or off(self.inverse(-q), x):
                return "has an inverse that does not lead back from map(x), or from its negative"
            if off(slopes, slopes[0, 0] * jnp.eye(3)):
                return "has slopes at zero that differ between directions"
        return None

    @property
    def slope(self) -> float:
        """dψ(0) is this number times the identity."""
        with jax.ensure_compile_time_eval():
            along = jnp.asarray([1.0, 0.0, 0.0])
            return float(self.differential(jnp.zeros(3), along)[0])

    @property
    def curvature(self) -> float:
        """Number c in slope ψ⁻¹(exp(y)) = y + c/6 |y|² y + ..."""

        def along(s):
            return self.slope * self.inverse(quaternion.exp(jnp.stack([s, 0.0 * s, 0.0 * s])))[0]

        with jax.ensure_compile_time_eval():
            return float(jax.grad(jax.grad(jax.grad(along)))(jnp.zeros(())))


class Chart(NamedTuple):
    """Local coordinates x (3,) of rotations.

    - `map`, `inverse`: ψ to unit quaternions, and back;
    - `differential(x, y)`, `differential_inv(x, y)`: dψ(x) y and dψ(x)⁻¹ y;
    - `differential_inv_derivative(x, u)`: derivative of the matrix dψ(x)⁻¹ along u;
    - `slope`, `curvature`: dψ(0) = slope I; c of slope ψ⁻¹(exp(y)) = y + c/6 |y|² y + ...;
    - `largest`: angle (rad) that turns stay below.
    """

    map: Callable
    inverse: Callable
    differential: Callable
    differential_inv: Callable
    differential_inv_derivative: Callable
    slope: float
    curvature: float
    largest: float


EXP = Chart(
    quaternion.exp, quaternion.log, so3.dexp_apply, so3.dexp_inv_apply,
    closed_forms.so3_ddexp_inv, slope=1.0, curvature=0.0, largest=2.0 * np.pi,
)  # fmt: skip
CAYLEY = Chart(
    quaternion.cay, quaternion.cay_inv, so3.dcay_apply, so3.dcay_inv_apply,
    closed_forms.so3_ddcay_inv, slope=2.0, curvature=0.5, largest=np.pi,
)  # fmt: skip
CAYLEY2 = Chart(
    quaternion.cay2, quaternion.cay2_inv, so3.dcay2_apply, so3.dcay2_inv_apply,
    closed_forms.so3_ddcay2_inv, slope=4.0, curvature=0.125, largest=2.0 * np.pi,
)  # fmt: skip
ROTATION_CHARTS = {"exp": EXP, "cayley": CAYLEY, "cayley2": CAYLEY2}


class ScrewChart(NamedTuple):
    """Local coordinates (y, x) (6,) of poses, with the rotation ψ(x) of the chart of the same name.

    - `translation(x, y)`, `translation_inv(x, position)`: position of the pose, and y from it;
    - `differential`, `differential_inv`, `differential_inv_derivative`: as of `Chart`, on twists.
    """

    translation: Callable
    translation_inv: Callable
    differential: Callable
    differential_inv: Callable
    differential_inv_derivative: Callable


SCREW_CHARTS = {
    "exp": ScrewChart(
        so3.dexp_apply, so3.dexp_inv_apply,
        se3.dexp_apply, se3.dexp_inv_apply, closed_forms.se3_ddexp_inv,
    ),
    "cayley": ScrewChart(
        lambda x, y: y + quaternion.rotate(quaternion.cay(x), y),
        lambda x, position: 0.5 * (position - small.cross(x, position)),
        se3.dcay_apply, se3.dcay_inv_apply, closed_forms.se3_ddcay_inv,
    ),
}  # fmt: skip


class Storage(NamedTuple):
    """Absolute coordinates p (size,) of an orientation.

    - `from_quaternion`, `to_quaternion`, `to_matrix`: conversions;
    - `lift(p, omega_body)`: time derivative of p for an angular velocity (rad/s);
    - `invalid(p)`: reason why numbers are no orientation, or None;
    - `deviation(p)`: by how much they are none, zero where only `regular` decides;
    - `regular(p)`: whether p (..., size) is away from singularities.
    """

    size: int
    from_quaternion: Callable
    to_quaternion: Callable
    to_matrix: Callable
    lift: Callable
    invalid: Callable
    regular: Callable = lambda p: jnp.ones(p.shape[:-1], bool)
    deviation: Callable = lambda p: jnp.zeros((), p.dtype)


def _invalid_quaternion(p: np.ndarray) -> str | None:
    norm = float(np.linalg.norm(p))
    if abs(norm - 1.0) <= np.sqrt(np.finfo(p.dtype).eps):
        return None
    return (
        f"the quaternion {p.tolist()} has norm {norm:.9g}; it must be a unit quaternion, scalar "
        "first: divide it by its norm"
    )


def _invalid_rotation_vector(p: np.ndarray) -> str | None:
    norm = float(np.linalg.norm(p))
    if norm <= np.pi + np.sqrt(np.finfo(p.dtype).eps):
        return None
    return (
        f"the rotation vector {p.tolist()} has norm {norm:.9g} > π; use the principal one, "
        "ψ (1 - 2π/|ψ|)"
    )


def _norm(p: Array) -> Array:
    return jnp.sqrt(small.dot(p, p))


QUATERNION = Storage(
    4, quaternion.renormalize, lambda p: p, quaternion.to_matrix, quaternion.lift,
    _invalid_quaternion, deviation=lambda p: jnp.abs(_norm(p) - 1.0),
)  # fmt: skip
STORAGES = {
    "quaternion": QUATERNION,
    "rotation_vector": Storage(
        3, quaternion.log, quaternion.exp, so3.exp,
        lambda p, omega_body: so3.dexp_inv_apply(-p, omega_body), _invalid_rotation_vector,
        deviation=lambda p: jnp.maximum(_norm(p) - np.pi, 0.0),
    ),
    "tait_bryan": Storage(
        3, tait_bryan.from_quaternion, tait_bryan.to_quaternion, tait_bryan.to_matrix,
        tait_bryan.lift, tait_bryan.invalid, tait_bryan.regular,
    ),
}  # fmt: skip
