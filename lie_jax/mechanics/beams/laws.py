"""Strains along an element between the nodes: constant, or linear.

With C_B = C_A exp(h), length L, stiffness K and strain at rest f⁰, both give the energy V(h) of an
element, the force σ = ∂V/∂h that does work on ḣ, and its tangent ∂σ/∂h. A constant strain is h/L.

A linear one runs from m - a/2 to m + a/2, and its pose follows by Magnus' series to the fourth
order, h = L m + L²/12 [m, a]. The ends leave one of m and a open: it takes the value of least
energy V = L/2 (m - f⁰)·K (m - f⁰) + L/24 a·K a. That is K a = L ad(m)ᵀ σ, the balance of forces
along an element without loads on its length, so that errors are of the fourth order there.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax.groups import se3
from lie_jax.mechanics.beams.screw import Matrix6, Twist
from lie_jax.numerics import newton, rules, small

# Newton's steps for a. Elements that turn by 0.4 rad need three to reach rounding.
_STEPS = 4
# Forces out of balance, relative to those of the element, with which a run goes on.
_UNSOLVED = 1e-6


class Element(NamedTuple):
    """Length (m), stiffness and strain at rest of an element."""

    length: Float[Array, ""]
    stiffness: Matrix6
    rest_strain: Twist


class AbstractLaw(abc.ABC):
    """Elastic law of an element by the screw h between its nodes."""

    @abc.abstractmethod
    def energy(self, element: Element, h: Twist) -> Float[Array, ""]:
        """Strain energy, J."""

    @abc.abstractmethod
    def force(self, element: Element, h: Twist) -> Twist:
        """σ (6,), which does the work σ·ḣ."""

    @abc.abstractmethod
    def tangent(self, element: Element, h: Twist) -> Matrix6:
        """Derivative (6, 6) of σ by h."""

    @abc.abstractmethod
    def strain(self, element: Element, h: Twist) -> Twist:
        """Strain (6,) in the middle."""

    @abc.abstractmethod
    def screw_to(self, element: Element, h: Twist, xi: Float[Array, ""]) -> Twist:
        """Screw (6,) from the first node to the section at the part xi of the length."""

    @abc.abstractmethod
    def misses_minimum(self, element: Element, h: Twist) -> Bool[Array, ""]:
        """Whether strains are not those of least energy."""


class Constant(AbstractLaw):
    """One strain along the element."""

    @override
    def energy(self, element, h):
        strain = self.strain(element, h) - element.rest_strain
        return 0.5 * element.length * small.dot(strain, small.matvec(element.stiffness, strain))

    @override
    def force(self, element, h):
        return small.matvec(element.stiffness, self.strain(element, h) - element.rest_strain)

    @override
    def tangent(self, element, h):
        return element.stiffness / element.length

    @override
    def strain(self, element, h):
        return h / element.length

    @override
    def screw_to(self, element, h, xi):
        return xi * h

    @override
    def misses_minimum(self, element, h):
        return jnp.zeros((), bool)


class Linear(AbstractLaw):
    """A strain that changes at one rate along the element."""

    @override
    def energy(self, element, h):
        balance = _balance(element, h)
        strain, slope = balance.middle - element.rest_strain, balance.slope
        of_middle = small.dot(strain, small.matvec(element.stiffness, strain))
        of_slope = small.dot(slope, small.matvec(element.stiffness, slope))
        return 0.5 * element.length * (of_middle + of_slope / 12.0)

    @override
    def force(self, element, h):
        return _balance(element, h).sigma

    @override
    def tangent(self, element, h):
        balance = _balance(element, h)
        inverse = balance.inverse
        by_h = small.matmul(inverse.T, small.matmul(element.stiffness, inverse)) / element.length
        mixed, twice = balance.second_derivatives()
        return by_h - small.matmul(mixed, small.matmul(small.inverse(twice), mixed.T))

    @override
    def strain(self, element, h):
        return _balance(element, h).middle

    @override
    def screw_to(self, element, h, xi):
        balance = _balance(element, h)
        slope = balance.slope
        first = balance.middle - 0.5 * slope
        length = xi * element.length
        bracket = small.matvec(se3.ad(first), xi * slope)
        return length * (first + 0.5 * xi * slope) + length**2 / 12.0 * bracket

    @override
    def misses_minimum(self, element, h):
        balance = _balance(element, h)
        acting = small.matvec(element.stiffness, balance.slope)
        left = jnp.abs(balance.left())
        return ~jnp.all(left <= _UNSOLVED * jnp.max(jnp.abs(acting) + jnp.abs(balance.sigma)))


class _Balance(NamedTuple):
    """At a slope a of an element: strain m in the middle, (1 - L/12 ad(a))⁻¹, and σ."""

    element: Element
    slope: Twist
    middle: Twist
    inverse: Matrix6
    sigma: Twist

    @staticmethod
    def at(slope: Twist, of: tuple[Element, Twist]) -> "_Balance":
        element, h = of
        eye = jnp.eye(6, dtype=h.dtype)
        inverse = small.inverse(eye - element.length / 12.0 * se3.ad(slope))
        middle = small.matvec(inverse, h / element.length)
        stress = small.matvec(element.stiffness, middle - element.rest_strain)
        return _Balance(element, slope, middle, inverse, small.matvec(inverse.T, stress))

    def left(self) -> Twist:
        """K a - L ad(m)ᵀ σ, 12/L times the derivative of the energy by a."""
        pulled = small.matvec(se3.ad(self.middle).T, self.sigma)
        return small.matvec(self.element.stiffness, self.slope) - self.element.length * pulled

    def solve(self, left: Twist) -> Twist:
        """Change of the slope (6,) that moves `left` by as much, to the first order."""
        _, twice = self.second_derivatives()
        return self.element.length / 12.0 * small.matvec(small.inverse(twice), left)

    def second_derivatives(self) -> tuple[Matrix6, Matrix6]:
        """Derivatives (6, 6) of the energy by h and a, and twice by a."""
        element = self.element
        n, m = (small.hat(part) for part in (self.sigma[:3], self.sigma[3:]))
        # ad(x)ᵀ σ = S x.
        turned = small.block_2x2(jnp.zeros_like(n), n, n, m)
        bracket = se3.ad(self.middle)
        moved = small.matmul(self.inverse, bracket)
        share = element.length / 12.0
        mixed = share * small.matmul(
            self.inverse.T, turned - small.matmul(element.stiffness, moved)
        )
        curved = element.length * (
            share * small.matmul(turned, moved) - small.matmul(bracket.T, mixed)
        )
        return mixed, share * (element.stiffness + curved)


def _balance(element: Element, h: Twist) -> _Balance:
    """Balance at the slope of least energy, by Newton's method."""
    held = rules.stop_gradient((element, h))

    def step(_: Any, slope: Twist) -> Twist:
        balance = _Balance.at(slope, held)
        return slope - balance.solve(balance.left())

    def left(slope: Twist, of: tuple[Element, Twist]) -> Twist:
        return _Balance.at(slope, of).left()

    def linearize(slope: Twist, of: tuple[Element, Twist]) -> tuple[None, _Balance]:
        return None, _Balance.at(slope, of)

    # A loop: written out it would be compiled so many times.
    slope = jax.lax.fori_loop(0, _STEPS, step, jnp.zeros_like(h))
    slope = newton.attach_derivatives(slope, left, linearize, (element, h))
    return _Balance.at(slope, (element, h))
