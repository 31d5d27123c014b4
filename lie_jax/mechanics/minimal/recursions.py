"""Recursions along a tree of bodies: articulated bodies, Newton-Euler and composite bodies.

All quantities of a body are in its own frame, at its origin: twists (v, ω), accelerations that are
their time derivatives, and wrenches (force, torque). "Slots" are those of `trees.Tree`, "links" the
slots of all levels but the first, each with the joint that it hangs from.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import se3
from lie_jax.mechanics.body import MassProperties, mass_matrix
from lie_jax.mechanics.joints.base import BodyPose
from lie_jax.mechanics.minimal import trees
from lie_jax.mechanics.minimal.trees import Tree
from lie_jax.numerics import dense, small


class Links(NamedTuple):
    """Of each link: matrix (6, 6) from twists of the nearer body, in its frame, to the link's, the
    joint's twists (6, nv), and the inertia added to its coordinates (nv,), 1 for each that it does
    not have.
    """

    transform: Float[Array, "links 6 6"]
    twists: Float[Array, "links 6 nv"]
    armature: Float[Array, "links nv"]


class Motion(NamedTuple):
    """World poses of the slots (rotations (slots, 3, 3), positions (slots, 3)) and twists."""

    pose: BodyPose
    twist: Float[Array, "slots 6"]


def motion(
    tree: Tree, links: Links, start: Motion, relative: BodyPose, rates: Float[Array, "links nv"]
) -> Motion:
    """Poses and twists of all slots from those of the first level and of the joints."""

    def step(parent: Motion, given):
        relative, transform, own = given
        rotation, position = parent.pose
        pose = BodyPose(
            small.matmul(rotation, relative.rotation),
            position + small.matvec(rotation, relative.position),
        )
        return Motion(pose, small.matvec(transform, parent.twist) + own), None

    own = jax.vmap(small.matvec)(links.twists, rates)
    return trees.outward(tree, step, start, (relative, links.transform, own))[0]


def inertias(bodies: MassProperties) -> Float[Array, "slots 6 6"]:
    """Inertia matrices for body twists."""
    identity = jnp.eye(3, dtype=bodies.mass.dtype)
    return jax.vmap(mass_matrix, (0, None))(bodies, identity)


def gyroscopic(
    inertia: Float[Array, "slots 6 6"], twist: Float[Array, "slots 6"]
) -> Float[Array, "slots 6"]:
    """Wrench that keeps a body's twist constant: inertia V̇ + this = applied wrench. [S1] (34)"""

    def each(inertia, twist):
        return -small.matvec(se3.ad(twist).T, small.matvec(inertia, twist))

    return jax.vmap(each)(inertia, twist)


def drift(
    links: Links, twist: Float[Array, "links 6"], rates: Float[Array, "links nv"]
) -> Float[Array, "links 6"]:
    """Acceleration of the links that no joint acceleration or nearer body's gives: ad(V) S q̇."""

    def each(twists, twist, rates):
        return small.matvec(se3.ad(twist), small.matvec(twists, rates))

    return jax.vmap(each)(links.twists, twist, rates)


class Accelerations(NamedTuple):
    """Of the bases' twists (bases, 6) and of the joints' velocities (links, nv)."""

    bases: Float[Array, "bases 6"]
    rates: Float[Array, "links nv"]


def forward_dynamics(
    tree: Tree,
    links: Links,
    inertia: Float[Array, "slots 6 6"],
    wrench: Float[Array, "slots 6"],
    drift: Float[Array, "links 6"],
) -> Accelerations:
    """Accelerations by the articulated-body algorithm (Featherstone), with free joints.

    `wrench` is what acts on each body, gyroscopic terms included.
    """

    def join(total, given):
        inertia, bias = total
        links, drift = given
        push = small.matmul(inertia, links.twists)
        own = small.matmul(links.twists.T, push) + jnp.diag(links.armature)
        gain = small.matmul(push, small.inverse(own))
        alone = -small.matvec(small.inverse(own), small.matvec(links.twists.T, bias))
        passed = inertia - small.matmul(gain, push.T)
        rest = bias + small.matvec(passed, drift) + small.matvec(push, alone)
        down = links.transform.T
        upward = (
            small.matmul(down, small.matmul(passed, links.transform)),
            small.matvec(down, rest),
        )
        return upward, (gain, alone)

    (inertia, bias), kept = trees.inward(tree, join, (inertia, -wrench), (links, drift))
    # One after the other: the elimination under `vmap` would need a scatter.
    own = inertia[: tree.bases], -bias[: tree.bases]
    bases = jax.lax.map(lambda pair: dense.solve(*pair), own)
    start = jnp.concatenate([bases, jnp.zeros((tree.width - tree.bases, 6), bases.dtype)])

    def follow(above, given):
        links, drift, (gain, alone) = given
        carried = small.matvec(links.transform, above) + drift
        rates = alone - small.matvec(gain.T, carried)
        return carried + small.matvec(links.twists, rates), rates

    _, rates = trees.outward(tree, follow, start, (links, drift, kept))
    return Accelerations(bases, jnp.zeros_like(links.armature) if rates is None else rates)


def inverse_dynamics(
    tree: Tree,
    links: Links,
    inertia: Float[Array, "slots 6 6"],
    wrench: Float[Array, "slots 6"],
    drift: Float[Array, "links 6"],
    accelerations: Accelerations,
) -> tuple[Float[Array, "bases 6"], Float[Array, "links nv"]]:
    """Wrenches on the bases and joint forces that a motion needs besides `wrench`.

    The recursive Newton-Euler algorithm.
    """
    start = accelerations.bases
    start = jnp.concatenate([start, jnp.zeros((tree.width - tree.bases, 6), start.dtype)])

    def follow(above, given):
        transform, own = given
        return small.matvec(transform, above) + own, None

    own = drift + jax.vmap(small.matvec)(links.twists, accelerations.rates)
    acceleration, _ = trees.outward(tree, follow, start, (links.transform, own))
    needed = jax.vmap(small.matvec)(inertia, acceleration) - wrench

    def join(total, links):
        return small.matvec(links.transform.T, total), small.matvec(links.twists.T, total)

    total, forces = trees.inward(tree, join, needed, links)
    forces = jnp.zeros_like(links.armature) if forces is None else forces
    return total[: tree.bases], forces + links.armature * accelerations.rates


class Composite(NamedTuple):
    """What the mass matrix is made of, in components of the tree's base frame.

    `bases`: inertia (bases, 6, 6) of all bodies as one; `twists`: those of the joints; `momenta`:
    of all bodies beyond a joint, moving as one along its twists, both (links, nv, 6).
    """

    bases: Float[Array, "bases 6 6"]
    twists: Float[Array, "links nv 6"]
    momenta: Float[Array, "links nv 6"]


def composite(tree: Tree, links: Links, inertia: Float[Array, "slots 6 6"]) -> Composite:
    """Composite-rigid-body algorithm, up to the products of twists and momenta."""

    def join(total, transform):
        return small.matmul(transform.T, small.matmul(total, transform)), total

    total, beyond = trees.inward(tree, join, inertia, links.transform)
    none = jnp.zeros((0, links.armature.shape[1], 6), inertia.dtype)
    if beyond is None:
        return Composite(total, none, none)
    identity = jnp.broadcast_to(jnp.eye(6, dtype=inertia.dtype), (tree.width, 6, 6))
    frames, _ = trees.outward(
        tree, lambda above, own: (small.matmul(own, above), None), identity, links.transform
    )

    def to_base(frame, twists, inertia):
        # The inverse of a frame's matrix (a, b; 0, a) is (aᵀ, bᵀ; 0, aᵀ).
        back = se3.upper(frame[:3, :3].T, frame[:3, 3:].T, frame[3:, 3:].T)
        momenta = small.matmul(frame.T, small.matmul(inertia, twists))
        return small.matmul(back, twists).T, momenta.T

    twists, momenta = jax.vmap(to_base)(frames[tree.width :], links.twists, beyond)
    return Composite(total[: tree.bases], twists, momenta)
