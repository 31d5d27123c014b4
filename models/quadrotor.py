"""A small quadrotor: a rigid body with four propellers, whose thrusts are the inputs.

The body frame lies at the centre of mass, z upwards through the propellers' plane. Propellers 0 and
2 stand on the axis x, in front and behind, 1 and 3 on the axis y, left and right; each thrust (N)
acts along the body's z axis. Air drags at a propeller with a torque proportional to its thrust: 0
and 2 turn one way, 1 and 3 the other, so that equal thrusts balance. Propellers have neither
inertia nor lag, and air does not act on the body.

All numbers are chosen: of the size of research vehicles of half a kilogram, with moments about the
two arms that differ a little, as a battery makes them.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from models.fixed_point import Numbers

BODY = "quadrotor"
MASS = 0.5
INERTIA = (2.4e-3, 2.6e-3, 4.5e-3)
ARM = 0.17
# Torque of drag, N m, for each newton of thrust.
DRAG = 0.016
GRAVITY = (0.0, 0.0, -9.81)

DIRECTIONS = np.asarray([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
# Of the drag on the body, seen from above: against the propeller's turn.
SENSES = np.asarray([-1.0, 1.0, -1.0, 1.0])


def build(
    formulation: lie_jax.extend.AbstractCoordinates | None = None,
    *,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    arm: Numbers = ARM,
    drag: Numbers = DRAG,
    position: Numbers = (0.0, 0.0, 0.0),
    orientation: Numbers = (1.0, 0.0, 0.0, 0.0),
    velocity: Numbers = (0.0, 0.0, 0.0),
    omega_body: Numbers = (0.0, 0.0, 0.0),
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The vehicle as a system with the inputs u (4,), thrusts in N, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` in kg; `inertia` (3, 3) about the centre
    of mass, kg m²; `arm` from it to each propeller, m; `drag` in N m for each newton of thrust;
    `position` (3,) of the centre of mass, m; `orientation` (4,), a unit quaternion; `velocity` (3,)
    of the centre of mass, inertial components, m/s; `omega_body` (3,), rad/s; `gravity` (3,), m/s².
    """
    formulation = lie_jax.R3SO3() if formulation is None else formulation
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else inertia
    up = jnp.asarray((0.0, 0.0, 1.0))
    body = lie_jax.Body(
        BODY,
        mass,
        inertia,
        position=position,
        orientation=orientation,
        velocity=velocity,
        omega_body=omega_body,
    )
    forces = []
    for k, (direction, sense) in enumerate(zip(DIRECTIONS, SENSES, strict=True)):
        place = jnp.asarray(arm, float) * jnp.asarray(direction)
        torque = jnp.asarray(drag, float) * sense * up
        forces += [
            lie_jax.PointForce(BODY, up, place, "body", input=k),
            lie_jax.Torque(BODY, torque, "body", input=k),
        ]
    return lie_jax.assemble(lie_jax.Mechanism([body], forces=forces, gravity=gravity), formulation)


def hover_thrusts(mass: Numbers = MASS, gravity: Numbers = GRAVITY) -> Float[Array, "4"]:
    """Inputs (4,), N, that hold the vehicle level and still where it is."""
    weight = jnp.asarray(mass, float) * jnp.linalg.norm(jnp.asarray(gravity, float))
    return jnp.full(4, 0.25 * weight)
