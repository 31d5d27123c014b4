"""Loads that are distributed along a beam, as shares at its nodes."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.groups import quaternion
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.loads import AbstractLoad
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.joints.geometry import force_at
from lie_jax.mechanics.signals import as_signal, check_signal, value_at
from lie_jax.numerics import small


class NodeLoad(AbstractLoad):
    """Share of a load along a beam at one node: `share` (m) times force and moment per length.

    Made by `lie_jax.beams.distributed`. **Arguments:** `force` (3,), N/m, and `moment` (3,), N m/m:
    constants, or functions of the time (s); `point` (3,), m, and `orientation` (4,): the node in
    the frame of the `body`; `frame`: `"world"` for inertial components, `"body"` for components
    along the section's axes, x along the beam.
    """

    load = "force", "N/m"
    force: Any = eqx.field(converter=as_signal)
    moment: Any = eqx.field(converter=as_signal)
    share: Parameter = fields.positive("m")
    point: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    frame: str = eqx.field(static=True, default="world")

    def __check_init__(self):
        check_signal(f"{element_name(self)}.moment", self.moment, (3,), "N m/m")

    @override
    def wrenches(self, t, poses, velocities, u):
        force = self.share * value_at(self.force, t)
        moment = self.share * value_at(self.moment, t)
        rotation = poses[0].rotation
        if self.frame == "body":
            section = quaternion.to_matrix(self.orientation)
            force = small.matvec(rotation, small.matvec(section, force))
            moment = small.matvec(section, moment)
        else:
            moment = small.matvec(rotation.T, moment)
        at_node = force_at(poses[0], self.point, force)
        return (Wrench(at_node.force, at_node.torque + moment),)

    @override
    def potential_energy(self, poses):
        """-F·p for a constant force of constant direction, else zero."""
        if callable(self.force) or self.frame == "body":
            return jnp.zeros((), poses[0].position.dtype)
        point = poses[0].position + small.matvec(poses[0].rotation, self.point)
        return -self.share * small.dot(self.force, point)
