"""Dynamics of what a flexible body deforms, beyond those of its undeformed shape.

A point x of the body lies at x + u in the body frame, u = Σ ψ_k e_k with the modes ψ and their
amplitudes e. All that the equations of motion need of the modes are sums over the mass: of ψ_k, of
x ψ_kᵀ and of ψ_k ψ_lᵀ. Terms of the undeformed body are those of a rigid one (see `body`) and are
left out here. Hybrid components as there; modes are on the last axes.

Source: Shabana, "Dynamics of multibody systems" (2013), floating frame of reference.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.body import Matrix, Vector
from lie_jax.numerics import small

Amplitudes = Float[Array, " modes"]
Modal = Float[Array, "modes modes"]
# Force (inertial), torque about the origin (body), and forces along amplitudes.
Forces = tuple[Vector, Vector, Amplitudes]

# Factors of the six products of ω in the stiffness of a spin, as rows of 0 and 1.
_FIRST, _SECOND = (np.eye(3)[[*axes]] for axes in ((0, 1, 2, 0, 1, 2), (0, 1, 2, 1, 2, 0)))


class Deformation(eqx.Module):
    """Modes of a flexible body as its equations of motion know them, m of them.

    - `first` (3, m): Σ m ψ_k; `mixed` (3, 3, m): Σ m x ψ_kᵀ; `second` (3, 3, m, m): Σ m ψ_k ψ_lᵀ.
    - `stiffness` (m, m); `damping` (m, m), None for none; `spin` (6, m, m): stiffness by the stress
      of an angular velocity, for each of ω_x², ω_y², ω_z², ω_x ω_y, ω_y ω_z, ω_z ω_x; None for
      none.
    - `points` (i, 3): where the interfaces are; `shifts` and `turns` (i, 3, m): how they move and
      turn with the modes.

    The units are those of kg, m, s and rad with amplitudes in any unit.
    """

    first: Float[Array, "..."]
    mixed: Float[Array, "..."]
    second: Float[Array, "..."]
    stiffness: Float[Array, "..."]
    damping: Float[Array, "..."] | None
    spin: Float[Array, "..."] | None
    points: Float[Array, "..."]
    shifts: Float[Array, "..."]
    turns: Float[Array, "..."]


class Motion(NamedTuple):
    """Motion of a flexible body: R, ω, r̈ less gravity (inertial), ω̇, and e, ė and ë."""

    rotation: Matrix
    omega: Vector
    acceleration: Vector
    angular: Vector
    amplitudes: Amplitudes
    rates: Amplitudes
    growth: Amplitudes


class ForceMatrices(NamedTuple):
    """Derivatives (6 + m, 6 + m) of `forces` by (r̈, ω̇, ë), along hybrid velocities and ė, and by
    these.
    """

    mass: Float[Array, "n n"]
    stiffness: Float[Array, "n n"]
    damping: Float[Array, "n n"]


class _Integrals(NamedTuple):
    """At amplitudes e: Σ m u, Σ m (x + u) ψ_kᵀ, what u adds to the inertia about the origin,
    Σ m (x + u) × ψ_k and Σ m ψ_k · ψ_l.
    """

    moment: Vector
    along: Float[Array, "3 3 modes"]
    inertia: Matrix
    lever: Float[Array, "3 modes"]
    modal: Modal


def _integrals(of: Deformation, amplitudes: Amplitudes) -> _Integrals:
    along = of.mixed + _along(of.second, amplitudes)
    spread = _over_modes(along, amplitudes) + _over_modes(of.mixed, amplitudes).T
    return _Integrals(
        moment=small.matvec(of.first, amplitudes),
        along=along,
        inertia=_inertia(spread),
        lever=small.axial(along),
        modal=_trace(of.second),
    )


def _along(second: Float[Array, "3 3 modes modes"], weights: Amplitudes) -> Array:
    """Σ_l w_l Σ m ψ_l ψ_kᵀ."""
    return _over_modes(second.swapaxes(2, 3), weights)


def _over_modes(values: Float[Array, "... modes"], weights: Amplitudes) -> Float[Array, "..."]:
    """Weighted sum over the modes on the last axis."""
    return jnp.sum(values * weights.reshape(*(1,) * (values.ndim - 1), -1), axis=-1)


def _trace(a: Float[Array, "3 3 ..."]) -> Float[Array, "..."]:
    return a[0, 0] + a[1, 1] + a[2, 2]


def _inertia(spread: Float[Array, "3 3 ..."]) -> Float[Array, "3 3 ..."]:
    """Inertia of a mass with this Σ m x xᵀ."""
    identity = jnp.eye(3, dtype=spread.dtype).reshape(3, 3, *(1,) * (spread.ndim - 2))
    return _trace(spread)[None, None] * identity - spread


def _spin_factors(omega: Vector) -> tuple[Float[Array, "6"], Float[Array, "6"]]:
    first, second = (small.matvec(jnp.asarray(x, omega.dtype), omega) for x in (_FIRST, _SECOND))
    return first, second


def forces(of: Deformation, motion: Motion) -> Forces:
    """Inertia forces of u, with elastic, damping and spin forces along the amplitudes."""
    rotation, omega, acceleration, angular, e, rates, growth = motion
    at, a = _integrals(of, e), small.matvec(rotation.T, acceleration)
    shifting, heap = small.matvec(of.first, rates), _over_modes(at.along, rates)
    force = (
        small.cross(angular, at.moment)
        + small.cross(omega, small.cross(omega, at.moment) + 2.0 * shifting)
        + small.matvec(of.first, growth)
    )
    torque = (
        small.cross(at.moment, a)
        + small.matvec(at.inertia, angular)
        + small.cross(omega, small.matvec(at.inertia, omega))
        + 2.0 * (_trace(heap) * omega - small.matvec(heap.T, omega))
        + small.matvec(at.lever, growth)
    )
    turning = small.outer(omega, omega) - small.dot(omega, omega) * jnp.eye(3, dtype=omega.dtype)
    along = (
        small.matvec(of.first.T, a)
        + small.matvec(at.lever.T, angular)
        + small.matvec(at.modal, growth)
        + jnp.sum(turning[:, :, None] * at.along, axis=(0, 1))
        + 2.0 * small.matvec(small.axial(_along(of.second, rates)).T, omega)
        + small.matvec(_stiffness(of, omega), e)
    )
    if of.damping is not None:
        along = along + small.matvec(of.damping, rates)
    return small.matvec(rotation, force), torque, along


def _stiffness(of: Deformation, omega: Vector) -> Modal:
    if of.spin is None:
        return of.stiffness
    first, second = _spin_factors(omega)
    return of.stiffness + jnp.sum((first * second)[:, None, None] * of.spin, axis=0)


def mass_matrix(of: Deformation, rotation: Matrix, amplitudes: Amplitudes) -> Float[Array, "n n"]:
    """Mass matrix (6 + m, 6 + m) of u for (ṙ, ω, ė); with that of the undeformed body the whole."""
    at = _integrals(of, amplitudes)
    coupling = -small.matmul(rotation, small.hat(at.moment))
    shift = small.matmul(rotation, of.first)
    return jnp.block(
        [
            [jnp.zeros_like(rotation), coupling, shift],
            [coupling.T, at.inertia, at.lever],
            [shift.T, at.lever.T, at.modal],
        ]
    )


def matrices(of: Deformation, motion: Motion) -> ForceMatrices:
    """Derivatives of `forces`, written out."""
    rotation, omega, acceleration, angular, e, rates, growth = motion
    at, spin = _integrals(of, e), small.hat(omega)
    a = small.hat(small.matvec(rotation.T, acceleration))
    shifting, heap = small.matvec(of.first, rates), _over_modes(at.along, rates)
    heaps, square = _along(of.second, rates), small.matmul(spin, spin)
    twice = at.along + at.along.swapaxes(0, 1)
    spread, levers = _inertia(twice), small.axial(of.second)
    moment, inertia_omega = small.hat(at.moment), small.matvec(at.inertia, omega)

    def times(x: Float[Array, "3 3 modes"], y: Vector) -> Float[Array, "3 modes"]:
        return jnp.sum(x * y[None, :, None], axis=1)

    force = small.matvec(small.hat(angular) + square, at.moment) + small.matvec(of.first, growth)
    force = force + 2.0 * small.matvec(spin, shifting)
    by_turn = (
        -small.matmul(rotation, small.hat(force)),
        small.matmul(moment, a),
        small.matmul(of.first.T, a),
    )
    elastic = _stiffness(of, omega)
    bend = jnp.sum(square[:, :, None, None] * of.second, axis=(0, 1))
    by_amplitudes = (
        small.matmul(rotation, small.matmul(small.hat(angular) + square, of.first)),
        times(spread, angular)
        + small.matmul(spin, times(spread, omega))
        + 2.0 * (small.outer(omega, _trace(heaps)) - times(heaps, omega))
        - small.matmul(a, of.first)
        - small.axial(_along(of.second, growth)),
        jnp.sum(levers * angular[:, None, None], axis=0).T + bend + elastic,
    )
    spins = jnp.zeros((e.size, 3), e.dtype)
    if of.spin is not None:
        first, second = _spin_factors(omega)
        change = jnp.asarray(_FIRST, e.dtype) * second[:, None]
        change = change + jnp.asarray(_SECOND, e.dtype) * first[:, None]
        bent = _over_modes(of.spin, e)
        spins = small.matmul(bent.T, change)
    turned = small.hat(small.matvec(spin, at.moment)) + small.matmul(spin, moment)
    traces = small.outer(omega, _trace(at.along))
    by_omega = (
        -small.matmul(rotation, turned + 2.0 * small.hat(shifting)),
        small.matmul(spin, at.inertia) - small.hat(inertia_omega) + 2.0 * _inertia(heap.T),
        (times(twice, omega) - 2.0 * traces).T + 2.0 * small.axial(heaps).T + spins,
    )
    coriolis = 2.0 * jnp.sum(levers * omega[:, None, None], axis=0).T
    by_rates = (
        2.0 * small.matmul(rotation, small.matmul(spin, of.first)),
        2.0 * (traces - times(at.along.swapaxes(0, 1), omega)),
        coriolis if of.damping is None else coriolis + of.damping,
    )

    def columns(by_turn: tuple[Array, ...], by_amplitudes: tuple[Array, ...]) -> Array:
        of_shift = jnp.zeros((6 + e.size, 3), e.dtype)
        rest = (jnp.concatenate(parts) for parts in (by_turn, by_amplitudes))
        return jnp.concatenate([of_shift, *rest], axis=1)

    return ForceMatrices(
        mass_matrix(of, rotation, e),
        columns(by_turn, by_amplitudes),
        columns(by_omega, by_rates),
    )


def power(
    of: Deformation, omega: Vector, amplitudes: Amplitudes, rates: Amplitudes
) -> Float[Array, ""]:
    """Power (W) of damping, and of the stiffness by a spin, which no energy has."""
    acting = small.matvec(_stiffness(of, omega) - of.stiffness, amplitudes)
    if of.damping is not None:
        acting = acting + small.matvec(of.damping, rates)
    return -small.dot(rates, acting)


def kinetic_energy(
    of: Deformation,
    rotation: Matrix,
    velocity: Vector,
    omega: Vector,
    amplitudes: Amplitudes,
    rates: Amplitudes,
) -> Float[Array, ""]:
    """Kinetic energy (J) of u, beyond that of the undeformed body."""
    motion = jnp.concatenate([velocity, omega, rates])
    return 0.5 * small.dot(motion, small.matvec(mass_matrix(of, rotation, amplitudes), motion))


def momentum(
    of: Deformation,
    rotation: Matrix,
    position: Vector,
    velocity: Vector,
    omega: Vector,
    amplitudes: Amplitudes,
    rates: Amplitudes,
) -> tuple[Vector, Vector]:
    """Linear momentum and angular momentum about the world origin (inertial) of u."""
    motion = jnp.concatenate([velocity, omega, rates])
    along = small.matvec(mass_matrix(of, rotation, amplitudes)[:6], motion)
    linear, about_origin = along[:3], small.matvec(rotation, along[3:])
    return linear, about_origin + small.cross(position, linear)


def potential_energy(
    of: Deformation, rotation: Matrix, gravity: Vector, amplitudes: Amplitudes
) -> Float[Array, ""]:
    """Elastic energy, and the potential energy of gravity of u (J)."""
    elastic = 0.5 * small.dot(amplitudes, small.matvec(of.stiffness, amplitudes))
    moment = small.matvec(rotation, small.matvec(of.first, amplitudes))
    return elastic - small.dot(gravity, moment)
