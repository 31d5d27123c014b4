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
    """A frame fixed to a body, an interface or the ground: a tool, a sensor, a foot.

    Poses, twists and Jacobians cost one pass over the bodies, in every formulation. A twist is the
    velocity of the frame's origin (m/s), then the angular velocity (rad/s), both in its axes.

    **Arguments:** `body`: name of the body, `"body.interface"` of a flexible one, or `"ground"`;
    `position` (3,): the frame's origin in
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
        number = self.number(system)
        if number is None:
            return se3.pose(*self.placement(q.dtype))
        rotation, position = system.frame_poses(q)
        return se3.pose(*self.transform_pose(rotation[number], position[number]))

    @of_an_instant
    def twist(self, system: AbstractMultibodySystem, q: Array, v: Array) -> Twist:
        """Twist (6,) of the frame."""
        number = self.number(system)
        if number is None:
            return jnp.zeros(6, q.dtype)
        return self.transform_twists(_twist(system, number, q, v))

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
        if number >= len(system.names):
            jacobian = jax.jacfwd(lambda v: _twist(system, number, q, v))(
                jnp.zeros(system.nv, q.dtype)
            )
            return self.transform_twists(jacobian)
        _, _, jacobians = system.poses_and_jacobians(q, (number,))
        return self.transform_twists(jacobians[0])

    def number(self, system: AbstractMultibodySystem) -> int | None:
        """Number of the body in the system, then of interfaces; None for the ground."""
        if self.body == GROUND:
            return None
        names = [system.names_by_slot[slot] for slot in system.frame_slots]
        if self.body not in names:
            raise ValueError(
                f"{self.title} is fixed to a body that the system does not have; its bodies are "
                f"{', '.join(map(repr, names))}: correct body=, or write 'ground'."
            )
        return names.index(self.body)

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


def _twist(system: AbstractMultibodySystem, number: int, q: Array, v: Array) -> Twist:
    """Twist of a body, or of an interface, for which there are poses alone, by their rates."""
    if number < len(system.names):
        return system.twists(q, v)[number]

    def pose(q: Array) -> tuple[Matrix, Vector]:
        rotation, position = system.frame_poses(q)
        return rotation[number], position[number]

    (rotation, _), (turning, velocity) = jax.jvp(pose, (q,), (system.space.lift(q, v),))
    back = small.transpose(rotation)
    # The axial vector of Rᵀ Ṙ, which is skew.
    omega = -0.5 * small.axial(small.matmul(back, turning))
    return jnp.concatenate([small.matvec(back, velocity), omega])
