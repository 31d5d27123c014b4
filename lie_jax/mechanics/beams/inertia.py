"""Inertia of a beam element: rigid sections at both nodes and in the middle of the screw between
them, with 1/6, 1/6 and 4/6 of the length (Simpson's rule).

Rigid motions are exact. Together with linear strains bending of slender beams has errors of the
fourth order; extension, torsion and rotary inertia, as of linear displacements, of the second.
"""

from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.beams import middle
from lie_jax.mechanics.beams.middle import Middle, Rates, Rotations, Vectors
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.inertias import AbstractInertia
from lie_jax.mechanics.joints.base import Poses, Velocities, Wrench
from lie_jax.numerics import small

# Parts of the length: of the sections at both nodes and in the middle.
_PARTS = np.asarray([[1.0, 1.0, 4.0]]) / 6.0


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
        rates = jnp.stack([jnp.concatenate(velocity) for velocity in velocities])
        return 0.5 * jnp.sum(self.momenta(poses, velocities) * rates)

    @override
    def momenta(self, poses, velocities):
        nodes, moving = self._moving(poses, velocities)
        inside = small.matvec(small.transpose(nodes.rotation), moving.omega)
        spin = small.matvec(nodes.rotation, small.matvec(self.inertia[..., None], inside))
        return self._on_bodies(nodes, self.mass * moving.linear, spin)

    @override
    def wrenches(self, poses, velocities, accelerations, gravity):
        nodes, moving = self._moving(poses, velocities)
        omega = moving.omega[:, :2]
        turning = small.matvec(nodes.bodies, _stack(a.omega_body for a in accelerations))
        spin = small.hat(omega)
        swing = small.matvec(small.hat(turning) + small.matmul(spin, spin), nodes.arms)
        speeding = _stack(a.linear for a in accelerations) + swing
        ends = middle.accelerations(nodes.middle, moving.middle, speeding, turning)
        speeding, turning = _append(speeding, ends[0]), _append(turning, ends[1])
        # In the axes of the sections.
        pair = jnp.stack([turning, moving.omega], axis=1)
        inside = small.matmul(small.transpose(nodes.rotation), pair)
        about = small.matmul(self.inertia[..., None], inside)
        moment = about[:, 0] + small.cross(inside[:, 1], about[:, 1])
        force = self.mass * (speeding - gravity[:, None])
        acting = self._on_bodies(nodes, force, small.matvec(nodes.rotation, moment))
        return tuple(Wrench(each[:3], each[3:]) for each in acting)

    @override
    def mass_moment(self, poses):
        nodes = self._nodes(poses)
        return self.mass * jnp.sum(self._parts(nodes) * nodes.position, axis=1)

    def _nodes(self, poses: Poses) -> "_Nodes":
        bodies = _stack(pose.rotation for pose in poses)
        turns = (
            quaternion.to_matrix(self.parent_orientation),
            quaternion.to_matrix(self.child_orientation),
        )
        rotation = small.matmul(bodies, _stack(turns))
        arms = small.matvec(bodies, _stack([self.parent_point, self.child_point]))
        position = _stack(pose.position for pose in poses) + arms
        between = middle.middle(rotation, position)
        return _Nodes(
            bodies,
            arms,
            between,
            _append(rotation, between.rotation),
            _append(position, between.position),
        )

    def _moving(self, poses: Poses, velocities: Velocities) -> tuple["_Nodes", "_Moving"]:
        nodes = self._nodes(poses)
        omega = small.matvec(nodes.bodies, _stack(v.omega_body for v in velocities))
        linear = _stack(v.linear for v in velocities) + small.cross(omega, nodes.arms)
        rates = middle.rates(nodes.middle, linear, omega)
        return nodes, _Moving(rates, _append(linear, rates.linear), _append(omega, rates.omega))

    def _parts(self, nodes: "_Nodes") -> Array:
        """Lengths (1, 3) of the sections, m."""
        return self.length * jnp.asarray(_PARTS, nodes.position.dtype)

    def _on_bodies(self, nodes: "_Nodes", force: Array, moment: Array) -> Array:
        """Hybrid wrenches (2, 6) from inertial forces and moments (3, 3) of unit length on all
        sections.
        """
        parts = self._parts(nodes)
        force, moment = parts * force, parts * moment
        forces, moments = middle.pull_back(nodes.middle, force[:, 2], moment[:, 2])
        forces = forces + force[:, :2]
        moments = moments + moment[:, :2] + small.cross(nodes.arms, forces)
        return jnp.concatenate([forces, small.matvec(small.transpose(nodes.bodies), moments)]).T


class _Nodes(NamedTuple):
    """Rotations of bodies; inertial arms from these to the nodes; middle section; rotations and
    positions of all sections.
    """

    bodies: Rotations
    arms: Vectors
    middle: Middle
    rotation: Array
    position: Array


class _Moving(NamedTuple):
    """Rates of the middle section; velocities and angular velocities (3, 3) of all sections,
    inertial.
    """

    middle: Rates
    linear: Array
    omega: Array


def _stack(parts: Iterable[Array]) -> Array:
    return jnp.stack(list(parts), axis=-1)


def _append(of_nodes: Array, of_middle: Array) -> Array:
    return jnp.concatenate([of_nodes, of_middle[..., None]], axis=-1)
