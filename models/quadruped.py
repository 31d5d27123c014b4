"""A quadruped with twelve hinges and four round feet, which stands on the ground under controllers.

Each leg has a hip that swings sideways about x, a thigh and a shank that swing about y. The trunk's
frame lies in its middle, x forwards, z upwards; the frames of the others at their hinges on the
part above, parallel to the trunk's where all angles are zero and the legs hang straight down.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax import contact, solids
from models.fixed_point import Numbers

LEGS = ("front left", "front right", "rear left", "rear right")
PARTS = ("hip", "thigh", "shank")
# kg, m
TRUNK_MASS, TRUNK_SIZE = 9.0, (0.40, 0.20, 0.10)
HIP_MASS, THIGH_MASS, SHANK_MASS = 0.6, 0.9, 0.2
HIP_RADIUS, LINK_WIDTH, FOOT_RADIUS = 0.04, 0.03, 0.02
# From the middle of the trunk to the hips, along x and y; from a hip outwards to its thigh.
STANCE, OUTWARDS = (0.18, 0.05), 0.08
# Of thigh and shank.
LINK = 0.20
# Angles (rad) of hip, thigh and shank with each foot below its hip: front knees lie behind their
# feet, rear knees before theirs, so that the middle of all masses is that of the trunk.
BENT = {leg: (0.0, 0.8, -1.6) if "front" in leg else (0.0, -0.8, 1.6) for leg in LEGS}
PROPORTIONAL, DERIVATIVE = 120.0, 2.0
# Of the ground: N/m², s/m; with 1e6 N/m² it gives by 5.5 mm.
STIFFNESS, DISSIPATION, FRICTION = 1e6, 0.5, 0.8
GRAVITY = (0.0, 0.0, -9.81)


def mass() -> float:
    """Mass of all bodies, kg."""
    return TRUNK_MASS + len(LEGS) * (HIP_MASS + THIGH_MASS + SHANK_MASS)


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    trunk_mass: ArrayLike = TRUNK_MASS,
    targets: ArrayLike | Sequence[ArrayLike] | None = None,
    proportional: ArrayLike = PROPORTIONAL,
    derivative: ArrayLike = DERIVATIVE,
    stiffness: ArrayLike = STIFFNESS,
    dissipation: ArrayLike = DISSIPATION,
    friction: ArrayLike = FRICTION,
    slip: ArrayLike = 1e-3,
    lift: ArrayLike = 0.0,
    motors: bool = False,
    others: Sequence[lie_jax.extend.AbstractForce] = (),
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The quadruped as a system, by default in joint coordinates, and its state at rest.

    The feet start on the ground, `lift` (m) above the overlap that carries the weight, with bent
    legs. `targets` (4, 3) are the angles (rad) that the controllers hold, by default those of the
    start; `proportional` in N m/rad, `derivative` in N m s/rad; `stiffness` (N/m²), `dissipation`
    (s/m), `friction` and `slip` (m/s) are those of feet on the ground. With `motors` each hinge has
    one besides, in the order of legs and their parts: simulate(inputs=) then has twelve columns.
    `others` are further forces.
    """
    total = trunk_mass + len(LEGS) * (HIP_MASS + THIGH_MASS + SHANK_MASS)
    weight = -total * jnp.asarray(gravity, float)[2]
    overlap = jnp.sqrt(weight / (len(LEGS) * jnp.asarray(stiffness, float)))
    height = 2.0 * LINK * np.cos(BENT[LEGS[0]][1]) + FOOT_RADIUS - overlap + lift
    angles = jnp.asarray([BENT[leg] for leg in LEGS], float)
    targets = angles if targets is None else jnp.asarray(targets, float)
    rotation, position = _placed(angles.reshape(-1), height)
    orientation = [lie_jax.groups.quaternion.from_matrix(x) for x in rotation]

    made_of = solid_parts(trunk_mass)
    bodies = [lie_jax.Body("trunk", *made_of["trunk"], position=position[0])]
    joints, forces = [], []
    ground = contact.Plane("ground")
    law = lie_jax.contact.HuntCrossley(stiffness, dissipation=dissipation)
    rubbing = lie_jax.contact.Coulomb(friction, slip)
    for i, leg in enumerate(LEGS):
        above, hook = "trunk", hip(leg)
        for k, part in enumerate(PARTS):
            number, name = len(bodies), f"{leg} {part}"
            bodies.append(lie_jax.Body(name, *made_of[part], position[number], orientation[number]))
            axis = (1.0, 0.0, 0.0) if k == 0 else (0.0, 1.0, 0.0)
            joint = lie_jax.RevoluteJoint(above, name, axis, hook)
            joints.append(joint)
            forces.append(
                lie_jax.JointController(
                    joint,
                    reference=targets[i, k],
                    proportional=proportional,
                    derivative=derivative,
                )
            )
            if motors:
                forces.append(lie_jax.JointMotor(joint, input=len(joints) - 1))
            above, hook = name, _below(leg, k)
        foot = contact.Sphere(above, FOOT_RADIUS, (0.0, 0.0, -LINK))
        forces.append(lie_jax.contact.Contact(foot, ground, law, rubbing))
    mechanism = lie_jax.Mechanism(bodies, joints, [*forces, *others], gravity)
    return lie_jax.assemble(mechanism, lie_jax.Minimal() if formulation is None else formulation)


def solid_parts(
    trunk_mass: ArrayLike = TRUNK_MASS,
) -> dict[str, tuple[ArrayLike, Array, tuple[float, float, float]]]:
    """Mass (kg), inertia about its centre (kg m²) and centre of mass (m) of each kind of body."""
    rod, middle = solids.box(1.0, (LINK_WIDTH, LINK_WIDTH, LINK)), (0.0, 0.0, -0.5 * LINK)
    return {
        "trunk": (trunk_mass, solids.box(trunk_mass, TRUNK_SIZE), (0.0, 0.0, 0.0)),
        "hip": (HIP_MASS, solids.sphere(HIP_MASS, HIP_RADIUS), (0.0, 0.0, 0.0)),
        "thigh": (THIGH_MASS, THIGH_MASS * rod, middle),
        "shank": (SHANK_MASS, SHANK_MASS * rod, middle),
    }


def hip(leg: str) -> tuple[float, float, float]:
    """Place of a leg's hip on the trunk, m."""
    front, side = 1.0 if "front" in leg else -1.0, 1.0 if "left" in leg else -1.0
    return front * STANCE[0], side * STANCE[1], 0.0


def _below(leg: str, part: int) -> tuple[float, float, float]:
    """Place of the next hinge on a part of a leg, m."""
    side = 1.0 if "left" in leg else -1.0
    return (0.0, side * OUTWARDS, 0.0) if part == 0 else (0.0, 0.0, -LINK)


def _placed(angles: Float[Array, "12"], height: Array) -> tuple[Array, Array]:
    """Rotations (13, 3, 3) and positions (13, 3) of all bodies, the trunk level at a height."""
    rotation, position = [jnp.eye(3)], [jnp.asarray([0.0, 0.0, 1.0]) * height]
    for i, leg in enumerate(LEGS):
        turn, place = rotation[0], position[0] + jnp.asarray(hip(leg))
        for k in range(len(PARTS)):
            axis = jnp.eye(3)[0 if k == 0 else 1]
            turn = turn @ lie_jax.groups.so3.exp(angles[len(PARTS) * i + k] * axis)
            rotation.append(turn)
            position.append(place)
            place = place + turn @ jnp.asarray(_below(leg, k))
    return jnp.stack(rotation), jnp.stack(position)
