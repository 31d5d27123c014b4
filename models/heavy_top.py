"""The heavy top of [S3] Table 3: a body on a fixed point under gravity, spinning fast.

`constrained=True` is the model of [S3] Table 5, with the body frame at the centre of mass and a
spherical joint at the fixed point; `constrained=False` that of Table 4, with the body frame at the
fixed point (see `models/fixed_point.py`). The body's y axis is the top's axis of symmetry. Its
initial motion is a near-cusp: the centre of mass comes close to its lowest place.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models import fixed_point
from models.fixed_point import Numbers

MASS = 15.0
INERTIA = (0.234375, 0.46875, 0.234375)
CENTER_OF_MASS = (0.0, 1.0, 0.0)
OMEGA_BODY = (0.0, 150.0, -4.61538)
GRAVITY = (0.0, 0.0, -9.81)

# Centre of mass (m) at these times (s), to 20 digits: an independent solution in extended
# precision, found by two routes that share no code.
REFERENCE = {
    0.1: (0.42129665892540204364, 0.89457197434559299089, -0.1491647005618996116),
    0.5: (-0.70246829705658733748, -0.02116518470192332658, -0.71140025765173440555),
    1.0: (0.17334396409838604259, 0.64008859207056878286, -0.74849079113358130948),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    constrained: bool = False,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    center_of_mass: Numbers = CENTER_OF_MASS,
    orientation: Numbers = (1.0, 0.0, 0.0, 0.0),
    omega_body: Numbers = OMEGA_BODY,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The top as a system and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `constrained`: which of the two models; `mass`
    in kg; `inertia` (3, 3) about the centre of mass, kg m²; `center_of_mass` (3,) from the fixed
    point in body axes, m; `orientation` (4,), a unit quaternion; `omega_body` (3,), rad/s;
    `gravity` (3,), m/s².
    """
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else inertia
    return fixed_point.build(
        formulation,
        constrained=constrained,
        mass=mass,
        inertia=inertia,
        center_of_mass=center_of_mass,
        orientation=orientation,
        omega_body=omega_body,
        gravity=gravity,
    )


def center_of_mass(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """World position (3,) of the centre of mass, m, in either model."""
    if fixed_point.held_point(system) is not None:
        return system.poses(q)[1][0]
    return fixed_point.point_on_body(system, q, system.forces[0].element.point[0])
