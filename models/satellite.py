"""A small satellite, free in space: rigid with three torques, or turned by reaction wheels.

The body frame lies at the satellite's centre of mass. Numbers are those of no particular satellite:
some 60 kg, half a metre, wheels of half a kilogram. `build` adds wheels on hinges, each a body of
its own whose motor reads one input (N m, on the wheel; its opposite acts on the satellite).
`build_rigid` has none: its three inputs are torques (N m) about the body axes.

A wheel is symmetric about its axis, so that only its axial inertia I and its momentum about the
axis h = I (Ω + aᵀω) matter: ḣ is the motor's torque, and with J the inertia of all bodies but for
the wheels' axial parts, J ω̇ + ω × (J ω + Σ a h) = -Σ a ḣ.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
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


def build(
    formulation: lie_jax.AbstractFormulation | None = None,
    *,
    inertia: Table = INERTIA,
    axes: Table = AXES,
    wheel_inertias: Numbers = WHEEL_INERTIAS,
    wheel_speeds: Numbers = WHEEL_SPEEDS,
    omega_body: Numbers = (0.0, 0.0, 0.0),
) -> tuple[lie_jax.AbstractMultibodySystem, lie_jax.State]:
    """The satellite with wheels as a system of one input a wheel, and its initial state.

    **Arguments:** `formulation`: default `Minimal()`; `inertia` (3, 3) of the satellite without
    wheels, kg m²; for n wheels `axes` (n, 3), unit vectors in body axes, `wheel_inertias` (n,)
    about them, kg m², and `wheel_speeds` (n,), initial and against the satellite, rad/s;
    `omega_body` (3,): initial angular velocity, rad/s. The first body is the satellite.
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
        joints.append(lie_jax.RevoluteJoint("satellite", wheel.name, axis, parent_point=place))
        motors.append(lie_jax.RevoluteMotor("satellite", wheel.name, axis, input=i))
    mechanism = lie_jax.Mechanism(bodies, joints, motors, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, formulation or lie_jax.Minimal())


def build_rigid(
    formulation: lie_jax.AbstractFormulation | None = None,
    *,
    inertia: Table = INERTIA,
    orientation: Numbers = (1.0, 0.0, 0.0, 0.0),
    omega_body: Numbers = (0.0, 0.0, 0.0),
) -> tuple[lie_jax.AbstractMultibodySystem, lie_jax.State]:
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
