"""The heavy top of [S3] Table 3: a body on a fixed point under gravity, spinning fast.

Two models of one motion:

- `constrained=True`: the body frame lies at the centre of mass, and a spherical joint holds the
  fixed point ([S3] Table 5).
- `constrained=False`: the body frame lies at the fixed point, the inertia is that about it, and the
  weight at the centre of mass is balanced by its opposite at the fixed point, so that the frame's
  origin stays where it is without a constraint ([S3] Table 4).

The body's y axis is the top's axis of symmetry. Its initial motion is a near-cusp: the centre of mass
comes close to its lowest place.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax import algebra
from lie_jax.mechanics.formulations.lie import LieSystem

MASS = 15.0
INERTIA = (0.234375, 0.46875, 0.234375)
CENTER_OF_MASS = (0.0, 1.0, 0.0)
OMEGA_BODY = (0.0, 150.0, -4.61538)
GRAVITY = (0.0, 0.0, -9.81)

# Centre of mass (m) at these times (s): a solution by two independent high-precision integrations
# (a quadrature in elliptic functions and an extended-precision Taylor method), rounded to 20 digits.
REFERENCE = {
    0.1: (0.42129665892540204364, 0.89457197434559299089, -0.1491647005618996116),
    0.5: (-0.70246829705658733748, -0.02116518470192332658, -0.71140025767365540727),
    1.0: (0.17334396409838604259, 0.64008859207056878286, -0.74849079113358130948),
}


def build(
    formulation=None,
    *,
    constrained: bool = False,
    mass=MASS,
    inertia=None,
    center_of_mass=CENTER_OF_MASS,
    orientation=(1.0, 0.0, 0.0, 0.0),
    omega_body=OMEGA_BODY,
    gravity=GRAVITY,
) -> tuple[LieSystem, lie_jax.State]:
    """The top as a system and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `constrained`: which of the two models; `mass`
    in kg; `inertia` (3, 3) about the centre of mass, kg m²; `center_of_mass` (3,) from the fixed
    point in body axes, m; `orientation` (4,), a unit quaternion; `omega_body` (3,), rad/s;
    `gravity` (3,), m/s².
    """
    formulation = lie_jax.R3SO3() if formulation is None else formulation
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else inertia
    mass, inertia, center, orientation, omega, gravity = (
        jnp.asarray(x, float)
        for x in (mass, inertia, center_of_mass, orientation, omega_body, gravity)
    )
    if constrained:
        arm = lie_jax.quaternion.rotate(orientation, center)
        swing = lie_jax.quaternion.rotate(orientation, algebra.cross(omega, center))
        top = lie_jax.Body(
            "top",
            mass,
            inertia,
            position=arm,
            orientation=orientation,
            velocity=swing,
            omega_body=omega,
        )
        joint = lie_jax.SphericalJoint("ground", "top", child_point=-center)
        return lie_jax.assemble(
            lie_jax.Mechanism([top], [joint], gravity=gravity), formulation
        )
    about_pivot = inertia + mass * (
        algebra.dot(center, center) * jnp.eye(3) - algebra.outer(center, center)
    )
    top = lie_jax.Body(
        "top", mass, about_pivot, orientation=orientation, omega_body=omega
    )
    weight = mass * gravity
    forces = [
        lie_jax.PointForce("top", weight, point=center),
        lie_jax.PointForce("top", -weight),
    ]
    return lie_jax.assemble(
        lie_jax.Mechanism([top], forces=forces, gravity=jnp.zeros(3)), formulation
    )


def center_of_mass(system: LieSystem, q: Float[Array, " nq"]) -> Float[Array, "3"]:
    """World position (3,) of the centre of mass, m, in either model."""
    rotation, position = system.poses(q)
    if system.nc:
        return position[0]
    weight = system.forces[0].element
    return position[0] + algebra.matvec(rotation[0], weight.point[0])
