"""Inertia of a beam element: sections at both nodes and in the middle, by Simpson's rule.

Of nodes at r_A and r_B with rotations R_A and R_B, d = r_B - r_A and φ the rotation from A to B, in
inertial components, the middle of the screw between them and its angular velocity are

    r = (r_A + r_B)/2 - φ × d / 8,    ω = (ω_A + ω_B)/2 - φ × (ω_B - ω_A)/8

but for terms of the fourth order, also with sin|φ| for |φ|. Weights are 1/6, 4/6 and 1/6 of the
length. Rigid motions are exact, and frequencies have errors of the fourth order, together with
linear strains.
"""

import functools
from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.inertias import AbstractInertia
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Poses
from lie_jax.numerics import small

_AT_NODE, _IN_MIDDLE = 1.0 / 6.0, 4.0 / 6.0


class BeamInertia(AbstractInertia):
    """Mass along a beam element, in place of masses at its nodes: `lie_jax.beams.line(order=4)`.

    **Arguments:**

    - `parent`, `child`: names of the bodies that are the nodes, or `"ground"`; `length`, m.
    - `mass`: of unit length, kg/m; `inertia`: of a section of unit length, (3, 3), kg m, in axes of
      the nodes' frames.
    - `parent_point`, `child_point` (3,), m, `parent_orientation`, `child_orientation` (4,), unit
      quaternions: the frames of the nodes in those of the bodies, as of `lie_jax.beams.Beam`.

    Use it with linear strains only: with constant ones frequencies are worse than with masses at
    nodes.
    """

    parent: str = eqx.field(static=True, metadata=fields.BODY)
    child: str = eqx.field(static=True, metadata=fields.BODY)
    length: Parameter = fields.positive("m")
    mass: Parameter = fields.positive("kg/m")
    inertia: Parameter = fields.semidefinite("kg m")
    parent_point: Parameter = fields.point()
    parent_orientation: Parameter = fields.orientation()
    child_point: Parameter = fields.point()
    child_orientation: Parameter = fields.orientation()

    @override
    def kinetic_energy(self, poses, velocities):
        nodes, points = self._nodes(poses), self._points(poses, velocities)
        spins = [
            small.matvec(pose.rotation, velocity.omega_body)
            for pose, velocity in zip(poses, velocities, strict=True)
        ]
        middle, angle = self._middle(nodes)
        change = spins[1] - spins[0]
        shift, turn = nodes[1].position - nodes[0].position, self._turning(nodes, spins)
        linear = 0.5 * (points[0] + points[1]) - 0.125 * (
            small.cross(turn, shift) + small.cross(angle, points[1] - points[0])
        )
        omega = 0.5 * (spins[0] + spins[1]) - 0.125 * small.cross(angle, change)
        energy = _IN_MIDDLE * self._energy(middle.rotation, linear, omega)
        for node, point, spin in zip(nodes, points, spins, strict=True):
            energy = energy + _AT_NODE * self._energy(node.rotation, point, spin)
        return self.length * energy

    @override
    def mass_moment(self, poses):
        nodes = self._nodes(poses)
        middle, _ = self._middle(nodes)
        ends = nodes[0].position + nodes[1].position
        return self.mass * self.length * (_IN_MIDDLE * middle.position + _AT_NODE * ends)

    def _energy(self, rotation: Array, linear: Array, omega: Array) -> Array:
        """Kinetic energy of a section of unit length, from inertial velocities."""
        spin = small.matvec(rotation.T, omega)
        about = small.dot(spin, small.matvec(self.inertia, spin))
        return 0.5 * (self.mass * small.dot(linear, linear) + about)

    def _middle(self, nodes: list[BodyPose]) -> tuple[BodyPose, Array]:
        """Frame of the middle section, and the rotation φ (3,) between the nodes."""
        a, b = nodes
        angle = _half_sum(small.cross(a.rotation[:, k], b.rotation[:, k]) for k in range(3))
        position = 0.5 * (a.position + b.position)
        position = position - 0.125 * small.cross(angle, b.position - a.position)
        # Half of the rotation by Rodrigues' formula.
        quarter = 0.25 * angle
        skew = small.hat(quarter)
        factor = 2.0 / (1.0 + small.dot(quarter, quarter))
        half = jnp.eye(3, dtype=angle.dtype) + factor * (skew + small.matmul(skew, skew))
        return BodyPose(small.matmul(half, a.rotation), position), angle

    def _turning(self, nodes: list[BodyPose], spins: list[Array]) -> Array:
        """Rate (3,) of the rotation φ between the nodes."""
        a, b = (
            small.matmul(small.hat(spin), node.rotation)
            for node, spin in zip(nodes, spins, strict=True)
        )
        start, end = (node.rotation for node in nodes)
        return _half_sum(
            small.cross(a[:, k], end[:, k]) + small.cross(start[:, k], b[:, k]) for k in range(3)
        )

    def _nodes(self, poses: Poses) -> list[BodyPose]:
        """Inertial frames of both nodes."""
        return [
            BodyPose(
                small.matmul(pose.rotation, turn),
                pose.position + small.matvec(pose.rotation, point),
            )
            for pose, (point, turn) in zip(poses, self._frames(), strict=True)
        ]

    def _points(self, poses: Poses, velocities: tuple[BodyVelocity, ...]) -> list[Array]:
        """Velocities of both nodes, inertial."""
        return [
            velocity.linear + small.matvec(pose.rotation, small.cross(velocity.omega_body, point))
            for pose, velocity, (point, _) in zip(poses, velocities, self._frames(), strict=True)
        ]

    def _frames(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Origins (3,) and rotations (3, 3) of the nodes in the frames of their bodies."""
        return (
            (self.parent_point, quaternion.to_matrix(self.parent_orientation)),
            (self.child_point, quaternion.to_matrix(self.child_orientation)),
        )


def _half_sum(parts: Iterable[Array]) -> Array:
    return 0.5 * functools.reduce(jnp.add, parts)
