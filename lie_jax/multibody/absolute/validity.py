"""Limits of mechanisms in absolute coordinates, and the reason of a failed elimination."""

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.multibody import constraints, flexible_limits, stacking
from lie_jax.multibody.absolute import elements
from lie_jax.multibody.absolute.attachments import Attachments
from lie_jax.multibody.stacking import Groups
from lie_jax.multibody.validity import MultibodyValidity
from lie_jax.systems.system import Time


class AbsoluteValidity(MultibodyValidity):
    """Limits of coordinates, joints and forces."""

    @override
    def regular(self, q):
        return jnp.all(self.system.formulation.regular(self.system.split(q)))

    @override
    def leaves_range(self, t, q, v):
        of_forces = super().leaves_range(t, q, v)
        of_joints = constraints.leaves_range(self.system.joints, self.system._instant(t, q, v))
        if not len(of_joints):
            return of_forces
        none = jnp.zeros(sum(group.count for group in self.system.forces), bool)
        return jnp.concatenate([of_forces if len(of_forces) else none, of_joints])

    @override
    def branch_signs(self, t, q):
        pose = self.system.poses_by_slot(q)
        return constraints.sides(self.system.joints, jnp.asarray(t, q.dtype), pose)

    @override
    def singular(self, t, q):
        system, pose = self.system, BodyPose(*self.system.poses_by_slot(q))
        return _first_singular(system.rigid_bodies, system.joints, system.names, t, pose)

    @override
    def doubts(self, q, v):
        return flexible_limits.doubts(self.system, q, v)

    @override
    def force_name(self, number):
        elements = *self.system.forces, *self.system.joints
        return stacking.owner(elements, number)

    @override
    def joint_name(self, number):
        return stacking.owner(self.system.joints, number)


def _first_singular(
    bodies: MassProperties, joints: Groups, names: tuple[str, ...], t: Time, pose: BodyPose
) -> str | None:
    """Sentence on the first body or joint that is singular by itself, the reason of a failed
    elimination; None without one.

    A body is singular without mass or inertia, a joint whose constraints depend on each other.
    """
    rotations = pose.rotation[: len(names)]
    masses = np.asarray(elements.masses(bodies, rotations, None))
    for k, name in enumerate(names):
        if not np.all(np.diagonal(masses[..., k]) > 0.0):
            return (
                f"Body {name!r} has no mass or no inertia, and every body moves by its own where "
                "joints are constraints: give it both, or use lie_jax.Minimal()"
            )
    limit = np.sqrt(np.finfo(masses.dtype).eps)
    columns = elements.joint_columns(joints, jnp.asarray(t, masses.dtype), pose, Attachments())
    for group, of_group in zip(joints, columns, strict=True):
        for k in range(group.count):
            # The ground does not move.
            free = zip(of_group.values, group.bodies, strict=True)
            moving = [np.asarray(x[..., k]) for x, slot in free if slot[k] >= 0]
            rows = np.concatenate(moving).T
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            scaled = rows / np.where(lengths > 0.0, lengths, 1.0)
            if np.linalg.svd(scaled, compute_uv=False)[-1] <= limit:
                return (
                    f"Constraints of {group.titles[k]} depend on each other: give "
                    "it other axes or points, or start elsewhere"
                )
    return None
