"""Points and axes of the joints of a tree on its bodies, for pictures."""

from typing import Any

from jaxtyping import Array

from lie_jax.multibody.minimal.tree import Tree
from lie_jax.numerics import small


def points(system: Any) -> list[tuple[int, Array]]:
    """Numbers of bodies and points of joints, see `AbstractMultibodySystem.joint_points`."""
    joints, links = system.joints, system.joint_links
    return [
        (body, of_joints[link])
        for link, pair in enumerate(_ends(system.tree))
        if link in links
        for body, of_joints in zip(pair, (joints.parent_point, joints.child_point), strict=True)
        if body < len(system.named)
    ]


def axes(system: Any) -> list[tuple[int, Array, Array]]:
    """Numbers of bodies, points and axes of joints, see `AbstractMultibodySystem.joint_axes`."""
    joints, drawn = system.joints, []
    for link, (nearer, farther) in enumerate(_ends(system.tree)):
        if joints.kinds[link] not in ("turn", "slide", "screw"):
            continue
        # Frames inside joints are no bodies: the axis lies on the end that is one.
        if nearer < len(system.named):
            drawn.append((nearer, joints.parent_point[link], joints.axis[link]))
        elif farther < len(system.named):
            axis = small.matvec(joints.home[link].T, joints.axis[link])
            drawn.append((farther, joints.child_point[link], axis))
    return drawn


def _ends(tree: Tree) -> list[tuple[int, int]]:
    """Numbers of the bodies nearer to and farther from the root, of each link."""
    nearer = (-1 if place < 0 else tree.bodies[place] for place in tree.nearer)
    return list(zip(nearer, tree.bodies[tree.bases :], strict=True))
