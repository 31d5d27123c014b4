"""Whether the coordinates of joints of one's own are those of their motions."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose
from lie_jax.mechanics.joints.motions import COUNTS, Motion
from lie_jax.multibody.minimal import joints as tree_joints
from lie_jax.numerics import small

# Angles (rad) and distances (m) at which both are compared, and how far they may be apart in
# roundings.
_PLACE, _ROUNDINGS = 0.3, 1e6


def check(joints: Sequence[AbstractJoint], motions: Sequence[tuple[Motion, ...]]) -> None:
    """Raise `ValueError` for a joint of one's own whose `coordinates` are others than its motions'.

    Forces along the joint take them from q, and its readings in absolute coordinates from poses.
    """
    for joint, of_joint in zip(joints, motions, strict=True):
        is_known = type(joint).__module__.startswith("lie_jax.")
        counts = [COUNTS[motion.kind][0] for motion in of_joint]
        if is_known or not joint.coordinate_units or set(counts) - {0, 1}:
            continue
        # Inside `jax.jit`, too, where numbers are constants.
        with jax.ensure_compile_time_eval():
            if checks.has_tracers(joint, of_joint):
                continue
            _compare(joint, of_joint)


def _compare(joint: AbstractJoint, of_joint: tuple[Motion, ...]) -> None:
    dtype = jnp.result_type(float)
    x = np.asarray([_PLACE / (k + 1) for k in range(len(of_joint))], dtype)
    stacked = tree_joints.stack(of_joint, [False] * len(of_joint), dtype)
    relative = stacked.poses(jnp.asarray(x)[:, None])
    parent = BodyPose(jnp.eye(3, dtype=dtype), jnp.zeros(3, dtype))
    rotation, position = parent
    for k in range(len(of_joint)):
        offset = stacked.parent_point[k] + relative.position[k]
        position = position + small.matvec(rotation, offset)
        rotation = small.matmul(rotation, relative.rotation[k])
    returned = np.asarray(joint.coordinates(parent, BodyPose(rotation, position)))
    wanted = x[[COUNTS[motion.kind][0] == 1 for motion in of_joint]]
    slack = _ROUNDINGS * float(np.finfo(dtype).eps)
    if returned.shape != wanted.shape or not np.all(np.abs(returned - wanted) <= slack):
        raise ValueError(
            f"{element_name(joint)}: coordinates() returns {returned.tolist()} at the pose where "
            f"its motions() have {wanted.tolist()}; both must be the same, in the same order: in "
            "joint coordinates forces along the joint act on those of the motions."
        )
