"""A free body driven from rest by a torque whose components along body axes depend on time.

The body frame lies at the centre of mass, which stays at the world origin.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models.fixed_point import Numbers

MASS = 1.0
INERTIA = (5.2988, 1.1775, 4.3568)
GRAVITY = (0.0, 0.0, 0.0)

# Rotation matrix, body to world, and angular velocity (body components, rad/s) at these times (s),
# to 15 digits: an independent solution in extended precision, found by two routes that share no
# code.
REFERENCE = {
    1.0: (
        (
            (0.58952819571253654357, -0.35783170135734805464, 0.72416364170236196972),
            (0.77837227359756015685, 0.49124037797059575021, -0.39092134086779041068),
            (-0.21585437256281412945, 0.79412805299587037064, 0.56812632863695195481),
        ),
        (0.22664443798222660464, 1.1514907843238414034, 0.66005466635141719964),
    ),
    5.0: (
        (
            (-0.25959921920722762393, -0.80884049586395442644, -0.52762230585670854736),
            (0.91358148993425617309, -0.028603731125331419439, -0.40564847813743161295),
            (0.31301294963068599376, -0.58733200050419700330, 0.74636721159710356348),
        ),
        (0.61105601468886756737, 8.4457763818827063587, -2.2299852357670099513),
    ),
    10.0: (
        (
            (-0.73775218893456438291, -0.59956883536255872849, 0.31022398260650926735),
            (-0.67348380735304609472, 0.62219771311337557843, -0.39911097082106208974),
            (0.046273847424910688188, -0.50337582128909462125, -0.86282762680968066042),
        ),
        (-0.22945569514845772600, 16.855214884289669621, 2.3161366879213801562),
    ),
}


def torque(t: Float[Array, ""]) -> Float[Array, "3"]:
    """The torque (N m, body components) at time t (s)."""
    return jnp.stack([20.0 * jnp.sin(5.0 * t), 2.0 * jnp.ones_like(t), 10.0 * jnp.cos(3.0 * t)])


def build(
    formulation: lie_jax.extend.AbstractCoordinates | None = None,
    *,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The body as a system without constraints and its initial state, at rest.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` in kg; `inertia` (3, 3) about the centre
    of mass, kg m²; `gravity` (3,), m/s².
    """
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else jnp.asarray(inertia, float)
    mechanism = lie_jax.Mechanism(
        [lie_jax.Body("body", mass, inertia)],
        forces=[lie_jax.Torque("body", torque, frame="body")],
        gravity=gravity,
    )
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)
