"""Laws of contact: normal forces of an overlap, and friction."""

import abc
import numbers
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.fields import Parameter
from lie_jax.numerics import small

# Part 1 + a δ̇ of a force below which it falls to zero smoothly.
_PULLING = 0.01


class AbstractNormalLaw(AbstractElement):
    """Force (N) between two shapes that overlap by δ (m), at the rate δ̇ (m/s).

    **Arguments** that laws share: `dissipation`: a, not negative, s/m: the force is that of a
    spring times 1 + a δ̇, and zero where that would pull.
    """

    @abc.abstractmethod
    def force(self, overlap: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        """Normal force (N), not negative; zero for a negative overlap."""

    @abc.abstractmethod
    def energy(self, overlap: Float[Array, ""]) -> Float[Array, ""]:
        """Energy of the spring (J)."""


def _without_pull(x: Array) -> Array:
    """X above a small bound, zero below zero, and between them a polynomial: twice smooth."""
    s = jnp.clip(x / _PULLING, 0.0, 1.0)
    return jnp.where(x < _PULLING, _PULLING * s * s * s * (6.0 + s * (3.0 * s - 8.0)), x)


def _of_python(x: Any) -> Any:
    """A number as one of Python, which has no precision of its own."""
    return float(x) if isinstance(x, numbers.Real) and not isinstance(x, bool) else x


class HuntCrossley(AbstractNormalLaw):
    """The force k δᵖ (1 + a δ̇) of an overlap δ (Hunt and Crossley, 1975).

    A free body that hits a fixed one with the speed v leaves it with the speed w of
    v + w = ln((1 + a v)/(1 - a w)) / a, whatever k, p and its mass: 1 - 2 a v / 3 of v for small
    a v. At rest under a weight G it sinks by (G/k)^(1/p).

    Derivatives of a run with steps of one size need a law that is smooth at touch: with p = 2 and
    40 steps a contact they are right to 8e-3, with p = 1 to 0.2.

    **Arguments:** `stiffness`: k, positive, N/mᵖ; `exponent`: p, at least 1, 3/2 for the sphere of
    Hertz; it is part of the program and has no derivatives; `dissipation`: a, not negative, s/m.
    Raises `ValueError` for other values.
    """

    stiffness: Parameter = fields.positive("N/mᵖ")
    exponent: float = eqx.field(static=True, default=2.0, converter=_of_python)
    dissipation: Parameter = fields.non_negative("s/m", default=0.0)

    def __check_init__(self):
        p = self.exponent
        if isinstance(p, bool) or not isinstance(p, numbers.Real) or not 1.0 <= p < float("inf"):
            raise ValueError(
                f"HuntCrossley(exponent=) is {p!r}; it must be a number of Python, at least 1: "
                "give 1.5 for round bodies by Hertz, 1.0 for a linear law."
            )

    def _power(self, overlap: Array, power: float) -> Array:
        there = overlap > 0.0
        return jnp.where(there, jnp.where(there, overlap, 1.0) ** power, 0.0)

    @override
    def force(self, overlap, rate):
        spring = self.stiffness * self._power(overlap, self.exponent)
        return spring * _without_pull(1.0 + self.dissipation * rate)

    @override
    def energy(self, overlap):
        power = self.exponent + 1.0
        return self.stiffness / power * self._power(overlap, power)


class SmoothLinear(AbstractNormalLaw):
    """The force of a linear spring whose stiffness grows from zero in a thin layer.

    k (δ - ε/2) beyond the overlap ε, and k ε (s³ - s⁴/2), s = δ/ε, in the layer: twice smooth.

    **Arguments:** `stiffness`: k, positive, N/m; `onset`: ε, positive, m; `dissipation`: a, not
    negative, s/m. Raises `ValueError` for other values.
    """

    stiffness: Parameter = fields.positive("N/m")
    onset: Parameter = fields.positive("m")
    dissipation: Parameter = fields.non_negative("s/m", default=0.0)

    @override
    def force(self, overlap, rate):
        s = jnp.clip(overlap / self.onset, 0.0, 1.0)
        within = self.onset * s * s * s * (1.0 - 0.5 * s)
        beyond = overlap - 0.5 * self.onset
        spring = self.stiffness * jnp.where(overlap < self.onset, within, beyond)
        return spring * _without_pull(1.0 + self.dissipation * rate)

    @override
    def energy(self, overlap):
        s = jnp.clip(overlap / self.onset, 0.0, 1.0)
        square = self.onset * self.onset
        within = square * s**4 * (0.25 - 0.1 * s)
        distance = overlap - 0.5 * self.onset
        beyond = 0.5 * distance * distance + 0.025 * square
        return self.stiffness * jnp.where(overlap < self.onset, within, beyond)


class Coulomb(AbstractElement):
    """Friction of a contact, smooth at rest.

    At the slip v between the two bodies, in the plane of contact, the force is
    -μ Fₙ v / √(|v|² + vₛ²). It holds nothing at rest: under a load of the part r of μ Fₙ a contact
    creeps at vₛ r / √(1 - r²).

    **Arguments:**

    - `coefficient`: μ of sliding, not negative.
    - `velocity`: vₛ, positive, m/s.
    - `static_coefficient`: μ at rest, not negative; between the two μ falls by
      exp(-|v|²/`stribeck_velocity`²). By default that of sliding.
    - `stribeck_velocity`: positive, m/s, 0.01 by default.
    - `spinning_radius`: R (m), not negative: the torque -μ Fₙ R ω / √(ω² + (vₛ/R)²) about the
      normal, against the relative angular velocity ω there. Without by default.
    - `rolling_lever`: b (m), not negative: the same torque about the tangents, against rolling,
      with b in place of R and Fₙ in place of μ Fₙ. Without by default.

    Raises `ValueError` for values that break these rules.
    """

    coefficient: Parameter = fields.non_negative("without unit")
    velocity: Parameter = fields.parameter(
        lambda where, value: checks.positive(where, value, "m/s"), default=1e-3
    )
    static_coefficient: Any = fields.non_negative("without unit", default=None)
    stribeck_velocity: Parameter = fields.parameter(
        lambda where, value: checks.positive(where, value, "m/s"), default=1e-2
    )
    spinning_radius: Any = fields.non_negative("m", default=None)
    rolling_lever: Any = fields.non_negative("m", default=None)

    def force(self, normal_force: Float[Array, ""], slip: Float[Array, "3"]) -> Float[Array, "3"]:
        """Force (N) against a slip (m/s) in the plane of contact."""
        return self.against(self.limit(small.dot(slip, slip)) * normal_force, slip)

    def against(self, largest: Float[Array, ""], slip: Float[Array, "3"]) -> Float[Array, "3"]:
        """Force (N) against a slip (m/s) that grows to the `largest` one (N)."""
        share = 1.0 / jnp.sqrt(small.dot(slip, slip) + self.velocity * self.velocity)
        return -largest * share * slip

    def limit(self, square: Float[Array, ""]) -> Float[Array, ""]:
        """Coefficient μ at a slip with this square (m²/s²)."""
        if self.static_coefficient is None:
            return self.coefficient
        fall = jnp.exp(-square / (self.stribeck_velocity * self.stribeck_velocity))
        return self.coefficient + (self.static_coefficient - self.coefficient) * fall

    def torque(
        self, normal_force: Float[Array, ""], normal: Float[Array, "3"], omega: Float[Array, "3"]
    ) -> Float[Array, "3"] | None:
        """Torque (N m) against a relative angular velocity (rad/s); None without resistance."""
        about = small.dot(normal, omega) * normal
        torque = None
        for lever, share, part in (
            (self.spinning_radius, self.coefficient, about),
            (self.rolling_lever, 1.0, omega - about),
        ):
            if lever is None:
                continue
            square = lever * lever * small.dot(part, part)
            rate = jnp.sqrt(square + self.velocity * self.velocity)
            added = -share * normal_force * lever * lever / rate * part
            torque = added if torque is None else torque + added
        return torque
