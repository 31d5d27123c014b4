"""A rigid body that turns freely, close to its unstable axis: the example of [S2] Sect. 6.

The body frame lies at the centre of mass and its axes are the principal ones. The angular velocity
starts a hundredth of a radian per second off the axis of the middle moment of inertia, so that the
body flips over again and again. Observed is the body point (0, 0, 1) m.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax.numerics import small
from models.fixed_point import Numbers

MASS = 1.0
INERTIA = (5.2988, 1.1775, 4.3568)
OMEGA_BODY = (0.01, 0.0, 100.0)
POINT = (0.0, 0.0, 1.0)

# Observed point (m) and body-fixed angular velocity (rad/s) at these times (s), to 18 digits: an
# independent solution by elliptic functions and a quadrature in extended precision.
REFERENCE = {
    0.25: (
        (-0.00189786337171099148, 0.00071860697882524668, -0.99999794085719611617),
        (0.15262267423292089962, -0.17585423807113813124, -99.9998171677946070780),
    ),
    0.5: (
        (-0.03045049551626992701, 0.04966541781646373948, 0.99830161454138183279),
        (4.64478836738027388398, 5.36331032884232996351, 99.8297911110293841353),
    ),
    0.75: (
        (0.08264251944669050650, 0.98979065905596534766, -0.11612349127140960951),
        (79.1035776888493199297, -91.3406557158094789131, -11.6113440174686231722),
    ),
    1.0: (
        (0.04832555548361437064, 0.05541452346203090604, -0.99729327245132669413),
        (5.86216283263292127353, 6.76901143915563664894, -99.7287395030894345261),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractCoordinates | None = None,
    *,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    position: Numbers = (0.0, 0.0, 0.0),
    orientation: Numbers = (1.0, 0.0, 0.0, 0.0),
    velocity: Numbers = (0.0, 0.0, 0.0),
    omega_body: Numbers = OMEGA_BODY,
    gravity: Numbers = (0.0, 0.0, 0.0),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The body as a system and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` in kg; `inertia` (3, 3) about the centre
    of mass, kg m²; `position` (3,) of the centre of mass, m; `orientation` (4,), a unit quaternion;
    `velocity` (3,) of the centre of mass, inertial components, m/s; `omega_body` (3,), rad/s;
    `gravity` (3,), m/s².
    """
    formulation = lie_jax.R3SO3() if formulation is None else formulation
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else inertia
    body = lie_jax.Body(
        "body",
        mass,
        inertia,
        position=position,
        orientation=orientation,
        velocity=velocity,
        omega_body=omega_body,
    )
    return lie_jax.assemble(lie_jax.Mechanism([body], gravity=gravity), formulation)


def observed_point(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """World position (3,) of the observed point, m."""
    rotation, position = system.poses(q)
    return position[0] + small.matvec(rotation[0], jnp.asarray(POINT, q.dtype))


def omega_body(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], v: Float[Array, " nv"]
) -> Float[Array, "3"]:
    """Body-fixed angular velocity (3,), rad/s."""
    return system.twists(q, v)[0, 3:]
