"""Bodies and joints of a file's tree."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lie_jax.io.compiled import CompiledFile
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.joints.base import GROUND
from lie_jax.mechanics.joints.pairs import PrismaticJoint, RevoluteJoint, SphericalJoint


class Mount(NamedTuple):
    """Fields of the element of a mechanism for one of a body's joints."""

    parent: str
    child: str
    axis: np.ndarray
    parent_point: np.ndarray
    child_point: np.ndarray
    orientation: np.ndarray


def bodies(file: CompiledFile, body: int) -> list[Body]:
    """A body with all bodies fixed to it, and the massless ones between its joints."""
    position, _ = file.pose(body)
    pose = {"position": position, "orientation": file.data.xquat[body]}
    massless = [Body(name, 0.0, np.zeros((3, 3)), **pose) for name in _names_between(file, body)]
    name = file.name("body", body)
    if file.is_massless(body):
        return [*massless, Body(name, 0.0, np.zeros((3, 3)), **pose)]
    mass, center, inertia = file.masses.get(file.model.body(body).name) or _mass(file, body)
    return [*massless, Body(name, mass, inertia, center, **pose)]


def _mass(file: CompiledFile, body: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre and inertia in the axes of a body, with all bodies fixed to it."""
    model, data = file.model, file.data
    parts = np.flatnonzero(model.body_weldid == body)
    masses, centers = model.body_mass[parts], data.xipos[parts]
    mass = masses.sum()
    center = masses @ centers / mass
    position, rotation = file.pose(body)
    inertia = np.zeros((3, 3))
    for i, part_mass, part_center in zip(parts, masses, centers, strict=True):
        axes, arm = rotation.T @ data.ximat[i].reshape(3, 3), rotation.T @ (part_center - center)
        about_part_center = axes @ np.diag(model.body_inertia[i]) @ axes.T
        inertia += about_part_center + part_mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return mass, rotation.T @ (center - position), 0.5 * (inertia + inertia.T)


def _names_between(file: CompiledFile, body: int) -> list[str]:
    name = file.name("body", body)
    return [f"{name} after {file.name('joint', j)}" for j in file.joints(body)[:-1]]


def mounts(file: CompiledFile, body: int) -> Iterator[tuple[int, Mount]]:
    """Joints of a body, in the order in which they move it."""
    model = file.model
    parent = file.parent(body)
    (base, base_rotation), (position, rotation) = file.pose(parent), file.pose(body)
    home, point = base_rotation.T @ rotation, base_rotation.T @ (position - base)
    back, orientation = np.zeros(4), np.zeros(4)
    file.mujoco.mju_negQuat(back, file.data.xquat[parent])
    file.mujoco.mju_mulQuat(orientation, back, file.data.xquat[body])
    nearer = file.name("body", parent) if parent else GROUND
    farther = [*_names_between(file, body), file.name("body", body)]
    for joint, child in zip(file.joints(body), farther, strict=False):
        anchor, axis = model.jnt_pos[joint], model.jnt_axis[joint]
        yield joint, Mount(nearer, child, home @ axis, point + home @ anchor, anchor, orientation)
        # All joints of a body are in its frame: the massless bodies between them have that frame.
        nearer, home, point = child, np.eye(3), np.zeros(3)
        orientation = np.asarray([1.0, 0.0, 0.0, 0.0])


def joint(
    file: CompiledFile, joint: int, mount: Mount
) -> SphericalJoint | RevoluteJoint | PrismaticJoint:
    """Element of a mechanism for a joint."""
    # None and not zero: an armature excludes all formulations but joint coordinates.
    armature = file.armature(joint) or None
    kind, name = file.kind(joint), file.name("joint", joint)
    if kind == "ball":
        ends = mount.parent, mount.child, mount.parent_point, mount.child_point
        return SphericalJoint(*ends, armature, name=name)
    joint_class = RevoluteJoint if kind == "hinge" else PrismaticJoint
    return joint_class(**mount._asdict(), armature=armature, name=name)
