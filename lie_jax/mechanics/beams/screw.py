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
from lie_jax.numerics import small

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
Twist = Float[Array, "6"]
Matrix6 = Float[Array, "6 6"]


class Screw(NamedTuple):
    """Translation y (m) and rotation φ (rad) of a screw h, and the blocks D and B of dexp⁻¹(h)."""

    y: Vector
    phi: Vector
    d: Matrix
    b: Matrix

    @property
    def twist(self) -> Twist:
        """The screw h = (y, φ)."""
        return jnp.concatenate([self.y, self.phi])


def between(rotation: Matrix, position: Vector) -> Screw:
    """Screw of a relative pose, whose rotation is smaller than π."""
    phi = so3.log(rotation)
    d = so3.dexp_inv(phi)
    y = small.matvec(d, position)
    return Screw(y, phi, d, so3.ddexp_inv(phi, y))


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
        last = coupling + _by_rotation(sign, screw.phi, m)
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
        return se3.upper(of_omega, coupling + _by_rotation(sign, screw.phi, eta[:3]), of_omega)

    return of(-1.0, at_b) - of(1.0, at_a)


def _changes(sign: float, screw: Screw, a: Vector) -> tuple[Matrix, Matrix]:
    """`_by_rotation`, and its derivative along y: that of B a, or Bᵀ a, by φ."""
    return jax.jvp(lambda phi: _by_rotation(sign, phi, a), (screw.phi,), (screw.y,))


def _by_rotation(sign: float, phi: Vector, a: Vector) -> Matrix:
    """Derivative of D a by φ for the sign +1, of Dᵀ a for -1.

    D a = a - φ × a / 2 + q φ × (φ × a), where q depends on φ².
    """
    t = small.dot(phi, phi)
    q, (slope, _) = series.e(t), series.e_rates(t)
    along = small.dot(phi, a)
    double = along * phi - t * a
    symmetric = small.outer(phi, a) + along * jnp.eye(3, dtype=a.dtype) - 2.0 * small.outer(a, phi)
    return 0.5 * sign * small.hat(a) + q * symmetric + slope * small.outer(double, phi)
