"""Contract of a joint: constraints between two bodies, written on poses and velocities.

`parent` and `child` are names of bodies, or `"ground"`. A constraint is a function of the two
poses. A velocity constraint is affine in the two velocities and follows from no function of the
poses. `reaction` returns the generalised forces Bᵀλ on both bodies, as hybrid wrenches (inertial
force, body torque about the body frame's origin). With the equations of motion M v̇ + Bᵀλ = f, the
joint acts on the child with minus that wrench.
"""

import abc
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.numerics import small

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
GROUND = "ground"


class BodyPose(NamedTuple):
    """Matrix `rotation` (3, 3), body to inertial, and `position` (3,) of a body frame (m)."""

    rotation: Matrix
    position: Vector


class BodyVelocity(NamedTuple):
    """Velocity of a body: `linear` (3,) is ṙ of the body frame's origin, inertial components (m/s),
    `omega_body` (3,) is ω, body components (rad/s).
    """

    linear: Vector
    omega_body: Vector


class Wrench(NamedTuple):
    """Action on a body: `force` (3,), inertial components (N), and `torque` (3,) about the body
    frame's origin, body components (N m).
    """

    force: Vector
    torque: Vector


# Poses and velocities of the bodies of an element, wrenches on parent and child.
Poses = tuple[BodyPose, ...]
Velocities = tuple[BodyVelocity, ...]
Wrenches = tuple[Wrench, Wrench]
Time = Float[Array, ""]
Multipliers = Float[Array, " all_rows"]


class Stiffness(NamedTuple):
    """Derivatives (6, 6) of the wrench on parent or child along the hybrid velocities of parent or
    child; None for a block that is zero at all poses.
    """

    parent_by_parent: Float[Array, "6 6"] | None
    parent_by_child: Float[Array, "6 6"] | None
    child_by_parent: Float[Array, "6 6"] | None
    child_by_child: Float[Array, "6 6"] | None


class AbstractJoint(AbstractElement):
    """A joint between a parent and a child.

    **Arguments** that joints share: `parent`, `child`: names of bodies, or `"ground"`; `axis`,
    `normal`: (3,), directions in the parent's frame, `child_axis` in the child's, of any length but
    zero; `parent_point`, `child_point`: (3,), the joint's place in each body's frame (m);
    `orientation`: (4,), the unit quaternion that rotates the child's components into the parent's
    where the joint's angles are zero; `armature`: inertia that is added to the joint's coordinate
    (kg m² for angles, kg for distances), in joint coordinates only. For a motor behind a gear of
    ratio n it is n² times the inertia of its rotor; it adds half of it times the rate squared to
    the kinetic energy; gyroscopic torques and the momentum of the rotor are neglected. Joints raise
    `ValueError` for other shapes and values, a zero direction, an orientation that is no unit
    quaternion and a negative inertia. Every joint takes a `name=`, by which messages and readings
    call it; no two joints of a mechanism have the same.

    A joint of one's own gives `rows` and `constraint`, and `velocity_rows` with
    `velocity_constraint` if it has such. Reactions and stiffness follow by differentiation.
    """

    parent: str = eqx.field(static=True, metadata=fields.BODY)
    child: str = eqx.field(static=True, metadata=fields.BODY)
    name: str | None = eqx.field(static=True, kw_only=True, default=None, metadata=fields.NAME)
    if TYPE_CHECKING:
        # A declared type would allow class attributes or properties, but not both.
        rows = 0
    else:
        # Number of position constraints: a class attribute or a property.
        rows: eqx.AbstractVar[int]
    # Inertia that is added to the joint's coordinate: a field of joints that take it.
    armature = None
    # Number of velocity constraints.
    velocity_rows: ClassVar[int] = 0
    # `"rad"` or `"m"` for each angle or distance that `coordinates` returns.
    coordinate_units: ClassVar[tuple[str, ...]] = ()

    def __check_init__(self):
        units = self.coordinate_units
        if isinstance(units, str) or not all(unit in ("rad", "m") for unit in units):
            raise ValueError(
                f"{type(self).__name__}.coordinate_units is {units!r}; it must be a tuple with "
                "'rad' or 'm' for each coordinate: write ('rad',) for one angle."
            )

    @property
    def points(self) -> tuple[Float[Array, "..."] | None, Float[Array, "..."] | None]:
        """Points of the joint in the frames of parent and child (m): by default the fields
        `parent_point` and `child_point`, None without.
        """
        return getattr(self, "parent_point", None), getattr(self, "child_point", None)

    def motions(self) -> tuple[Motion, ...] | None:
        """Elementary motions of the child against the parent, from the parent outwards; their
        coordinates are those of the joint in `lie_jax.Minimal()`. None for a joint without.
        """
        return None

    @property
    @override
    def words(self):
        return self.bodies if self.name is None else (self.name,)

    @abc.abstractmethod
    def constraint(self, t: Time, parent: BodyPose, child: BodyPose) -> Float[Array, " rows"]:
        """Values that are zero when the joint holds."""

    def side(self, t: Time, parent: BodyPose, child: BodyPose) -> Float[Array, ""] | None:
        """Number whose sign no motion changes; None for a joint without one.

        A joint needs it if its constraint holds in several places that no motion connects. A step
        that changes the sign has met the joint turned over. Starts where it is negative are
        refused; `lie_jax.project` and `lie_jax.place` search for those where it is not.
        """
        return None

    @property
    def lacks_turns(self) -> bool:
        """Whether its reaction depends on whole turns without a memory that counts them."""
        return False

    def memory_after(self, t: Time, poses: Poses, velocities: Velocities) -> Any:
        """Memory of an instant of a run in absolute coordinates, for `with_memory`, or None."""
        return None

    def with_memory(self, last: Any) -> "AbstractJoint":
        """The joint, which recalls what `memory_after` has kept of the last instant."""
        return self

    def leaves_range(self, t: Time, poses: Poses, velocities: Velocities) -> Bool[Array, ""] | None:
        """Whether the recalled instant leads to this one in no known way; None without memory."""
        return None

    def closing(self) -> "AbstractJoint":
        """The joint for a search of poses: its constraint is zero on the right side alone.

        There it has the derivatives of the joint's own. The joint itself, as here, if it holds in
        one place only.
        """
        return self

    def velocity_constraint(
        self,
        t: Time,
        parent: BodyPose,
        child: BodyPose,
        parent_velocity: BodyVelocity,
        child_velocity: BodyVelocity,
    ) -> Float[Array, " velocity_rows"]:
        """Values, affine in the velocities, that are zero when the joint holds."""
        return jnp.zeros(0, child.position.dtype)

    def reaction(
        self, t: Time, parent: BodyPose, child: BodyPose, multipliers: Multipliers
    ) -> Wrenches:
        """Bᵀλ on parent and child, λ of the position and then of the velocity constraints.

        By default the transpose of the constraints' derivatives, by reverse mode.
        """
        position_multipliers, velocity_multipliers = small.split_at(multipliers, self.rows)
        on_parent, on_child = pullback(
            lambda *poses: self.constraint(t, *poses), (parent, child), position_multipliers
        )
        if not self.velocity_rows:
            return on_parent, on_child

        def rates(parent_velocity, child_velocity):
            return self.velocity_constraint(t, parent, child, parent_velocity, child_velocity)

        none = jnp.zeros_like(child.position)
        _, transpose = jax.vjp(rates, BodyVelocity(none, none), BodyVelocity(none, none))
        # The gradient by a velocity is a wrench already.
        along_parent, along_child = transpose(velocity_multipliers)
        return tree_sum([(on_parent, on_child), (Wrench(*along_parent), Wrench(*along_child))])

    def stiffness(
        self, t: Time, parent: BodyPose, child: BodyPose, multipliers: Multipliers
    ) -> Stiffness:
        """Derivatives of the reactions on parent and child along their hybrid velocities.

        By default twelve forward-mode derivatives of `reaction`.
        """
        return Stiffness(
            *stiffness_blocks(lambda a, b: self.reaction(t, a, b, multipliers), (parent, child))
        )

    def coordinates(self, parent: BodyPose, child: BodyPose) -> Float[Array, " coordinates"]:
        """Angles, between -π and π, and distances at poses that the joint allows."""
        return jnp.zeros(0, child.position.dtype)

    def coordinate_rate(
        self, number: int, poses: Poses, velocities: Velocities
    ) -> Float[Array, ""]:
        """Rate (rad/s, m/s) of the coordinate with this number.

        By default a forward-mode derivative of `coordinates`.
        """
        return jax.jvp(self.coordinates, poses, moving(poses, velocities))[1][number]

    def wrenches_along(
        self, number: int, poses: Poses, effort: Float[Array, ""]
    ) -> tuple[Wrench, ...]:
        """Wrenches on parent and child of a torque (N m) or force (N) along a coordinate, whose
        power is `effort` times the coordinate's rate.

        By default by the reverse-mode derivative of `coordinates`.
        """
        return pullback(lambda *ends: self.coordinates(*ends)[number], poses, effort)


def moving(poses: Poses, velocities: Velocities) -> Poses:
    """Rates of the poses."""
    return tuple(
        BodyPose(small.matmul(pose.rotation, small.hat(velocity.omega_body)), velocity.linear)
        for pose, velocity in zip(poses, velocities, strict=True)
    )


def pullback(
    constraint: Callable, poses: Sequence[BodyPose], multipliers: Array
) -> tuple[Wrench, ...]:
    """Bᵀλ on bodies at these poses, B the derivative of a constraint on the poses."""
    _, transpose = jax.vjp(constraint, *poses)
    return tuple(map(_wrench_of_pose, poses, transpose(multipliers)))


def stiffness_blocks(
    reaction: Callable, poses: Sequence[BodyPose]
) -> tuple[Float[Array, "6 6"], ...]:
    """Derivatives of the reactions on bodies along their hybrid velocities, row by row."""
    count = len(poses)

    def along(direction):
        tangents = tuple(
            BodyPose(small.matmul(pose.rotation, small.hat(omega)), v)
            for pose, (v, omega) in zip(poses, direction, strict=True)
        )
        wrenches = jax.jvp(reaction, tuple(poses), tangents)[1]
        return jnp.stack([jnp.concatenate(wrench) for wrench in wrenches])

    directions = jnp.eye(6 * count, dtype=poses[0].position.dtype).reshape(-1, count, 2, 3)
    changes = jax.vmap(along, out_axes=2)(directions)
    return tuple(change[:, 6 * k : 6 * k + 6] for change in changes for k in range(count))


def _wrench_of_pose(pose: BodyPose, gradient: Any) -> Wrench:
    # Along ω a rotation changes by R ω̃: the torque is the gradient by R, projected onto these.
    torque = -small.axial(small.matmul(pose.rotation.T, gradient.rotation))
    return Wrench(gradient.position, torque)


def tree_sum(parts: Sequence[Any]) -> Any:
    """Sum of wrenches or stiffnesses, leaf by leaf; None counts as zero."""

    def total(*terms):
        terms = [term for term in terms if term is not None]
        return reduce(jnp.add, terms) if terms else None

    return jax.tree.map(total, *parts, is_leaf=lambda x: x is None)
