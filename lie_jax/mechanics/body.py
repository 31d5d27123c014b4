"""Rigid bodies: their parameters, and the dynamics of one body in hybrid components.

Hybrid components are inertial for linear quantities (velocity ṙ and acceleration r̈ of the body
frame's origin, forces) and body-fixed for angular ones (ω, ω̇, torques about the origin). They
are the components of R³ × SO(3); other formulations are pulled back from these.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement, element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]
Rotations = Float[Array, "bodies 3 3"]
Vectors = Float[Array, "bodies 3"]

_INERTIA = "about the centre of mass, kg m², for principal moments numpy.diag of them"


class Body(AbstractElement):
    """A rigid body with its initial pose and velocity.

    **Arguments:**

    - `name`: name that joints and forces refer to.
    - `mass`: kg, positive.
    - `inertia`: (3, 3), about the centre of mass, in body axes, kg m²; symmetric, positive definite
      and within the triangle inequality. For a point mass take `solids.sphere(mass, radius)`: held
      and pushed at its centre it moves as a point, whatever the radius. Between two joints a body
      may have no mass and no inertia, as the cross of a gimbal; such mechanisms have joint
      coordinates alone, `Minimal()`.
    - `center_of_mass`: (3,), from the body frame's origin, in body components, m.
    - `position`: (3,), initial position of the body frame's origin, inertial components, m.
    - `orientation`: (4,), initial orientation as a unit quaternion, scalar first.
    - `velocity`: (3,), initial velocity of the body frame's origin, inertial components, m/s.
    - `omega_body`: (3,), initial angular velocity, body components, rad/s.
    - `check_inertia`: with False the inertia may break the triangle inequality, which no
      distribution of mass does: for published data that must stay as they are.

    Raises `ValueError` for values that break these rules.
    """

    name: str = eqx.field(static=True, metadata=fields.BODY)
    mass: Parameter = eqx.field(converter=as_float)
    inertia: Parameter = eqx.field(converter=as_float)
    center_of_mass: Parameter = fields.point()
    position: Parameter = fields.vector("m, inertial components")
    # Traced ones are kept as given: a run that starts off unit length says so.
    orientation: Parameter = fields.parameter(checks.unit_quaternion, default=(1.0, 0.0, 0.0, 0.0))
    velocity: Parameter = fields.vector("m/s, inertial components")
    omega_body: Parameter = fields.vector("rad/s, body components")
    check_inertia: bool = eqx.field(static=True, default=True, kw_only=True)

    def __check_init__(self):
        where = element_name(self)
        checks.name("Body(name=)", self.name)
        checks.one_of(f"{where}.check_inertia", self.check_inertia, (True, False))
        checks.shape(f"{where}.mass", self.mass, (), "one number, kg")
        checks.shape(f"{where}.inertia", self.inertia, (3, 3), _INERTIA)
        if not self.is_massless:
            checks.positive(f"{where}.mass", self.mass, "kg")
            checks.inertia(f"{where}.inertia", self.inertia, self.check_inertia)

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of further frames of the body in a mechanism, to which elements attach."""
        return ()

    @property
    def is_massless(self) -> bool:
        """Whether mass and inertia are known to be zero."""
        numbers = (self.mass, self.inertia)
        return not any(checks.has_tracers(x) or np.any(np.asarray(x)) for x in numbers)


class MassProperties(eqx.Module):
    """Mass (kg), inertia about the centre of mass (kg m²) and centre of mass (m), body axes."""

    mass: Float[Array, "..."]
    inertia: Float[Array, "..."]
    center_of_mass: Float[Array, "..."]


def _swing(body: MassProperties, rotation: Matrix, omega: Vector, domega: Vector) -> Vector:
    """Inertial acceleration of the centre of mass against the origin."""
    c = body.center_of_mass
    relative = small.cross(domega, c) + small.cross(omega, small.cross(omega, c))
    return small.matvec(rotation, relative)


def inverse_dynamics(
    body: MassProperties, rotation: Matrix, omega: Vector, acceleration: Vector, domega: Vector
) -> tuple[Vector, Vector]:
    """Force (inertial, N) and torque about the origin (body, N m) of a given motion."""
    force = body.mass * (acceleration + _swing(body, rotation, omega, domega))
    about_center = small.matvec(body.inertia, domega) + small.cross(
        omega, small.matvec(body.inertia, omega)
    )
    lever = small.cross(body.center_of_mass, small.matvec(rotation.T, force))
    return force, about_center + lever


class MotionMatrices(NamedTuple):
    """Mass matrices of N bodies, and derivatives of force and torque of their motion (6, 6, N)."""

    mass: Float[Array, "6 6 bodies"]
    stiffness: Float[Array, "6 6 bodies"]
    damping: Float[Array, "6 6 bodies"]


def motion_matrices(
    bodies: MassProperties,
    rotation: Rotations,
    omega: Vectors,
    acceleration: Vectors,
    domega: Vectors,
) -> MotionMatrices:
    """Derivatives of `inverse_dynamics` by (r̈, ω̇), by the pose along hybrid velocities, and by
    hybrid velocities.

    r̈ and ω̇ are constant in the second, the pose in the third. Bodies are on the last axis, which is
    many times faster than a `vmap`.
    """
    c, omega, acceleration, domega = (
        x.T for x in (bodies.center_of_mass, omega, acceleration, domega)
    )
    rotation, mass = rotation.transpose(1, 2, 0), bodies.mass[None, None]
    moment = bodies.mass[None] * c
    lever, spin = small.hat(moment), small.hat(omega)
    inertia = bodies.inertia.transpose(1, 2, 0) - small.matmul(lever, small.hat(c))

    # The force is m r̈ + R (ω̇ × + ω × ω ×) m c, the torque J ω̇ + ω × J ω + m c × Rᵀ r̈ with J about
    # the origin.
    def minus_in_world(x):
        return -small.matmul(rotation, x)

    coupling = minus_in_world(lever)
    force_by_pose = minus_in_world(
        small.hat(small.matvec(small.hat(domega) + small.matmul(spin, spin), moment))
    )
    force_by_velocity = minus_in_world(
        small.hat(small.matvec(spin, moment)) + small.matmul(spin, lever)
    )
    torque_by_pose = small.matmul(
        lever, small.hat(small.matvec(small.transpose(rotation), acceleration))
    )
    torque_by_velocity = small.matmul(spin, inertia) - small.hat(small.matvec(inertia, omega))
    zero = jnp.zeros_like(inertia)
    translation = mass * jnp.eye(3, dtype=mass.dtype)[:, :, None]
    return MotionMatrices(
        small.block_2x2(translation, coupling, small.transpose(coupling), inertia),
        small.block_2x2(zero, force_by_pose, zero, torque_by_pose),
        small.block_2x2(zero, force_by_velocity, zero, torque_by_velocity),
    )


def forward_dynamics(
    body: MassProperties, rotation: Matrix, omega: Vector, force: Vector, torque: Vector
) -> tuple[Vector, Vector]:
    """Acceleration r̈ of the origin (inertial) and ω̇ (body) under a force and a torque about it."""
    lever = small.cross(body.center_of_mass, small.matvec(rotation.T, force))
    gyroscopic = small.cross(omega, small.matvec(body.inertia, omega))
    domega = small.solve_3(body.inertia, torque - lever - gyroscopic)
    return force / body.mass - _swing(body, rotation, omega, domega), domega


def mass_matrix(body: MassProperties, rotation: Matrix) -> Float[Array, "6 6"]:
    """Mass matrix for hybrid velocities (ṙ, ω)."""
    identity = jnp.eye(3, dtype=rotation.dtype)
    # Matrix of the kinetic energy even if `rotation` is no rotation, as in some coordinates.
    arm = small.matmul(rotation, small.hat(body.center_of_mass))
    coupling = -body.mass * arm
    about_origin = body.inertia + body.mass * small.matmul(arm.T, arm)
    return jnp.block([[body.mass * identity, coupling], [coupling.T, about_origin]])


def inertia_about_origin(mass: Float[Array, ""], inertia: Matrix, center_of_mass: Vector) -> Matrix:
    """Inertia (3, 3) about the body frame's origin from that about the centre of mass, kg m²."""
    c = center_of_mass
    identity = jnp.eye(3, dtype=inertia.dtype)
    return inertia + mass * (small.dot(c, c) * identity - small.outer(c, c))


def kinetic_energy(
    body: MassProperties, rotation: Matrix, velocity: Vector, omega: Vector
) -> Float[Array, ""]:
    """Kinetic energy (J) from ṙ (inertial) and ω (body)."""
    center = velocity + small.matvec(rotation, small.cross(omega, body.center_of_mass))
    spin = small.dot(omega, small.matvec(body.inertia, omega))
    return 0.5 * (body.mass * small.dot(center, center) + spin)


def momentum(
    body: MassProperties, rotation: Matrix, position: Vector, velocity: Vector, omega: Vector
) -> tuple[Vector, Vector]:
    """Linear momentum and angular momentum about the world origin, inertial components."""
    arm = small.matvec(rotation, body.center_of_mass)
    swing = small.matvec(rotation, small.cross(omega, body.center_of_mass))
    linear = body.mass * (velocity + swing)
    spin = small.matvec(rotation, small.matvec(body.inertia, omega))
    return linear, small.cross(position + arm, linear) + spin
