"""Strains along an element between the nodes: constant, or linear.

With C_B = C_A exp(h), length L, stiffness K and strain at rest f⁰, both give the energy V(h) of an
element, the force σ = ∂V/∂h that does work on ḣ, and its tangent ∂σ/∂h. A constant strain is h/L.

A linear one runs from m - a/2 to m + a/2, and its pose follows by Magnus' series to the fourth
order, h = L m + L²/12 [m, a]. The ends leave one of m and a open: it takes the value of least
energy V = L/2 (m - f⁰)·K (m - f⁰) + L/24 a·K a. With s = K (m - f⁰), the force in the middle, that
is K a = L ad(m)ᵀ s, the balance of forces along an element without loads on its length, so that
errors are of the fourth order there. With h/L for m in the brackets, which differs by L², and C =
K⁻¹,

    h/L - f⁰ = G s,    G = C + L²/12 ad(h/L) C ad(h/L)ᵀ,    V = L/2 (h/L - f⁰)·G⁻¹ (h/L - f⁰):

bending over the length makes an element softer, however stiff it is in shear and extension.
"""

import abc
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.groups import se3
from lie_jax.mechanics.beams.screw import Matrix6, Twist
from lie_jax.numerics import small


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


class Linear(AbstractLaw):
    """A strain that changes at one rate along the element."""

    @override
    def energy(self, element, h):
        balance = _balance(element, h)
        return 0.5 * element.length * small.dot(balance.strain, balance.force)

    @override
    def force(self, element, h):
        balance = _balance(element, h)
        # The brackets in G change with h, too.
        pulled = small.matvec(se3.ad(balance.slope).T, balance.force)
        return balance.force + element.length / 12.0 * pulled

    @override
    def tangent(self, element, h):
        balance, share = _balance(element, h), element.length / 12.0
        n, m = (small.hat(part) for part in (balance.force[:3], balance.force[3:]))
        # ad(x)ᵀ s = S x.
        turned = small.block_2x2(jnp.zeros_like(n), n, n, m)
        slopes = element.length * small.matmul(balance.compliance, turned)
        bent = se3.ad(balance.slope) - small.matmul(balance.bracket, slopes)
        by_strain = jnp.eye(6, dtype=h.dtype) + share * bent
        soft = small.matmul(by_strain.T, small.matmul(balance.stiffness, by_strain))
        return (soft + share * small.matmul(turned, slopes)) / element.length

    @override
    def strain(self, element, h):
        balance = _balance(element, h)
        return element.rest_strain + small.matvec(balance.compliance, balance.force)

    @override
    def screw_to(self, element, h, xi):
        slope = _balance(element, h).slope
        # With this strain in the middle the end is that of h.
        eye = jnp.eye(6, dtype=h.dtype)
        inverse = small.inverse(eye - element.length / 12.0 * se3.ad(slope))
        first = small.matvec(inverse, h / element.length) - 0.5 * slope
        length = xi * element.length
        bracket = small.matvec(se3.ad(first), xi * slope)
        return length * (first + 0.5 * xi * slope) + length**2 / 12.0 * bracket


class _Balance(NamedTuple):
    """Strain h/L - f⁰, force s in the middle, slope a; C, ad(h/L) and G⁻¹."""

    strain: Twist
    force: Twist
    slope: Twist
    compliance: Matrix6
    bracket: Matrix6
    stiffness: Matrix6


def _balance(element: Element, h: Twist) -> _Balance:
    middle = h / element.length
    compliance, bracket = small.inverse(element.stiffness), se3.ad(middle)
    bent = small.matmul(compliance, bracket.T)
    soft = compliance + element.length**2 / 12.0 * small.matmul(bracket, bent)
    stiffness, strain = small.inverse(soft), middle - element.rest_strain
    force = small.matvec(stiffness, strain)
    slope = element.length * small.matvec(bent, force)
    return _Balance(strain, force, slope, compliance, bracket, stiffness)
