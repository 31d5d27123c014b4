"""Elementary motions along a tree: where they put frames, and along which twists they move them.

Pose and axes are those of the frame farther from the root against the nearer one.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.mechanics.joints.base import BodyPose, Matrix, Vector
from lie_jax.mechanics.joints.motions import COUNTS, Kind, Motion
from lie_jax.multibody import stacking
from lie_jax.numerics import small


class TreeJoints(eqx.Module):
    """The motions of all links, stacked, with as many coordinates as the widest has.

    `axis` and `parent_point` (links, 3) have components in the nearer frame, `child_point`
    (links, 3) in the farther one; `home` (links, 3, 3) rotates farther to nearer components where
    the coordinate is zero; `armature` (links,): inertia added to the coordinates (kg m², kg), and
    `pitch` (links,) of screws (m/rad), None where no joint has it. `kinds` are those of `Motion`.
    Coordinates are an angle (rad), a distance
    (m), or the quaternion of the farther frame in the nearer one; velocities their rates, or the
    angular velocity relative to the nearer frame, farther frame's components.
    """

    axis: Float[Array, "..."]
    parent_point: Float[Array, "..."]
    child_point: Float[Array, "..."]
    home: Float[Array, "..."]
    armature: Float[Array, "..."] | None
    pitch: Float[Array, "..."] | None
    kinds: tuple[Kind, ...] = eqx.field(static=True)

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """Numbers of coordinates and velocities of each link."""
        return tuple(COUNTS[kind] for kind in self.kinds)

    @property
    def widest(self) -> tuple[int, int]:
        """The largest of those numbers, at least one."""
        nq, nv = zip((1, 1), *self.counts, strict=True)
        return max(nq), max(nv)

    def pick(self, links: np.ndarray, kinds: tuple[Kind, ...]) -> "TreeJoints":
        """Links (joints, len(kinds)) by their numbers, joints on the first axis."""
        return dataclasses.replace(jax.tree.map(lambda x: x[links], self), kinds=kinds)

    def _mask(self, *kinds: Kind) -> Float[Array, " links"]:
        return jnp.asarray([kind in kinds for kind in self.kinds], self.axis.dtype)

    def _advance(self) -> Float[Array, " links"] | None:
        """Distances along the axes for unit coordinates; None where no link has one."""
        if self.pitch is None and "slide" not in self.kinds:
            return None
        slides = self._mask("slide")
        return slides if self.pitch is None else slides + self._mask("screw") * self.pitch

    def poses(self, x: Float[Array, "links nq"]) -> BodyPose:
        """Rotations (links, 3, 3) of the farther frames, and positions (links, 3) of their origins
        from the nearer frames' `parent_point`.
        """
        rotation = jax.vmap(_rotation_about)(self.axis, self._mask("turn", "screw") * x[:, 0])
        if "swivel" in self.kinds:
            free = jax.vmap(quaternion.to_matrix)(x)
            rotation = jnp.where(self._mask("swivel")[:, None, None] > 0.0, free, rotation)
        rotation = jax.vmap(small.matmul)(rotation, self.home)
        position = -jax.vmap(small.matvec)(rotation, self.child_point)
        advance = self._advance()
        if advance is not None:
            position = position + (advance * x[:, 0])[:, None] * self.axis
        return BodyPose(rotation, position)

    def columns(
        self, rotation: Float[Array, "3 3 links"], position: Float[Array, "3 links"]
    ) -> Float[Array, "nv 6 links"]:
        """Twists of the farther frames for unit velocities, seen from a frame in which they have
        this rotation and position; zero where a link has fewer. Linear velocities are those at the
        origin.
        """

        def seen(vector: Float[Array, "links 3"]) -> Float[Array, "3 links"]:
            return jnp.sum(rotation * vector.T[None], axis=1)

        axis = seen(jax.vmap(lambda home, axis: small.matvec(home.T, axis))(self.home, self.axis))
        point = position + seen(self.child_point)
        about, advance = self._mask("turn", "screw")[None] * axis, self._advance()
        along = None if advance is None else advance[None] * axis
        columns = [_twist(point, about, along)]
        if "swivel" in self.kinds:
            free = self._mask("swivel")[None, None] * rotation
            columns = [_twist(point, about + free[:, 0], along)]
            columns += [_twist(point, free[:, k], None) for k in (1, 2)]
        return jnp.stack(columns)

    def inertia(self) -> Float[Array, "nv links"]:
        """Inertia added to each coordinate; 1 for one that a link does not have."""
        counts = np.asarray([nv for _, nv in self.counts], int)
        unused = jnp.asarray(np.arange(self.widest[1])[:, None] >= counts, self.axis.dtype)
        # Without any this stays a constant, which XLA folds.
        if self.armature is None:
            return unused
        return jnp.where(unused > 0.0, unused, self.armature[None])


def _twist(point: Array, about: Array, along: Array | None) -> Float[Array, "6 links"]:
    linear = small.cross(point, about)
    return jnp.concatenate([linear if along is None else linear + along, about])


def _rotation_about(axis: Vector, angle: Float[Array, ""]) -> Matrix:
    skew = small.hat(axis)
    half = jnp.sin(0.5 * angle)
    identity = jnp.eye(3, dtype=axis.dtype)
    return identity + jnp.sin(angle) * skew + 2.0 * half * half * small.matmul(skew, skew)


def stack(motions: Sequence[Motion], backwards: Sequence[bool], dtype: Any) -> TreeJoints:
    """The motions of all links; one listed backwards has its parent farther from the root."""
    blank: dict[str, Any] = dict.fromkeys(
        ("axis", "parent_point", "child_point"), np.zeros(3, dtype)
    )
    blank["orientation"] = np.asarray([1.0, 0.0, 0.0, 0.0], dtype)
    for name in ("armature", "pitch"):
        if any(getattr(motion, name) is not None for motion in motions):
            blank[name] = np.zeros((), dtype)

    def parameters(motion: Motion) -> dict[str, Any]:
        values = ((name, getattr(motion, name)) for name in blank)
        return blank | {name: value for name, value in values if value is not None}

    # An empty stack has the shapes of one row.
    stacked = stacking.stack([parameters(motion) for motion in motions] or [blank])
    stacked = jax.tree.map(lambda x: x[: len(motions)], stacked)
    armature, pitch = stacked.pop("armature", None), stacked.pop("pitch", None)
    kinds: tuple[Kind, ...] = tuple(motion.kind for motion in motions)
    directed = _orient(stacked, np.asarray(backwards, dtype))
    return TreeJoints(*directed, armature=armature, pitch=pitch, kinds=kinds)


# One program takes less time to compile than its operations one by one.
@jax.jit
@jax.vmap
def _orient(motion: dict[str, Array], backwards: Array) -> tuple[Array, ...]:
    axis, home = motion["axis"], quaternion.to_matrix(motion["orientation"])
    points = motion["parent_point"], motion["child_point"]
    # The same motion seen from the child, with the same coordinate.
    seen = -small.matvec(home.T, axis), *points[::-1], home.T
    return jax.tree.map(lambda a, b: jnp.where(backwards > 0.0, b, a), (axis, *points, home), seen)
