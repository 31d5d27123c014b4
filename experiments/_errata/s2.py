"""S2: a rigid body in unified velocity coordinates (hexahedron, l = 1). Twists are (v, ω)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments._errata import integration
from experiments._errata.erratum import Erratum, deviation
from experiments._errata.integration import convergence
from experiments._errata.reference import (
    Array,
    Sample,
    differential,
    exponential,
    eye,
    hat,
    inverse,
    mp,
    norm,
    vector,
    zeros,
)


@dataclass(frozen=True, eq=False)
class Body:
    """Point masses and velocity coordinates."""

    masses: Array
    points: Array
    w: Array

    def total(self, function: Callable) -> Any:
        """Integral over the body."""
        return sum(m * function(y) for m, y in zip(self.masses, self.points, strict=True))

    def moments(self) -> tuple[Array, Array, Array]:
        """J₁, J₂, J₃ of (88)-(90)."""
        J1 = self.total(lambda y: eye(3))
        return J1, self.total(lambda y: hat(y).T), self.total(lambda y: hat(y) @ hat(y).T)

    def shifted(self) -> "Body":
        """Body with the centre of mass at the origin."""
        center = self.total(lambda y: y) / sum(self.masses)
        return Body(self.masses, self.points - center, self.w)


def velocity(twist: Array, y: Array) -> Array:
    """Of a point of the body."""
    return twist[:3] + hat(twist[3:]) @ y


def projections() -> Array:
    """D of (68): velocities of the face centres along the directions of (26)-(31)."""
    rows = []
    for axis, face in ((0, 1), (1, 2), (2, 0)):
        for sign in (1, -1):
            direction, point = sign * eye(3)[axis] / mp.sqrt(2), -sign * eye(3)[face]
            rows.append([direction @ velocity(e, point) for e in eye(6)])
    return np.array(rows)


W = vector("0.4", "-1.1", "0.7", "1.3", "-0.5", "0.9")
BODY = Body(
    vector("1", "2", "0.7", "1.3"),
    np.array(
        [
            vector("0.3", "-0.2", "0.5"),
            vector("-0.4", "0.6", "0.1"),
            vector("0.2", "0.5", "-0.9"),
            vector("0.8", "0.1", "0.4"),
        ]
    ),
    W,
)
ARMS = eye(3) * vector("0.5", "1.1", "0.8")
CROSS = Body(vector("0.6", "1.4", "0.9", "0.6", "1.4", "0.9"), np.concatenate([ARMS, -ARMS]), W)
D = projections()
D_INV = inverse(D)


def spin(body: Body) -> Array:
    """E of (49), the skew matrix of the angular velocity."""
    return hat((D_INV @ body.w)[3:])


def coupling(s: Sample) -> Array:
    """Off-diagonal block of the inverse tangent operator."""
    return inverse(differential(exponential, s.X, left=True))[3:, :3]


def eq_22(s: Sample, printed: bool) -> Array:
    angle, r, t = norm(s.x), hat(s.x), hat(s.y)
    cot = (1 if printed else angle) * mp.cot(angle / 2)
    bracket = t @ r - r @ t if printed else t @ r + r @ t
    last = angle**2 / (1 - mp.cos(angle)) + cot - (0 if printed else 4)
    along = (s.x @ s.y) * last / angle**4 * r @ r
    return t / 2 + (2 - cot) / 2 / angle**2 * bracket + along / 2


def kinetic_energy(body: Body, w: Array) -> Array:
    """Of the point masses."""
    return body.total(lambda y: velocity(D_INV @ w, y) @ velocity(D_INV @ w, y)) / 2


def mass_matrix(body: Body) -> Array:
    """By polarisation of the kinetic energy, a quadratic form."""
    energy, e = partial(kinetic_energy, body), eye(6)
    return np.array(
        [[energy(e[i] + e[j]) - energy(e[i]) - energy(e[j]) for i in range(6)] for j in range(6)]
    )


def eq_85(body: Body, printed: bool) -> Array:
    J1, J2, J3 = body.moments()
    return D_INV.T @ np.block([[J1, J2], [J2 if printed else J2.T, J3]]) @ D_INV


def interpolation(y: Array) -> Array:
    """N of (32), column by column."""
    return np.stack([velocity(D_INV @ e, y) for e in eye(6)], axis=1)


def gamma(body: Body) -> Array:
    """(60) with (51)."""
    return body.total(lambda y: interpolation(y).T @ spin(body) @ interpolation(y))


def eq_95(body: Body, printed: bool) -> Array:
    E = spin(body)

    def integrand(y: Array) -> Array:
        y = hat(y)
        if printed:
            return np.block([[E, E @ y], [E @ y, E @ y @ y.T]])
        return np.block([[E, E @ y.T], [y @ E, y @ E @ y.T]])

    return D_INV.T @ body.total(integrand) @ D_INV


def eq_99(body: Body, printed: bool) -> Array:
    E, (J1, _, J3) = spin(body), body.moments()
    turning = E @ J3 if printed else body.total(lambda y: hat(y) @ E @ hat(y).T)
    return D_INV.T @ np.block([[E @ J1, zeros(3, 3)], [zeros(3, 3), turning]]) @ D_INV


def inertia_forces(body: Body) -> Array:
    """Projected accelerations of the points for a constant twist: Ḧ = H V²."""
    twist = D_INV @ body.w
    square = np.linalg.matrix_power(hat(np.concatenate([twist[3:], twist[:3]])), 2)
    return body.total(lambda y: interpolation(y).T @ (square[:3, :3] @ y + square[:3, 3]))


def eq_97_product(body: Body, printed: bool) -> Array:
    E, (J1, J2, J3) = spin(body), body.moments()
    lower = E @ J2 if printed else J2.T @ E
    return D_INV.T @ np.block([[E @ J1, E @ J2], [lower, E @ J3]]) @ D_INV @ body.w


def first_inertia_force(body: Body) -> Array:
    """First row of Γw."""
    return inertia_forces(body)[0]


def eq_100(body: Body, printed: bool) -> Array:
    w1, w2, w3, w4, w5, w6 = body.w
    m, J = sum(body.masses), body.moments()[2]
    difference = -J[0, 0] + (-1 if printed else 1) * J[1, 1]
    turning = difference * (w3 + w4) + m * (w5 - w6)
    return (m * (w1 + w2) * (w4 - w3) + turning * (w5 + w6)) / (2 * mp.sqrt(2))


D_FLOAT = D.astype(float)
D_INV_FLOAT = D_INV.astype(float)


def position(steps: int, printed: bool) -> Array:
    """(119)-(125); stages without the step, forces at the start of the step, as printed."""
    H, h = np.eye(4), 1.0 / steps
    H[:3, 3] = integration.START[9:12]
    w = D_FLOAT @ np.concatenate([integration.START[15:], integration.START[12:15]])
    step = 1.0 if printed else h
    for _ in range(steps):
        K, k = [_increment_rate(np.zeros(6), w)], [_acceleration(H, w)]
        for fraction in (0.5, 0.5, 1.0):
            local, moved = fraction * step * K[-1], w + fraction * step * k[-1]
            place = H if printed else H @ _exponential(local)
            K.append(_increment_rate(local, moved))
            k.append(_acceleration(place, moved))
        H = H @ _exponential(h / 6 * (K[0] + 2 * K[1] + 2 * K[2] + K[3]))
        w = w + h / 6 * (k[0] + 2 * k[1] + 2 * k[2] + k[3])
    return H[:3, 3]


def _exponential(q: Array) -> Array:
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[:3, 3] = integration.hat(q[3:]), q[:3]
    return exponential(matrix, integration.TERMS)


def _increment_rate(q: Array, w: Array) -> Array:
    turn = integration.hat(q[3:])
    bracket = np.block([[turn, integration.hat(q[:3])], [np.zeros((3, 3)), turn]])
    return np.linalg.solve(integration.left_differential(bracket), D_INV_FLOAT @ w)


def _acceleration(H: Array, w: Array) -> Array:
    R, (U, spin) = H[:3, :3], np.split(D_INV_FLOAT @ w, 2)
    linear = R.T @ integration.acceleration(R, H[:3, 3]) - np.cross(spin, U)
    return D_FLOAT @ np.concatenate([linear, integration.spin_up(R, spin)])


ERRATA = (
    Erratum(
        "(22)",
        "`½(2 - cot(‖q_R‖/2))/‖q_R‖²` times a Lie bracket; "
        "`½(‖q_R‖²/(1 - cos‖q_R‖) + cot(‖q_R‖/2))/‖q_R‖⁴`",
        "`½(2 - ‖q_R‖ cot(‖q_R‖/2))/‖q_R‖²` times `q̃_T q̃_R + q̃_R q̃_T`; "
        "`½(‖q_R‖²/(1 - cos‖q_R‖) + ‖q_R‖ cot(‖q_R‖/2) - 4)/‖q_R‖⁴`",
        "",
        deviation(coupling, eq_22),
    ),
    Erratum(
        "(85), (87)",
        "off-diagonal blocks both `J₂`, in (85) the upper right one `∫ρ ỹ`",
        "upper right `J₂ = ∫ρ ỹᵀ`, lower left `J₂ᵀ`",
        "Without effect at the centre of mass, where J₂ = 0. Reference: kinetic energy of point "
        "masses.",
        deviation(mass_matrix, eq_85, (BODY,)),
    ),
    Erratum(
        "(95)-(97), as a matrix",
        "integrand `[[E, Eỹ], [Eỹ, Eỹỹᵀ]]` (E: the skew matrix of (49))",
        "`[[E, Eỹᵀ], [ỹE, ỹEỹᵀ]]`",
        "E and ỹ do not commute. Reference: (60) for point masses.",
        deviation(gamma, eq_95, (BODY,)),
    ),
    Erratum(
        "(97), (99), as a matrix",
        "rotational block `E J₃` at the centre of mass",
        "`∫ρ ỹEỹᵀ`",
        "Only the product Γw is right: as a matrix (99) differs from (60) and is unsuitable for "
        "derivatives.",
        deviation(gamma, eq_99, (BODY.shifted(),)),
    ),
    Erratum(
        "(97), product Γw",
        "lower left block `E J₂`",
        "`J₂ᵀ E`",
        "Off the centre of mass. Reference: accelerations of point masses.",
        deviation(inertia_forces, eq_97_product, (BODY,)),
    ),
    Erratum(
        "(100), row 1",
        "`(-J₁₁ - J₂₂)(w₃ + w₄)`",
        "`(-J₁₁ + J₂₂)(w₃ + w₄)`",
        "Rows 2 to 6 are right.",
        deviation(first_inertia_force, eq_100, (CROSS,)),
    ),
    Erratum(
        "(119)-(125)",
        "stages `T̂⁻¹(½K₁)(w + ½k₁)`, `f(H_j, w + ½k₁, …)`",
        "`T̂⁻¹(½Δt K₁)(w + ½Δt k₁)`, `f(H_j exp(½Δt K₁), w + ½Δt k₁, …)`, and so on",
        "(124), (125) multiply by Δt again. Forces at H_j are right only if they do not depend "
        "on the configuration, as in the example of the paper. (119)-(122) were reconstructed from "
        "a corrupted text. A body with thrust and spring, position after 1 s.",
        convergence(integration.body_end, position, 4),
    ),
)
