"""Interfaces of flexible bodies as frames of a tree, which amplitudes move against their bodies.

Each is a massless frame that a motion without joint coordinates holds at its body. Where the joint
nearer to the root is at an interface, the body hangs from that frame, and the motion is reversed.
Twists have inertial components and the reference point of `recursions`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.mechanics.flexible import interfaces
from lie_jax.mechanics.flexible.interfaces import Interface
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose, BodyVelocity
from lie_jax.multibody.flexible import Amplitudes, Flexibility
from lie_jax.multibody.minimal.joints import TreeJoints
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.numerics import gather, small

# Twists (count, interfaces, 6, modes) of interfaces against their bodies for unit rates of the
# amplitudes, of each group.
Shapes = list[Array]


def connections(
    joints: Sequence[AbstractJoint], flexibility: Flexibility, names: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Parent and child of the motion at each interface, in their order behind the bodies' names.

    An interface that is a joint's child is the parent of its body: the body then is no joint's
    base.
    """
    bodies = [
        k for group in flexibility.groups for k in group.bodies for _ in range(group.interfaces)
    ]
    carried = {joint.child for joint in joints}
    pairs = zip(bodies, names[flexibility.bodies :], strict=True)
    return tuple((frame, names[k]) if frame in carried else (names[k], frame) for k, frame in pairs)


@eqx.filter_jit
def initial_motion(
    flexibility: Flexibility,
    motion: tuple[Array, ...],
    amplitudes: list[Array],
    rates: list[Array],
) -> tuple[Array, ...]:
    """Initial positions, orientations, ṙ and ω of bodies and interfaces, from those of bodies."""
    position, orientation, velocity, omega = motion
    e, rate = jnp.concatenate(amplitudes), jnp.concatenate(rates)
    pose = BodyPose(jax.vmap(quaternion.to_matrix)(orientation), position)
    frames = flexibility.frames(pose, e)
    moving = flexibility.velocities(pose, BodyVelocity(velocity, omega), e, rate)
    turned = jax.vmap(quaternion.from_rotation)(frames.rotation[flexibility.bodies :])
    return frames.position, jnp.concatenate([orientation, turned]), *moving


class ModalFrames(NamedTuple):
    """Interfaces of the flexible bodies of a tree."""

    flexibility: Flexibility
    tree: Tree

    @property
    def links(self) -> tuple[int, ...]:
        """Link of each interface's motion."""
        links = self.tree.links
        return links[len(links) - self.flexibility.interfaces :]

    @property
    def signs(self) -> Float[np.ndarray, " interfaces"]:
        """1 for an interface that hangs from its body, -1 for one from which its body hangs."""
        bodies, n = self.tree.bodies[self.tree.bases :], self.flexibility.bodies
        is_outward = [bodies[link] == n + k for k, link in enumerate(self.links)]
        return np.where(is_outward, 1.0, -1.0)

    @property
    def slots(self) -> list[tuple[int, ...]]:
        """Places of each group's bodies among bases and links."""
        slots = self.tree.slots
        return [tuple(slots[k] for k in group.bodies) for group in self.flexibility.groups]

    def joints(self, joints: TreeJoints, amplitudes: Amplitudes) -> TreeJoints:
        """Motions of all links at these amplitudes of all bodies."""
        pose = _still(self.flexibility, amplitudes)
        outward = jnp.asarray(self.signs[:, None] > 0.0)
        none = jnp.zeros_like(pose.position)
        home = jnp.where(outward[:, None], pose.rotation, pose.rotation.swapaxes(1, 2))
        parent_point = jnp.where(outward, pose.position, none)
        child_point = jnp.where(outward, none, pose.position)
        places = list(range(len(joints.kinds)))
        for k, link in enumerate(self.links):
            places[link] = len(joints.kinds) + k

        def put(known: Array, bent: Array) -> Array:
            return gather.pick(tuple(places), jnp.concatenate([known, bent]))

        return eqx.tree_at(
            lambda j: (j.home, j.parent_point, j.child_point),
            joints,
            (
                put(joints.home, home),
                put(joints.parent_point, parent_point),
                put(joints.child_point, child_point),
            ),
        )

    def shapes(
        self,
        rotation: Float[Array, "3 3 frames"],
        arm: Float[Array, "3 frames"],
        amplitudes: Amplitudes,
    ) -> Shapes:
        """Twists that rates of amplitudes add along the link of each interface."""
        return self._seen(
            rotation, arm, amplitudes, lambda at, e: interfaces.relative_columns(at, e)
        )

    def twists(self, shapes: Shapes, rates: Amplitudes) -> Float[Array, "6 links"]:
        """Twists that rates of the amplitudes, or their accelerations, add along all links."""
        split = self.flexibility.split(rates)
        added = [
            jnp.sum(of_group * rate[:, None, None], axis=3).reshape(-1, 6)
            for of_group, rate in zip(shapes, split, strict=True)
        ]
        return self._on_links(added)

    def drift(
        self,
        rotation: Float[Array, "3 3 frames"],
        arm: Float[Array, "3 frames"],
        amplitudes: Amplitudes,
        rates: Amplitudes,
    ) -> Float[Array, "6 links"]:
        """Rates, seen from the bodies, of the twists that constant rates add along all links."""
        split = iter(self.flexibility.split(rates))

        def change(at: Interface, e: Array, rate: Array) -> Float[Array, "6 1"]:
            def twist(e: Array) -> Array:
                return small.matvec(interfaces.relative_columns(at, e), rate)

            return jax.jvp(twist, (e,), (rate,))[1][:, None]

        parts = self._seen(rotation, arm, amplitudes, change, split)
        return self._on_links([part[..., 0].reshape(-1, 6) for part in parts])

    def along(self, shapes: Shapes, wrench: Float[Array, "6 frames"]) -> Amplitudes:
        """Forces along all amplitudes of wrenches that links hand on from the nearer side."""
        places = tuple(self.tree.bases + link for link in self.links)
        acting = gather.pick(places, wrench.T) * jnp.asarray(self.signs[:, None], wrench.dtype)
        parts, first = [], 0
        for group, of_group in zip(self.flexibility.groups, shapes, strict=True):
            count, number = len(group.bodies), group.interfaces
            last = first + count * number
            of_bodies = acting[first:last].reshape(count, number, 6, 1)
            parts.append(jnp.sum(of_group * of_bodies, axis=(1, 2)).reshape(-1))
            first = last
        return jnp.concatenate(parts)

    def columns(self, shapes: Shapes, slots: tuple[int, ...]) -> Float[Array, "6 all_modes slots"]:
        """Twists of frames at slots for unit rates of all amplitudes."""
        beyond, first, parts = self._beyond(slots), 0, []
        moved = jnp.asarray(self.signs[:, None] * beyond, shapes[0].dtype)
        for group, of_group in zip(self.flexibility.groups, shapes, strict=True):
            count, number = len(group.bodies), group.interfaces
            last = first + count * number
            moves = moved[first:last].reshape(count, number, 1, 1, len(slots))
            columns = jnp.sum(of_group[..., None] * moves, axis=1)
            parts.append(columns.swapaxes(0, 1).reshape(6, -1, len(slots)))
            first = last
        return jnp.concatenate(parts, axis=1)

    def _beyond(self, slots: tuple[int, ...]) -> Float[np.ndarray, "interfaces slots"]:
        """1 where a frame is that of an interface's link, or hangs from it."""
        forest, bases = self.tree.forest, self.tree.bases
        # Slots of the forest count the grounds, too.
        number = np.asarray(
            [slot if slot < bases else forest.roots + slot - bases for slot in slots]
        )
        links = np.asarray([forest.roots + link for link in self.links])
        same = number[None] == links[:, None]
        # The ground does not move.
        moves = np.asarray([slot >= 0 for slot in slots])
        return (forest.ancestors[np.ix_(number, links)].T + same) * moves

    def _on_links(self, parts: list[Array]) -> Float[Array, "6 links"]:
        values = jnp.concatenate(parts)
        signed = values * jnp.asarray(self.signs[:, None], values.dtype)
        return gather.add_up(self.links, signed, len(self.tree.links)).T

    def _seen(
        self, rotation: Array, arm: Array, amplitudes: Amplitudes, function, *more
    ) -> list[Array]:
        """Columns (count, interfaces, 6, n) of a function in body axes, turned and moved."""
        result = []
        split = zip(
            self.flexibility.groups, self.slots, self.flexibility.split(amplitudes), strict=True
        )
        for group, slots, e in split:
            others = [next(part) for part in more]
            columns = group.at_interfaces(function, e, *others)
            turn = jnp.moveaxis(gather.pick(slots, rotation, axis=2), -1, 0)
            origin = gather.pick(slots, arm, axis=1).T
            result.append(jax.vmap(jax.vmap(_turned, (None, None, 0)))(turn, origin, columns))
        return result


def _turned(
    rotation: Float[Array, "3 3"], arm: Float[Array, "3"], columns: Float[Array, "6 n"]
) -> Float[Array, "6 n"]:
    linear, angular = (small.matmul(rotation, part) for part in (columns[:3], columns[3:]))
    return jnp.concatenate([linear + small.matmul(small.hat(arm), angular), angular])


def _still(flexibility: Flexibility, amplitudes: Amplitudes) -> BodyPose:
    """Poses of all interfaces in their bodies."""
    rotations, positions = [], []
    for group, e in zip(flexibility.groups, flexibility.split(amplitudes), strict=True):
        count = len(group.bodies)
        identity = jnp.broadcast_to(jnp.eye(3, dtype=e.dtype), (count, 3, 3))
        body = BodyPose(identity, jnp.zeros((count, 3), e.dtype))
        at = group.at_interfaces(interfaces.pose, body, e)
        rotations.append(at.rotation.reshape(-1, 3, 3))
        positions.append(at.position.reshape(-1, 3))
    return BodyPose(jnp.concatenate(rotations), jnp.concatenate(positions))
