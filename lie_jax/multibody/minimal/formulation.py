"""The formulation in joint coordinates, and the joints that close loops in it."""

from collections.abc import Container, Sequence

import equinox as eqx

from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.mechanics.mechanism import Label, Mechanism, labels
from lie_jax.multibody.coordinates.base import AbstractFormulation
from lie_jax.numerics.forest import DisjointSets


def _labels(cut: Sequence) -> tuple[Label, ...]:
    if isinstance(cut, str) or not all(isinstance(x, tuple | list | str) for x in cut):
        raise ValueError(
            f"Minimal(cut=) is {cut!r}; it must be a sequence of labels of joints, as "
            "`joint_coordinates` has them: write cut=[('parent', 'child')]."
        )
    return tuple(label if isinstance(label, str) else tuple(label) for label in cut)


class Minimal(AbstractFormulation):
    """Joint coordinates of bodies in trees, with floating bases or on the ground. [S1] Section V

    Coordinates have revolute, prismatic, cylindrical, universal, planar, spherical, rigid and
    generic joints, and joints of one's own with `motions`. The body of a tree that is no joint's
    child is its base, unless the tree hangs on the ground. q holds position and quaternion (7) of
    each base in the mechanism's order of bodies, then the coordinates of the joints in their order:
    angles (rad) and distances (m) as the joints define them, or for a spherical joint the unit
    quaternion (4) of the body farther from the base in the nearer one's frame. v holds the bases'
    body-fixed twists (6), then the rates of angles and distances, and for a spherical joint the
    angular velocity (3) relative to the nearer body, components of the farther one. A joint with
    several numbers is a row of hinges and sliders with massless frames between them, and costs as
    much. Amplitudes of flexible bodies come last, in v their rates, kind by kind of bodies with as
    many modes and interfaces.

    **Loops.** Joints without coordinates and with velocity constraints are constraints between the
    bodies of the tree, and so is one joint of every loop. Those with an armature stay in the tree
    first, then those with most constraints, then those listed first.

    **Arguments:** `cut`: labels, the name or `(parent, child)` or `(parent, child, 2)` as in
    `joint_coordinates`, of the joints that are constraints in the place of that choice. All other
    joints with coordinates must be a forest. Raises `ValueError` for anything but a sequence of
    labels; `assemble` for labels of no joint and for cuts that leave a loop.
    """

    cut: tuple[Label, ...] = eqx.field(static=True, converter=_labels, default=())


def split_joints(
    mechanism: Mechanism, cut: tuple[Label, ...], first: Container[int] = ()
) -> tuple[list[tuple[Motion, ...]], list[int]]:
    """Motions of all joints of the tree, () for others, and the numbers of these.

    Without labels in `cut` the joints with the numbers in `first` come into the tree before others.
    Raises `ValueError` for labels of no joint and for loops that are left.
    """
    joints = mechanism.joints
    by_label = labels(joints)
    for label in cut:
        if label not in by_label:
            known = ", ".join(map(repr, by_label)) or "none"
            raise ValueError(
                f"Minimal(cut=) has {label!r}, which is the label of no joint; the labels are "
                f"{known}: correct it."
            )
    motions = [
        () if joint.velocity_rows or label in cut else joint.motions() or ()
        for joint, label in zip(joints, by_label, strict=True)
    ]
    moving = [number for number, of_joint in enumerate(motions) if of_joint]
    if not cut:
        moving.sort(key=lambda number: (number not in first, *_merit(joints[number])))
    sets = DisjointSets(len(mechanism.names) + 1)
    place = {
        name: i for i, body in enumerate(mechanism.bodies, 1) for name in (body.name, *body.frames)
    }
    for number in moving:
        joint = joints[number]
        if not sets.join(place.get(joint.parent, 0), place.get(joint.child, 0)):
            if cut:
                raise ValueError(
                    f"{element_name(joint)} closes a loop that Minimal(cut=) leaves; joints with "
                    f"coordinates that are not cut must be a tree: add {by_label[number]!r} to "
                    "cut=, or leave cut= out."
                )
            motions[number] = ()
    return motions, [number for number, of_joint in enumerate(motions) if not of_joint]


def refuse_armatures(joints: Sequence[AbstractJoint]) -> None:
    """Raise for a cut joint with an armature."""
    for joint in joints:
        if _has_armature(joint):
            raise ValueError(
                f"{element_name(joint)} has an armature and closes a loop; joints that are "
                "constraints have none: cut another joint of the loop by lie_jax.Minimal(cut=)."
            )


def _merit(joint: AbstractJoint) -> tuple[bool, int]:
    """Key by which joints come into the tree; equal ones in their order."""
    return not _has_armature(joint), -joint.rows


def _has_armature(joint: AbstractJoint) -> bool:
    return any(motion.armature is not None for motion in joint.motions() or ())
