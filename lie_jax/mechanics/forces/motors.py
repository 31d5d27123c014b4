"""Motors: actuators that exert an input in a joint."""

from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce, entry
from lie_jax.mechanics.joints.geometry import force_in_parent, torque_in_parent


class RevoluteMotor(AbstractPairForce):
    """A motor in a hinge: the torque u[input] (N m) on the child about the axis, its opposite on
    the parent.

    It has no potential energy.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the hinge, in the parent's frame, of any length but zero.
    - `input`: number of an entry of the inputs u, counted from 0.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    is_load = True
    axis: Parameter = fields.direction()
    input: int = fields.input_number()

    @override
    def wrenches(self, t, poses, velocities, u):
        return torque_in_parent(poses, entry(u, self.input) * self.axis)


class PrismaticMotor(AbstractPairForce):
    """A motor in a slider: the force u[input] (N) on the child's point along the axis, its
    opposite on the parent in the same place.

    It has no potential energy.

    **Arguments:**

    - `parent`, `child`: names of bodies, or `"ground"`.
    - `axis`: (3,), of the slider, in the parent's frame, of any length but zero.
    - `input`: number of an entry of the inputs u, counted from 0.
    - `parent_point`, `child_point`: (3,), the force acts at the child's, in the bodies' frames, m.

    Raises `ValueError` for values that break these rules.
    """

    is_relative = True
    is_load = True
    axis: Parameter = fields.direction()
    input: int = fields.input_number()
    parent_point: Parameter = fields.point()
    child_point: Parameter = fields.point()

    @override
    def wrenches(self, t, poses, velocities, u):
        return force_in_parent(self, entry(u, self.input) * self.axis, *poses)
