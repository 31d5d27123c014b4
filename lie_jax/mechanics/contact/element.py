"""Contact of two shapes: a force element of a mechanism."""

import functools
from typing import NamedTuple, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics import fields
from lie_jax.mechanics.contact import geometry, own_shapes
from lie_jax.mechanics.contact.geometry import Touching
from lie_jax.mechanics.contact.laws import AbstractNormalLaw, Coulomb
from lie_jax.mechanics.contact.shapes import AbstractShape
from lie_jax.mechanics.elements import replace_fields
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Poses, Velocities, Wrench
from lie_jax.numerics import small


class PointForces(NamedTuple):
    """Forces at the places of a contact, on the first body, inertial components.

    `normal` (n,), N; `tangential` (n, 3), N; `torque` (n, 3), N m; `slip` (n, 3) of the first body
    on the second, in the plane of contact, m/s.
    """

    normal: Float[Array, " n"]
    tangential: Float[Array, "n 3"]
    torque: Float[Array, "n 3"]
    slip: Float[Array, "n 3"]


class Contact(AbstractForce):
    """Contact of two shapes, each of a body or of the ground.

    Where the shapes overlap they repel each other along the normal, and friction acts against their
    slip. Both forces act in the middle of the overlap, on one body and with the opposite sign on
    the other: together they keep momentum and angular momentum. Pairs are declared: nothing
    searches for them. Spheres, capsules, boxes (by their vertices), points and ellipsoids touch
    planes, all but ellipsoids touch height fields; spheres and capsules touch each other. For
    shapes of one's own see `lie_jax.extend.AbstractShape`.

    **Arguments:**

    - `first`, `second`: shapes of `lie_jax.contact`, in any order.
    - `normal`: the law of the normal force, such as `lie_jax.contact.HuntCrossley(stiffness)`.
    - `friction`: `lie_jax.contact.Coulomb(coefficient)`, or None.

    Raises `ValueError` for anything else, and for pairs of shapes that cannot touch.
    """

    is_relative = True
    parent: str = eqx.field(static=True, metadata=fields.BODY)
    child: str = eqx.field(static=True, metadata=fields.BODY)
    shapes: tuple[AbstractShape, AbstractShape]
    normal: AbstractNormalLaw
    friction: Coulomb | None

    # Other types raise `ValueError` below.
    @no_type_check
    def __init__(
        self,
        first: AbstractShape,
        second: AbstractShape,
        normal: AbstractNormalLaw,
        friction: Coulomb | None = None,
    ):
        kinds = (
            (
                "first",
                first,
                AbstractShape,
                "a shape, such as lie_jax.contact.Sphere(body, radius)",
            ),
            ("second", second, AbstractShape, "a shape, such as lie_jax.contact.Plane('ground')"),
            (
                "normal",
                normal,
                AbstractNormalLaw,
                "a law, such as lie_jax.contact.HuntCrossley(1e5)",
            ),
            ("friction", friction, Coulomb | None, "lie_jax.contact.Coulomb(coefficient), or None"),
        )
        for name, value, kind, what in kinds:
            if not isinstance(value, kind):
                raise ValueError(f"Contact({name}=) is {value!r}; it must be {what}.")
        if geometry.finder(first, second) is None:
            first, second = second, first
        if geometry.finder(first, second) is None:
            raise ValueError(
                f"Contact cannot take a {type(second).__name__} and a {type(first).__name__}; "
                "spheres and capsules touch each other, these, boxes and points touch planes and "
                "height fields, ellipsoids touch planes, and shapes of one's own what "
                "lie_jax.extend.AbstractShape says: stand spheres or capsules for the others."
            )
        own_shapes.check(first)
        own_shapes.check(second)
        self.parent, self.child = first.body, second.body
        # Contacts that differ in numbers and names of bodies are stacked.
        self.shapes = replace_fields(first, body=""), replace_fields(second, body="")
        self.normal, self.friction = normal, friction

    @override
    def wrenches(self, t, poses, velocities, u):
        touching = geometry.touching(self.shapes, poses)
        forces = self.forces(touching, poses, velocities)
        force = forces.normal[:, None] * touching.normal + forces.tangential
        total, resisting = jnp.sum(force, axis=0), jnp.sum(forces.torque, axis=0)

        def on(pose: BodyPose, sign: float) -> Wrench:
            moments = jax.vmap(small.cross)(touching.point - pose.position[None], force)
            torque = sign * (jnp.sum(moments, axis=0) + resisting)
            return Wrench(sign * total, small.matvec(pose.rotation.T, torque))

        return on(poses[0], 1.0), on(poses[1], -1.0)

    @override
    def potential_energy(self, poses):
        """Energy of the normal law's spring."""
        return jnp.sum(jax.vmap(self.normal.energy)(-geometry.touching(self.shapes, poses).gap))

    def penetration(self, touching: Touching, poses: Poses) -> tuple[Array, Array]:
        """Overlap (m) at each place, and the most (m) at which shapes have an outer side: up to the
        middle of one.
        """

        def most(normal):
            depths = [
                shape.depth(small.matvec(pose.rotation.T, normal))
                for shape, pose in zip(self.shapes, poses, strict=True)
            ]
            known = [x for x in depths if x is not None]
            return functools.reduce(jnp.minimum, known, jnp.full((), jnp.inf, normal.dtype))

        return -touching.gap, jax.vmap(most)(touching.normal)

    @property
    @override
    def is_bounded(self):
        return True

    @override
    def memory_after(self, t, poses, velocities):
        """The line between the axes of round shapes, (2, 3), components of each body."""
        nearest = geometry.nearest_on_axes(*self.shapes, *poses)
        if nearest is None:
            return None
        line = nearest[0] - nearest[1]
        return jnp.stack([small.matvec(pose.rotation.T, line) for pose in poses])

    @override
    def leaves_range(self, t, poses, velocities):
        """Whether shapes overlap beyond the middle of one, or came through it on their way here."""
        touching = geometry.touching(self.shapes, poses)
        overlap, most = self.penetration(touching, poses)
        beyond = jnp.any(overlap > most)
        now = self.memory_after(t, poses, velocities)
        if self.last is None or now is None:
            return beyond
        distance = jnp.sqrt(small.dot(now[0], now[0]))
        # Take the larger of both body-frame distances: a rotating body sees a fixed line rotate.
        squares = [small.least_square_between(*lines) for lines in zip(self.last, now, strict=True)]
        closest = jnp.sqrt(functools.reduce(jnp.maximum, squares))
        return beyond | (distance - closest + overlap[0] > most[0])

    def relative(
        self, touching: Touching, poses: Poses, velocities: Velocities
    ) -> Float[Array, "n 3"]:
        """Velocity of the first body on the second at each place, inertial components, m/s."""
        omegas = _omegas(poses, velocities)

        def velocity_at(point: Array, pose: BodyPose, velocity: BodyVelocity, omega: Array):
            return velocity.linear + small.cross(omega, point - pose.position)

        def at(point):
            one, two = map(lambda *body: velocity_at(point, *body), poses, velocities, omegas)
            return one - two

        return jax.vmap(at)(touching.point)

    def forces(self, touching: Touching, poses: Poses, velocities: Velocities) -> PointForces:
        """Forces at each place of the contact."""
        one, two = _omegas(poses, velocities)
        omega = one - two

        def at(gap, normal, relative):
            rate = small.dot(normal, relative)
            slip = relative - rate * normal
            force = self.normal.force(-gap, -rate)
            tangential, torque = jnp.zeros_like(slip), None
            if self.friction is not None:
                tangential = self.friction.force(force, slip)
                torque = self.friction.torque(force, normal, omega)
            torque = jnp.zeros_like(slip) if torque is None else torque
            return PointForces(force, tangential, torque, slip)

        relative = self.relative(touching, poses, velocities)
        return jax.vmap(at)(touching.gap, touching.normal, relative)


def _omegas(poses: Poses, velocities: Velocities) -> list[Array]:
    """Angular velocities of both bodies, inertial components, rad/s."""
    return [
        small.matvec(pose.rotation, velocity.omega_body)
        for pose, velocity in zip(poses, velocities, strict=True)
    ]
