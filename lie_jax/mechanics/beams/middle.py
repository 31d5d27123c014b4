"""The section in the middle of a screw between two nodes: its motion, and what acts on it.

Of nodes at r_A and r_B with angular velocities ω_A and ω_B, in inertial components, d = r_B - r_A
and Δ = ω_B - ω_A. With the angle θ and the axis n of the rotation from A to B the middle of the
screw, its frame and its angular velocity are

    r = (r_A + r_B)/2 - τ × d / 2,    R = cay(τ) R_A,    τ = tan(θ/4) n,
    ω = (ω_A + ω_B)/2 - τ × Δ / 2,    τ̇ = ω × τ + (1 + τ²)/4 Δ.

All are inertial and exact for a screw; both nodes are on the last axis of arrays. Skew matrices
are made once for several products: of a vector product by components the forward mode, which the
matrices of a step need, is three times as long.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import small

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
# Of both nodes.
Vectors = Float[Array, "3 2"]
Rotations = Float[Array, "3 3 2"]


class Middle(NamedTuple):
    """Rotation R and position r (m) of the middle section; d, τ and their skew matrices,
    (1 + τ²)/4.
    """

    rotation: Matrix
    position: Vector
    tau: Vector
    of_way: Matrix
    of_tau: Matrix
    factor: Float[Array, ""]


def middle(rotation: Rotations, position: Vectors) -> Middle:
    """Middle of the screw between two nodes, whose relative rotation is smaller than π."""
    a, b = rotation[..., 0], rotation[..., 1]
    way = _difference(position)
    # 2 cos(θ/2), and sin θ n.
    double = jnp.sqrt(1.0 + jnp.sum(a * b))
    axis = 0.5 * small.axial(small.matmul(a, b.T))
    tau = axis / (double * (1.0 + 0.5 * double))
    factor = 0.25 * (1.0 + small.dot(tau, tau))
    of_tau = small.hat(tau)
    turned = small.matmul(of_tau, a)
    middle = a + 0.5 * (turned + small.matmul(of_tau, turned)) / factor
    place = 0.5 * (_sum(position) - small.matvec(of_tau, way))
    return Middle(middle, place, tau, small.hat(way), of_tau, factor)


class Rates(NamedTuple):
    """Velocity ṙ (m/s) and angular velocity ω (rad/s) of the middle section; ḋ and Δ, τ̇ and its
    skew matrix.
    """

    linear: Vector
    omega: Vector
    way: Vector
    difference: Vector
    tau: Vector
    of_tau: Matrix


def rates(at: Middle, linear: Vectors, omega: Vectors) -> Rates:
    """Rates of the middle section from velocities of the nodes."""
    way, difference = _difference(linear), _difference(omega)
    spin = 0.5 * (_sum(omega) - small.matvec(at.of_tau, difference))
    tau = at.factor * difference - small.matvec(at.of_tau, spin)
    moved = small.matvec(at.of_tau, way) - small.matvec(at.of_way, tau)
    return Rates(0.5 * (_sum(linear) - moved), spin, way, difference, tau, small.hat(tau))


def accelerations(
    at: Middle, moving: Rates, linear: Vectors, omega: Vectors
) -> tuple[Vector, Vector]:
    """r̈ and ω̇ (3,) of the middle section from those of the nodes."""
    way, difference = _difference(linear), _difference(omega)
    bent = small.matvec(moving.of_tau, moving.difference) + small.matvec(at.of_tau, difference)
    spin = 0.5 * (_sum(omega) - bent)
    stretch = 0.5 * small.dot(at.tau, moving.tau)
    tau = stretch * moving.difference + at.factor * difference
    tau = tau - small.matvec(at.of_tau, spin) - small.matvec(moving.of_tau, moving.omega)
    moved = 2.0 * small.matvec(moving.of_tau, moving.way) + small.matvec(at.of_tau, way)
    return 0.5 * (_sum(linear) - moved + small.matvec(at.of_way, tau)), spin


def pull_back(at: Middle, force: Vector, moment: Vector) -> tuple[Vectors, Vectors]:
    """Forces and moments on the nodes that do the work of those on the middle section."""
    bent = -0.5 * small.matvec(at.of_way, force)
    moment = moment + small.matvec(at.of_tau, bent)
    turned = 0.5 * small.matvec(at.of_tau, moment) + at.factor * bent
    return (
        _apart(0.5 * force, 0.5 * small.matvec(at.of_tau, force)),
        _apart(0.5 * moment, turned),
    )


def _sum(x: Array) -> Array:
    return x[..., 0] + x[..., 1]


def _difference(x: Array) -> Array:
    return x[..., 1] - x[..., 0]


def _apart(mean: Vector, half: Vector) -> Vectors:
    return jnp.stack([mean - half, mean + half], axis=-1)
