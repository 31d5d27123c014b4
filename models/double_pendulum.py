"""A spatial double pendulum: two different bodies on ball joints, swinging and turning freely.

Body frames lie at the centres of mass; the first ball joint is the world origin.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from models import links
from models.fixed_point import Numbers

Rows = ArrayLike | Sequence[Sequence[float]]

MASS = (2.0, 1.0)
# Principal moments about the centres of mass.
INERTIA = ((0.30, 0.28, 0.05), (0.10, 0.09, 0.02))
# From the joint above each body, and the second joint from the first.
CENTER_OF_MASS = ((0.0, 0.0, -0.5), (0.0, 0.0, -0.4))
SECOND_JOINT = (0.0, 0.0, -1.0)
# A quarter turn about x of the first body, none of the second.
ORIENTATION = ((0.5**0.5, 0.5**0.5, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
OMEGA_BODY = ((0.3, 0.2, 1.0), (1.0, -2.0, 3.0))
GRAVITY = (0.0, 0.0, -9.81)

# Centres of mass (m) of the first and second body at these times (s), to 14 digits: an independent
# solution in extended precision, found by two routes that share no code.
REFERENCE = {
    0.1: (
        (-0.0097731410685506920527, 0.49967686322401709184, -0.015083702206723764574),
        (0.059623468794300353880, 1.0410402249527177800, -0.42003197882343265101),
    ),
    1.0: (
        (-0.12332301595351536132, -0.34850326581042437998, -0.33665547293278581883),
        (-0.0068649091199360465413, -0.96567139237214157227, -0.49917247868370894734),
    ),
    5.0: (
        (0.087096470422095737826, -0.24695744206462583219, -0.42594157656762033668),
        (0.22672945716801309624, -0.20859321246683129811, -1.1272582757086474588),
    ),
}
# Force (N, inertial) of the ground on the first body, and of the second body on it.
REFERENCE_FORCES = {
    0.1: (
        (8.066427345443626e-02, -1.479155689430900e00, 7.407801848615193e00),
        (1.598122934133052e-01, 2.632359174887217e-01, 1.078023398106276e-01),
    ),
    1.0: (
        (4.789304818785869e00, 9.093522558974258e00, 1.828733352497925e01),
        (2.746164999043064e00, -8.207097087070519e00, 9.964675126381974e-01),
    ),
    5.0: (
        (-2.866516918290814e00, 1.603088439488179e01, 2.233885818303371e01),
        (3.828191221153763e00, 1.439689100245380e01, -1.976565531215339e01),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    center_of_mass: Rows = CENTER_OF_MASS,
    second_joint: Numbers = SECOND_JOINT,
    orientation: Rows = ORIENTATION,
    omega_body: Rows = OMEGA_BODY,
    gravity: Numbers = GRAVITY,
    forces: Sequence[lie_jax.extend.AbstractForce] = (),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The pendulum, with six constraints or in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; for the first and the second body: `mass` (2,),
    kg; `inertia` (2, 3, 3) about the centres of mass, kg m²; `center_of_mass` (2, 3) from the joint
    above, body axes, m; `orientation` (2, 4), unit quaternions; `omega_body` (2, 3), rad/s;
    `second_joint` (3,) from the first one in the first body's axes, m; `gravity` (3,), m/s²;
    `forces` on the bodies, `"link 0"` and `"link 1"`, besides it.
    """
    inertia = jnp.stack([jnp.diag(jnp.asarray(i)) for i in INERTIA]) if inertia is None else inertia
    return links.build(
        formulation,
        mass=jnp.asarray(mass, float),
        inertia=jnp.asarray(inertia, float),
        center_of_mass=jnp.asarray(center_of_mass, float),
        next_joint=jnp.stack([jnp.asarray(second_joint, float), jnp.zeros(3)]),
        orientation=jnp.asarray(orientation, float),
        omega_body=jnp.asarray(omega_body, float),
        gravity=jnp.asarray(gravity, float),
        forces=forces,
    )


def centers_of_mass(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "2 3"]:
    """World positions (2, 3) of the centres of mass, m."""
    return system.poses(q)[1]
