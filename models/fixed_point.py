"""A rigid body on a fixed point: the common ground of the heavy top and the pinned body.

Two models of one motion:

- with a constraint: the body frame lies at the centre of mass, and a spherical joint holds the
  fixed point;
- without: the body frame lies at the fixed point, the inertia is that about it, and each force has
  its opposite at the fixed point, so that the frame's origin stays where it is.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax.mechanics.body import inertia_about_origin
from lie_jax.numerics import small

BODY = "body"
# What a model takes for a number, a vector or a matrix.
Numbers = ArrayLike | Sequence[float]
# A force at a body-fixed point: the force, its opposite (functions of time), the point.
AppliedForce = tuple[Callable, Callable, Sequence[float]]


def build(
    formulation: lie_jax.extend.AbstractFormulation | None,
    *,
    constrained: bool,
    mass: Numbers,
    inertia: Numbers,
    center_of_mass: Numbers,
    orientation: Numbers,
    omega_body: Numbers,
    gravity: Numbers,
    friction: Numbers | None = None,
    applied: AppliedForce | None = None,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The system and its initial state; `center_of_mass` and points count from the fixed point."""
    formulation = lie_jax.R3SO3() if formulation is None else formulation
    mass, inertia, center_of_mass, orientation, omega_body, gravity = (
        jnp.asarray(x, float)
        for x in (mass, inertia, center_of_mass, orientation, omega_body, gravity)
    )
    origin = center_of_mass if constrained else jnp.zeros(3)
    forces = []
    if not constrained:
        weight = mass * gravity
        forces += [
            lie_jax.PointForce(BODY, weight, point=center_of_mass),
            lie_jax.PointForce(BODY, -weight),
        ]
    if applied is not None:
        force, opposite, point = applied
        forces.append(lie_jax.PointForce(BODY, force, point=jnp.asarray(point) - origin))
        if not constrained:
            forces.append(lie_jax.PointForce(BODY, opposite))
    if friction is not None:
        forces.append(lie_jax.ViscousFriction("ground", BODY, friction))
    if not constrained:
        inertia = inertia_about_origin(mass, inertia, center_of_mass)
        gravity = jnp.zeros(3)
    body = lie_jax.Body(
        BODY,
        mass,
        inertia,
        position=lie_jax.groups.quaternion.rotate(orientation, origin),
        orientation=orientation,
        velocity=lie_jax.groups.quaternion.rotate(orientation, small.cross(omega_body, origin)),
        omega_body=omega_body,
    )
    joints = [lie_jax.SphericalJoint("ground", BODY, child_point=-origin)] if constrained else []
    return lie_jax.assemble(lie_jax.Mechanism([body], joints, forces, gravity), formulation)


def held_point(system: lie_jax.extend.AbstractMultibodySystem) -> Float[Array, "3"] | None:
    """The fixed point in the body's frame (3,), m, if a joint holds it; None if the frame lies
    there.
    """
    return next((point for body, point in system.joint_points() if body == 0), None)


def point_on_body(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], point: Float[Array, "3"]
) -> Float[Array, "3"]:
    """World position (3,) of a body point that is given from the fixed point, m."""
    rotation, position = system.poses(q)
    held = held_point(system)
    if held is not None:
        point = point + held
    return position[0] + small.matvec(rotation[0], point)
