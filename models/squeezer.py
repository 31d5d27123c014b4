"""Andrews' squeezing mechanism: seven plane bodies, ten hinges, one degree of freedom.

A benchmark of multibody simulation (W. Schiehlen, 1990) and of the test set for initial value
problems (F. Mazzia and C. Magherini, Bari), whose numbers and names of lengths these are. A torque
turns the crank, body 1, from rest by 2.5 turns in 0.03 s; a spring holds body 3. The crank's rod,
body 2, ends in a knee, and three arms hold the knee: body 3, bodies 5 and 4, and bodies 7 and 6.

Bodies are ones in space here, in the plane z = 0: of the fifty conditions of their hinges nine are
redundant, of the fifteen in joint coordinates as well. Body frames lie at the centres of mass.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models import placement
from models.fixed_point import Numbers

BODIES = ("1", "2", "3", "4", "5", "6", "7")
# In kg, and about the centres of mass in kg m².
MASSES = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
INERTIAS = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
# Fixed points of the ground (m): of bodies 5 and 7, of body 3, and of the spring.
A, B, C = (-0.06934, -0.00227, 0.0), (-0.03635, 0.03273, 0.0), (0.014, 0.072, 0.0)
# Lengths (m): of the crank and its rod; of body 3; of bodies 4, 5, 6 and 7.
RR, RA, D, DA = 0.007, 0.00092, 0.028, 0.0115
SS, SA, SB, SC, SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
E, EA, ZT, TA, TB = 0.02, 0.01421, 0.04, 0.02308, 0.00916
ZF, FA, U, UA, UB = 0.02, 0.01421, 0.04, 0.01228, 0.00449
# Parent, child, and the hinge's place on each of them (m), of the tree first, then the knee's.
JOINTS = (
    ("ground", "1", (0.0, 0.0, 0.0), (-RA, 0.0, 0.0)),
    ("1", "2", (RR - RA, 0.0, 0.0), (DA, 0.0, 0.0)),
    ("ground", "3", B, (-SB, SA, 0.0)),
    ("ground", "5", A, (-TA, -TB, 0.0)),
    ("5", "4", (ZT - TA, -TB, 0.0), (0.0, E - EA, 0.0)),
    ("ground", "7", A, (UB, UA, 0.0)),
    ("7", "6", (UB, UA - U, 0.0), (FA - ZF, 0.0, 0.0)),
    ("2", "3", (DA - D, 0.0, 0.0), (-SB, SA - SS, 0.0)),
    ("2", "4", (DA - D, 0.0, 0.0), (0.0, -EA, 0.0)),
    ("2", "6", (DA - D, 0.0, 0.0), (FA, 0.0, 0.0)),
)
# Of the spring on body 3: its end there (m), N/m, m.
SPRING_END, STIFFNESS, RELAXED = (SD - SB, SA - SC, 0.0), 4530.0, 0.07785
TORQUE = 0.033
# Of the crank at the start: its rod lies along it.
ANGLE = -0.0617138900142764496

# The angles β, θ, γ, φ, δ, Ω, ε (rad) of `angles` at these times (s), to 20 digits. Two routes that
# share no code agree to 1e-23: Lagrange's equations of the seven angles with six multipliers,
# extrapolated from the midpoint rule in quadruple precision; and the closed form of all angles by
# that of the crank, whose rate is known from the energy, so that time is an integral over its
# angle, by Gauss's rule in 45 digits. The test set's digits at 0.03 s differ: 15.81077119629904
# for β is 1.145e-9 above, and the six others are off by up to that. Data rounded to double
# precision change β by 4e-17 only: the difference is the error of the run behind those digits.
REFERENCE = {
    0.005: (
        *(0.21107638590326667868, -0.20158717093408011816, 0.44911519001151439189),
        *(0.21025079793001447170, 0.48874376546193518953, -0.21025079793001447170),
        1.2258667940349072538,
    ),
    0.01: (
        *(2.1601131315315265062, -1.8833642311070443193, 0.15851675800122669325),
        *(-0.32864107517467030658, 0.52515477479772946110, 0.32864107517467030658),
        1.0684272046324011487,
    ),
    0.02: (
        *(8.1849058896616755441, -7.8905053637304495097, 0.20953691338469755819),
        *(-0.23832559659585124773, 0.52253691715599637191, 0.23832559659585124773),
        1.0862751085998732416,
    ),
    0.03: (
        *(15.810771195153707097, -15.756371058411839470, 0.040822240119645804858),
        *(-0.53473011634207959377, 0.52440996587995406937, 0.53473011634207959377),
        1.0480807410419378731,
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    masses: Numbers = MASSES,
    inertias: Numbers = INERTIAS,
    stiffness: Numbers = STIFFNESS,
    relaxed: Numbers = RELAXED,
    torque: Numbers = TORQUE,
    angle: Numbers = ANGLE,
    rate: Numbers = 0.0,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The mechanism as a system with 15 constraints, or 50 in absolute coordinates, and its initial
    state.

    **Arguments:** `formulation`: default `Minimal()`; of the bodies, `masses` (7,) in kg and
    `inertias` (7,) about axes through their centres of mass, kg m²; of the spring, `stiffness` in
    N/m and length `relaxed` in m; `torque` on the crank, N m; at the start, `angle` of the crank,
    rad, and its `rate`, rad/s, with which all bodies move.
    """
    masses, inertias, torque, angle, rate = (
        jnp.asarray(x, float) for x in (masses, inertias, torque, angle, rate)
    )
    start = placement.motion(place, angle, rate)
    bodies = [
        lie_jax.Body(
            name, masses[i], inertias[i] * jnp.eye(3), (0.0, 0.0, 0.0), *(part[i] for part in start)
        )
        for i, name in enumerate(BODIES)
    ]
    z = jnp.eye(3)[2]
    joints = [
        lie_jax.RevoluteJoint(parent, child, z, parent_point, child_point)
        for parent, child, parent_point, child_point in JOINTS
    ]
    forces = [
        lie_jax.LinearSpringDamper("ground", "3", stiffness, 0.0, relaxed, C, SPRING_END),
        lie_jax.Torque("1", torque * z),
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal() if formulation is None else formulation)


def place(crank: Float[Array, ""]) -> tuple[Array, Array]:
    """Rotations (7, 3, 3) and positions (7, 3) of the body frames for the angle of the crank."""
    a, b = jnp.asarray(A), jnp.asarray(B)
    end = RR * jnp.stack([jnp.cos(crank), jnp.sin(crank), jnp.zeros(())])
    knee = _left_of(end, D, b, SS)
    elbow_5 = _left_of(a, ZT, knee, E)
    elbow_7 = _left_of(knee, ZF, a, U)
    # Directions of the x axes, and the place of the hinge by which the tree holds the body.
    placed = {
        "1": (end / RR, jnp.zeros(3)),
        "2": ((end - knee) / D, end),
        "3": (_across(knee - b) / SS, b),
        "4": (_across(knee - elbow_5) / E, elbow_5),
        "5": ((elbow_5 - a) / ZT, a),
        "6": ((knee - elbow_7) / ZF, elbow_7),
        "7": (_across(elbow_7 - a) / U, a),
    }
    hinges = {child: jnp.asarray(point) for _, child, _, point in JOINTS[: len(BODIES)]}
    z = jnp.eye(3)[2]
    rotations, positions = [], []
    for name in BODIES:
        x_axis, hinge = placed[name]
        rotations.append(jnp.stack([x_axis, _across(x_axis), z], axis=1))
        positions.append(hinge - rotations[-1] @ hinges[name])
    return jnp.stack(rotations), jnp.stack(positions)


def _left_of(one: Array, radius: float, other: Array, other_radius: float) -> Array:
    """The point at these distances from two points, left of the way from the one to the other."""
    way = other - one
    square = way @ way
    share = 0.5 * (square + radius**2 - other_radius**2) / square
    return one + share * way + jnp.sqrt(radius**2 / square - share**2) * _across(way)


def _across(vector: Array) -> Array:
    """A vector of the plane z = 0 turned by a quarter turn."""
    return jnp.stack([-vector[1], vector[0], jnp.zeros(())])


def crank_angle(
    system: lie_jax.extend.AbstractMultibodySystem,
    q: Float[Array, "*instants nq"],
    v: Float[Array, "*instants nv"] | None = None,
    t: Float[Array, " instants"] | None = None,
) -> Float[Array, "*instants"]:
    """Angle β of the crank at q (nq,), or at instants of a run in order, with its velocities v
    (n, nv) and times t (n,), rad.

    In joint coordinates it counts whole turns. In absolute coordinates it lies between -π and π;
    that of instants is continued from the first one by its rates.
    """
    return system.joint_coordinates(q, v, t)["ground", "1"][..., 0]


def angles(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "7"]:
    """The angles β, θ, γ, φ, δ, Ω, ε of the test set at q, rad.

    Of bodies 1, 3, 5 and 7 against the x axis: β, γ, δ, ε; of body 2 against 1, 4 against 5, 6
    against 7: θ, φ, Ω. β and θ have the turns of `crank_angle`.
    """
    x_axis = system.poses(q)[0][:, :2, 0]
    turned = jnp.arctan2(x_axis[:, 1], x_axis[:, 0])
    beta = crank_angle(system, q)
    _, rod, gamma, fourth, delta, sixth, epsilon = turned
    relative = rod - beta, gamma, fourth - delta, delta, sixth - epsilon, epsilon
    return jnp.stack([beta, *relative])
