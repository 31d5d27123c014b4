"""The state of a tree from the initial poses and velocities of its bodies."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics import stacking
from lie_jax.mechanics.coordinates.se3 import SE3
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.mechanics.minimal import compound_joints
from lie_jax.mechanics.minimal.compound_joints import Rows
from lie_jax.mechanics.minimal.joints import JointParameters, TreeJoints, from_nearer
from lie_jax.mechanics.minimal.trees import Tree
from lie_jax.mechanics.stacking import InitialMotion
from lie_jax.numerics import gather, small


class Start(NamedTuple):
    """Of the bases: coordinates (bases, 7) and twists (bases, 6); of the links: coordinates and
    velocities of their joints, (links, nq) and (links, nv).
    """

    poses: Float[Array, "bases 7"]
    twists: Float[Array, "bases 6"]
    coordinates: Float[Array, "links nq"]
    rates: Float[Array, "links nv"]


class _Misfit(NamedTuple):
    """What joints leave of poses and velocities, each (links,): m, rad, m/s, rad/s."""

    distance: Array
    angle: Array
    speed: Array
    spin: Array


def initial(mechanism: Mechanism, tree: Tree, joints: TreeJoints, rows: Rows) -> Start:
    """Coordinates and velocities of bases and joints from those of the bodies.

    `tree` and `joints` are made of the `rows` of the mechanism's joints.

    Raises `ValueError`, naming the joint and by how much, if they do not fit the joints.
    """
    motion = stacking.initial_motion(mechanism.bodies)
    start, misfit = _fit(tree, joints, rows.groups, motion)
    if not checks.traced(misfit):
        scale = 1.0 + float(np.max(np.abs(motion.position)) + np.max(np.abs(motion.velocity)))
        slack = scale * float(jnp.finfo(motion.position.dtype).eps) ** 0.5
        _refuse_misfit(mechanism, tree, rows, misfit, slack)
    return start


def _refuse_misfit(
    mechanism: Mechanism, tree: Tree, rows: Rows, misfit: _Misfit, slack: float
) -> None:
    for what, far, turned, units, fields in (
        ("poses", misfit.distance, misfit.angle, ("m", "rad"), "position= and orientation="),
        ("velocities", misfit.speed, misfit.spin, ("m/s", "rad/s"), "velocity= and omega_body="),
    ):
        total = np.where(np.asarray(tree.joints) >= 0, np.maximum(far, turned), 0.0)
        if total.size and not total.max() <= slack:
            link = int(np.argmax(np.where(np.isfinite(total), total, np.inf)))
            joint = mechanism.joints[rows.owners[tree.joints[link]]]
            raise ValueError(
                f"the initial {what} of the bodies do not fit {type(joint).__name__}("
                f"{joint.parent!r}, {joint.child!r}): they are off by {float(far[link]):.3g} "
                f"{units[0]} and {float(turned[link]):.3g} {units[1]}; at most {slack:.1g} is "
                f"allowed: correct {fields} of the bodies, or the joint's points, axis and "
                "orientation."
            )


@eqx.filter_jit
def _fit(tree, joints, groups, motion: InitialMotion) -> tuple[Start, _Misfit]:
    position, orientation, velocity, omega = motion
    bases = tree.bodies[: tree.bases]
    poses = jax.vmap(SE3().configuration)(
        gather.pick(bases, position), gather.pick(bases, orientation)
    )
    rotation = jax.vmap(quaternion.to_matrix)(orientation)
    rotation, position, velocity, omega = compound_joints.with_massless(
        groups, rotation, position, velocity, omega
    )
    linear = jax.vmap(lambda r, v: small.matvec(r.T, v))(rotation, velocity)
    twist = gather.pick(tree.bodies, jnp.concatenate([linear, omega], axis=1))
    held = jnp.asarray([i < 0 for i in tree.bodies], position.dtype)
    # Slots without a body, of which one is the ground, get the ground's pose.
    identity = held[:, None, None] * jnp.eye(3, dtype=position.dtype)[None]
    pose = BodyPose(
        gather.pick(tree.bodies, rotation) + identity, gather.pick(tree.bodies, position)
    )
    farther, far_twist = jax.tree.map(lambda x: x[tree.width :], (pose, twist))
    nearer, near_twist = jax.tree.map(lambda x: gather.pick(tree.parent_slots, x), (pose, twist))
    relative = jax.vmap(_relative)(nearer, farther)
    fit_coordinates = jax.vmap(_coordinates, (0, 0, 0, None))
    x = fit_coordinates(joints.parameters, relative, joints.masks(), joints.size.nq)
    found, twists = joints.poses(x), joints.twists()
    moving = far_twist - jax.vmap(lambda pose, v: small.matvec(from_nearer(pose), v))(
        found, near_twist
    )
    rates = jax.vmap(_rates)(twists, moving)
    left = moving - jnp.sum(twists * rates[:, None, :], axis=2)
    misfit = _Misfit(
        jnp.linalg.norm(found.position - relative.position, axis=1),
        # |R - 1| is √2 times the angle of a small rotation R.
        jnp.linalg.norm(found.rotation - relative.rotation, axis=(1, 2)) / np.sqrt(2.0),
        jnp.linalg.norm(left[:, :3], axis=1),
        jnp.linalg.norm(left[:, 3:], axis=1),
    )
    return Start(poses, twist[: tree.bases], x, rates), misfit


def _relative(nearer: BodyPose, farther: BodyPose) -> BodyPose:
    back = nearer.rotation.T
    apart = farther.position - nearer.position
    return BodyPose(small.matmul(back, farther.rotation), small.matvec(back, apart))


def _coordinates(joint: JointParameters, relative: BodyPose, masks, size: int) -> Array:
    """Coordinates of the joint at the pose that it allows next to this one."""
    turns, slides, swivels = masks
    turned = small.matmul(relative.rotation, joint.home.T)
    sine = -0.5 * small.dot(joint.axis, small.axial(turned))
    angle = jnp.arctan2(sine, 0.5 * (jnp.trace(turned) - 1.0))
    place = relative.position + small.matvec(relative.rotation, joint.child_point)
    distance = small.dot(joint.axis, place - joint.parent_point)
    single = (turns * angle + slides * distance)[None]
    if size == 1:
        return single
    free = quaternion.from_rotation(relative.rotation)
    free = jnp.where(free[0] < 0.0, -free, free)
    return jnp.where(swivels > 0.0, free, jnp.concatenate([single, jnp.zeros_like(free[1:])]))


def _rates(twists: Array, moving: Array) -> Array:
    """Joint velocities whose twist is closest."""
    gram = jnp.sum(twists[:, :, None] * twists[:, None, :], axis=0)
    # Velocities that the joint does not have leave empty rows.
    filled = gram + jnp.diag((jnp.diagonal(gram) == 0.0).astype(gram.dtype))
    return jnp.linalg.solve(filled, jnp.sum(twists * moving[:, None], axis=0))
