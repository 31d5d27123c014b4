"""A small satellite, free in space: rigid with three torques, or turned by reaction wheels.

The body frame lies at the satellite's centre of mass. Numbers are those of no particular satellite:
some 60 kg, half a metre, wheels of half a kilogram. `build` adds wheels on hinges, each a body of
its own whose motor reads one input (N m, on the wheel; its opposite acts on the satellite).
`build_rigid` has none: its three inputs are torques (N m) about the body axes.

A wheel is symmetric about its axis, so that only its axial inertia I and its momentum about the
axis h = I (Ω + aᵀω) matter: ḣ is the motor's torque, and with J the inertia of all bodies but for
the wheels' axial parts, J ω̇ + ω × (J ω + Σ a h) = -Σ a ḣ.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from models import attitude, driven
from models.fixed_point import Numbers

MASS = 60.0
Table = Numbers | Sequence[Sequence[float]]
INERTIA = ((2.4, 0.12, -0.08), (0.12, 3.1, 0.15), (-0.08, 0.15, 1.9))
WHEEL_MASS = 0.5
# About an axis across the wheel's, through its centre of mass.
WHEEL_TRANSVERSE_INERTIA = 3.5e-4
WHEEL_RADIUS = 0.15
# Three wheels along the body axes.
AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
WHEEL_INERTIAS = (6.0e-4, 6.4e-4, 5.7e-4)
WHEEL_SPEEDS = (260.0, -210.0, 240.0)
# Four wheels in a pyramid about the z axis.
_SLANT = float(np.deg2rad(35.0))
PYRAMID = tuple(
    (float(np.cos(_SLANT) * c), float(np.cos(_SLANT) * s), float(np.sin(_SLANT)))
    for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))
)

# Of the motors (N m), functions of the time (s): a manoeuvre from rest whose solution is known.
MANOEUVRE = (
    lambda t: 0.02 * jnp.sin(t),
    lambda t: -0.015 * jnp.cos(2.0 * t),
    lambda t: 0.01 + 0.0 * t,
)
# Angular velocity (body components, rad/s), orientation (unit quaternion) and speeds of the wheels
# (rad/s) at these times (s) of `build(torques=MANOEUVRE)`, to 17 digits. Two solutions that share
# no code agree to 2e-19 of the largest number: the equation above with a quaternion, by
# extrapolation in 113 bits; and its first integral, J ω + Σ a h the constant vector in body axes
# and h(t) in closed form, which leaves a differential equation of the rotation matrix alone, by
# Gauss collocation of order 16 in 64 bits.
REFERENCE = {
    1.0: (
        *(-4.06384806842846211e-3, 2.67940982590720671e-3, -5.52599552718053828e-3),
        *(0.999998296987744802, -7.42477524202417683e-4),
        *(9.60286304275978249e-4, -1.39017946683864222e-3),
        *(275.327320319130438, -220.658508630439365, 257.549385644649988),
    ),
    10.0: (
        *(-7.33134066925974919e-3, 1.75996368882078988e-2, -5.27919104522812639e-2),
        *(0.989707445685542302, -2.80673901405351713e-2),
        *(2.41031195232771241e-2, -0.138240490430788548),
        *(321.309715643217675, -220.716176793852594, 415.491388401680351),
    ),
    50.0: (
        *(-6.11231229924085553e-2, 6.54678727294996495e-2, -0.212701152404367737),
        *(0.802537611936468526, 0.495151284636764421),
        *(0.186813461188184265, 0.275425702266079235),
        *(261.228922173255299, -204.131495515974514, 1117.40568360854472),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    inertia: Table = INERTIA,
    axes: Table = AXES,
    wheel_inertias: Numbers = WHEEL_INERTIAS,
    wheel_speeds: Numbers = WHEEL_SPEEDS,
    omega_body: Numbers = (0.0, 0.0, 0.0),
    torques: Sequence[Callable] | None = None,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The satellite with wheels as a system of one input a wheel, and its initial state.

    **Arguments:** `formulation`: default `Minimal()`; `inertia` (3, 3) of the satellite without
    wheels, kg m²; for n wheels `axes` (n, 3), unit vectors in body axes, `wheel_inertias` (n,)
    about them, kg m², and `wheel_speeds` (n,), initial and against the satellite, rad/s;
    `omega_body` (3,): initial angular velocity, rad/s; `torques`: n functions of the time (s), the
    torques (N m) of the motors in place of inputs, which are constant over each step. The first
    body is the satellite.
    """
    inertia, axes, wheel_inertias, speeds, omega = (
        jnp.asarray(x, float) for x in (inertia, axes, wheel_inertias, wheel_speeds, omega_body)
    )
    bodies, joints, motors = [_body(inertia, omega)], [], []
    for i, axis in enumerate(axes):
        place = WHEEL_RADIUS * axis
        along = axis[:, None] * axis[None, :]
        across = WHEEL_TRANSVERSE_INERTIA * (jnp.eye(3) - along)
        wheel = lie_jax.Body(
            f"wheel {i + 1}",
            WHEEL_MASS,
            wheel_inertias[i] * along + across,
            position=place,
            velocity=jnp.cross(omega, place),
            omega_body=omega + speeds[i] * axis,
        )
        bodies.append(wheel)
        joint = lie_jax.RevoluteJoint("satellite", wheel.name, axis, parent_point=place)
        joints.append(joint)
        if torques is None:
            motors.append(lie_jax.JointMotor(joint, input=i))
        else:
            motors.extend(driven.motor("satellite", wheel.name, axis, torques[i]))
    mechanism = lie_jax.Mechanism(bodies, joints, motors, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, formulation or lie_jax.Minimal())


def build_rigid(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    inertia: Table = INERTIA,
    orientation: Numbers = (1.0, 0.0, 0.0, 0.0),
    omega_body: Numbers = (0.0, 0.0, 0.0),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The satellite without wheels, with three inputs, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `inertia` (3, 3), kg m²; `orientation` (4,), a
    unit quaternion; `omega_body` (3,), rad/s. The inputs are torques about the body axes, N m.
    """
    body = _body(inertia, omega_body, orientation)
    torques = [
        lie_jax.Torque("satellite", axis, frame="body", input=i) for i, axis in enumerate(np.eye(3))
    ]
    mechanism = lie_jax.Mechanism([body], forces=torques, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, formulation or lie_jax.R3SO3())


def _body(
    inertia: Table, omega: Numbers, orientation: Numbers = (1.0, 0.0, 0.0, 0.0)
) -> lie_jax.Body:
    return lie_jax.Body("satellite", MASS, inertia, orientation=orientation, omega_body=omega)


def gyro(trajectory: lie_jax.Trajectory) -> Float[Array, "n 3"]:
    """Angular velocity of the satellite in body axes (rad/s) at the trajectory's instants, in
    formulations whose velocities are twists.
    """
    return trajectory.v[:, 3:6]


def tachometers(trajectory: lie_jax.Trajectory) -> Float[Array, "n wheels"]:
    """Speeds of the wheels against the satellite (rad/s) with `Minimal`."""
    return trajectory.v[:, 6:]


def observe(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], v: Float[Array, " nv"]
) -> Float[Array, "10"]:
    """Angular velocity of the satellite (rad/s), its quaternion, and the speeds of three wheels
    along the body axes against it (rad/s), in every formulation.
    """
    omega = system.twists(q, v)[:, 3:]
    # A wheel and the satellite have the components along its axis in common.
    speeds = jnp.sum(jnp.asarray(AXES) * (omega[1:] - omega[:1]), axis=1)
    return jnp.concatenate([omega[0], attitude.quaternion(system, q), speeds])
