"""The screw that leads from one pose to another, and its derivatives by the twists of both.

With C_B = C_A exp(h), h = (y, φ), and body twists η of both poses,

    ḣ = dexp⁻¹(-h) η_B - dexp⁻¹(h) η_A,

and wrenches that do the work of σ on ḣ are +dexp⁻¹(h)ᵀ σ at A and -dexp⁻¹(-h)ᵀ σ at B, less their
sign. All of them consist of two blocks (3, 3): dexp⁻¹(h) = (D, B; 0, D) and dexp⁻¹(-h) = (Dᵀ, Bᵀ;
0, Dᵀ), of which D is dexp⁻¹(φ) of SO(3), and B its derivative along y. Source: [S4] (2.39), (2.40).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import se3, series, so3
from lie_jax.groups.rotation_algebra import with_square
from lie_jax.numerics import small

Scalar = Float[Array, ""]
Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
Twist = Float[Array, "6"]
Matrix6 = Float[Array, "6 6"]


class Screw(NamedTuple):
    """Translation y (m) and rotation φ (rad) of a screw h, the blocks D and B of dexp⁻¹(h), and
    E(φ²) of `series.e` with 2 E' and 4 E''.
    """

    y: Vector
    phi: Vector
    d: Matrix
    b: Matrix
    coefficients: tuple[Scalar, Scalar, Scalar]

    @property
    def twist(self) -> Twist:
        """The screw h = (y, φ)."""
        return jnp.concatenate([self.y, self.phi])


def between(rotation: Matrix, position: Vector) -> Screw:
    """Screw of a relative pose, whose rotation is smaller than π."""
    # Without the barriers XLA repeats logarithm and series for each of their many uses.
    phi = jax.lax.optimization_barrier(so3.log(rotation))
    skew, square, t = with_square(phi)
    e, slope, bend = jax.lax.optimization_barrier((series.e(t), *series.e_rates(t)))
    identity = jnp.eye(3, dtype=phi.dtype)
    d = identity - 0.5 * skew + e * square
    y = small.matvec(d, position)
    along = small.dot(phi, y)
    change = small.outer(phi, y) + small.outer(y, phi) - 2.0 * along * identity
    b = e * change + slope * along * square - 0.5 * small.hat(y)
    d, b = jax.lax.optimization_barrier((d, b))
    return Screw(y, phi, d, b, (e, slope, bend))


def rates_by_twists(screw: Screw) -> tuple[Matrix6, Matrix6]:
    """Matrices (6, 6) by which ḣ follows from the body twists of A and of B."""
    at_a = se3.upper(-screw.d, -screw.b, -screw.d)
    return at_a, se3.upper(screw.d.T, screw.b.T, screw.d.T)


def pullback(screw: Screw, sigma: Twist) -> tuple[Twist, Twist]:
    """Products with σ of the transposed matrices of `rates_by_twists`."""
    n, m = sigma[:3], sigma[3:]

    def product(d: Matrix, b: Matrix) -> Twist:
        return jnp.concatenate([small.matvec(d, n), small.matvec(b, n) + small.matvec(d, m)])

    return -product(screw.d.T, screw.b.T), product(screw.d, screw.b)


def rate(screw: Screw, at_a: Twist, at_b: Twist) -> Twist:
    """Rate ḣ from the body twists of A and of B."""

    def product(d: Matrix, b: Matrix, eta: Twist) -> Twist:
        v, omega = eta[:3], eta[3:]
        linear = small.matvec(d, v) + small.matvec(b, omega)
        return jnp.concatenate([linear, small.matvec(d, omega)])

    return product(screw.d.T, screw.b.T, at_b) - product(screw.d, screw.b, at_a)


def change_of_pulled_back(screw: Screw, sigma: Twist) -> tuple[Matrix6, Matrix6]:
    """Derivatives (6, 6) of `pullback` by h, at constant σ."""
    n, m = sigma[:3], sigma[3:]

    def of(sign: float) -> Matrix6:
        first, coupling = _changes(sign, screw, n)
        last = coupling + _by_rotation(sign, screw, m)
        return jnp.concatenate(
            [
                jnp.concatenate([jnp.zeros_like(first), first], axis=1),
                jnp.concatenate([first, last], axis=1),
            ]
        )

    return -of(-1.0), of(1.0)


def change_of_rate(screw: Screw, at_a: Twist, at_b: Twist) -> Matrix6:
    """Derivative (6, 6) of ḣ by h, at constant twists of A and of B."""

    def of(sign: float, eta: Twist) -> Matrix6:
        of_omega, coupling = _changes(sign, screw, eta[3:])
        return se3.upper(of_omega, coupling + _by_rotation(sign, screw, eta[:3]), of_omega)

    return of(-1.0, at_b) - of(1.0, at_a)


def carry(offset: Matrix6, rotation: Matrix) -> Matrix6:
    """Matrix (6, 6) from the hybrid velocity of a body to the twist of a node.

    `offset` leads from the body's twist to the node's, both in their axes.
    """
    turned = small.matmul(offset[:, :3], rotation.T)
    return jnp.concatenate([turned, offset[:, 3:]], axis=1)


def _changes(sign: float, screw: Screw, a: Vector) -> tuple[Matrix, Matrix]:
    """`_by_rotation`, and its derivative along y: that of B a, or Bᵀ a, by φ."""
    _, slope, bend = screw.coefficients
    along = small.dot(screw.phi, screw.y)
    # E and 2 E' depend on φ², which changes by 2 φ·y.
    changes = screw.y, (slope * along, bend * along)

    def of(phi: Vector, coefficients: tuple[Scalar, Scalar]) -> Matrix:
        return _derivative(sign, phi, coefficients, a)

    return jax.jvp(of, (screw.phi, screw.coefficients[:2]), changes)


def _by_rotation(sign: float, screw: Screw, a: Vector) -> Matrix:
    """Derivative of D a by φ for the sign +1, of Dᵀ a for -1."""
    return _derivative(sign, screw.phi, screw.coefficients[:2], a)


def _derivative(sign: float, phi: Vector, coefficients: tuple[Scalar, Scalar], a: Vector) -> Matrix:
    """The derivative of D a = a - φ × a / 2 + E φ × (φ × a) by φ with E and 2 E'."""
    e, slope = coefficients
    along = small.dot(phi, a)
    double = along * phi - small.dot(phi, phi) * a
    symmetric = small.outer(phi, a) + along * jnp.eye(3, dtype=a.dtype) - 2.0 * small.outer(a, phi)
    return 0.5 * sign * small.hat(a) + e * symmetric + slope * small.outer(double, phi)
