"""Reactions of the joints of a tree, from the wrenches that its links pass on."""

from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody.minimal.joints import TreeJoints
from lie_jax.multibody.minimal.kinematics import Kinematics, SpatialVectors
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.multibody.readings import JointReaction, Labels
from lie_jax.numerics import gather, small


def on_children(
    tree: Tree, joints: TreeJoints, motion: Kinematics, whole: SpatialVectors
) -> tuple[Float[Array, "3 links"], Float[Array, "3 links"]]:
    """Force and torque about `child_point`, inertial, by which each link's motion acts on its
    child, from `recursions.transmitted_wrenches`.
    """
    reversed_links = np.asarray(tree.reversed, bool)
    # A motion listed backwards has its child nearer to the root, and the child's point there. The
    # reference point of a tree on the ground is that point, with no arm.
    child = tuple(
        nearer if back else tree.bases + link
        for link, (nearer, back) in enumerate(zip(tree.nearer, tree.reversed, strict=True))
    )
    point = jnp.where(reversed_links[:, None], joints.parent_point, joints.child_point)
    rotation = gather.pick(child, motion.rotation, axis=2)
    lever = gather.pick(child, motion.arm, axis=1) + small.matvec(rotation, point.T)
    sign = jnp.asarray(np.where(reversed_links, -1.0, 1.0), whole.dtype)
    force, torque = (sign[None] * whole[:, tree.bases :]).reshape(2, 3, -1)
    return force, torque - small.cross(lever, force)


def by_label(
    labels: Labels, links: Iterable[tuple[int, int]], on_children: tuple[Array, Array]
) -> dict[Label, JointReaction]:
    """Reactions of joints from those of links; `links`: joint and link of each motion."""
    # The last motion of a joint is at its child.
    last = dict(links)
    return {
        labels[k]: JointReaction(*(x[:, link] for x in on_children)) for k, link in last.items()
    }
