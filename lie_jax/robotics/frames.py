"""Frames that are fixed to bodies: poses, twists, accelerations and Jacobians."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import quaternion, se3
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement, element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.joints.base import GROUND
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import small
from lie_jax.robotics.arguments import of_an_instant

Matrix = Float[Array, "3 3"]
Vector = Float[Array, "3"]
Twist = Float[Array, "6"]


class Frame(AbstractElement):
    """A frame fixed to a body or to the ground: a tool, a sensor, a foot.

    Poses, twists and Jacobians cost one pass over the bodies, in every formulation. A twist is the
    velocity of the frame's origin (m/s), then the angular velocity (rad/s), both in its axes.

    **Arguments:** `body`: name of the body, or `"ground"`; `position` (3,): the frame's origin in
    the body's frame, m; `orientation` (4,): unit quaternion from the frame's to the body's axes;
    `name`: what messages call it, by default by its body. Raises `ValueError` for other shapes and
    values; the methods do for a body that the system does not have.
    """

    body: str = fields.body_name()
    position: Parameter = fields.point()
    orientation: Parameter = fields.orientation()
    name: str | None = eqx.field(static=True, default=None)

    @of_an_instant
    def pose(self, system: AbstractMultibodySystem, q: Array) -> Float[Array, "4 4"]:
        """Homogeneous matrix (4, 4) from the frame's to inertial coordinates."""
        rotation, position = system.poses(q)
        number = self.number(system)
        if number is None:
            return se3.pose(*self.placement(q.dtype))
        return se3.pose(*self.transform_pose(rotation[number], position[number]))

    @of_an_instant
    def twist(self, system: AbstractMultibodySystem, q: Array, v: Array) -> Twist:
        """Twist (6,) of the frame."""
        number = self.number(system)
        if number is None:
            return jnp.zeros(6, q.dtype)
        return self.transform_twists(system.twists(q, v)[number])

    @of_an_instant
    def acceleration(
        self, system: AbstractMultibodySystem, q: Array, v: Array, acceleration: Array
    ) -> Twist:
        """Rate (6,) of the twist for a rate v̇ of the velocities.

        Its first three components a are those of the origin's velocity in turning axes; the
        acceleration of the origin itself is a + ω × v.
        """
        return jax.jvp(
            lambda q, v: self.twist(system, q, v), (q, v), (system.space.lift(q, v), acceleration)
        )[1]

    @of_an_instant
    def jacobian(self, system: AbstractMultibodySystem, q: Array) -> Float[Array, "6 nv"]:
        """Jacobian (6, nv): the twist is its product with the velocities v."""
        number = self.number(system)
        if number is None:
            return jnp.zeros((6, system.nv), q.dtype)
        _, _, jacobians = system.poses_and_jacobians(q, (number,))
        return self.transform_twists(jacobians[0])

    def number(self, system: AbstractMultibodySystem) -> int | None:
        """Number of the body in the system, None for the ground."""
        if self.body == GROUND:
            return None
        if self.body not in system.names:
            raise ValueError(
                f"{self.title} is fixed to a body that the system does not have; its bodies are "
                f"{', '.join(map(repr, system.names))}: correct body=, or write 'ground'."
            )
        return system.names.index(self.body)

    @property
    def title(self) -> str:
        """The frame in words, for messages."""
        return (
            element_name(self) if self.name is None else f"Frame({self.body!r}, name={self.name!r})"
        )

    def placement(self, dtype) -> tuple[Matrix, Vector]:
        """Rotation and position of the frame in its body."""
        rotation = quaternion.to_matrix(self.orientation)
        return rotation.astype(dtype), self.position.astype(dtype)

    def transform_pose(self, rotation: Matrix, position: Vector) -> tuple[Matrix, Vector]:
        """Rotation and position of the frame for those of its body."""
        turned, arm = self.placement(rotation.dtype)
        return small.matmul(rotation, turned), position + small.matvec(rotation, arm)

    def transform_twists(self, twist: Float[Array, "6 ..."]) -> Float[Array, "6 ..."]:
        """Twists of the frame for those of its body."""
        more = (1,) * (twist.ndim - 1)
        turned, arm = (x.reshape(*x.shape, *more) for x in self.placement(twist.dtype))
        linear, omega = twist[:3], twist[3:]
        linear = linear + small.cross(omega, jnp.broadcast_to(arm, omega.shape))
        back = small.transpose(turned)
        return jnp.concatenate([small.matvec(back, linear), small.matvec(back, omega)])
