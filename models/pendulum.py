"""A point mass on a massless rod, let go from the level: the simplest benchmark of IFToMM (A01).

Built as the `spherical_pendulum` of one mass. It swings in the plane of the world's x and y axes,
about the origin.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models import spherical_pendulum
from models.fixed_point import Numbers

MASS = 1.0
LENGTH = 1.0
# Of the rod from the downward direction, positive towards x.
ANGLE = -float(jnp.pi / 2)
GRAVITY = 9.81

# x and y of the mass (m) at these times (s), to 20 digits. The closed form by elliptic functions in
# 40 digits and both coordinates with a multiplier, extrapolated from the midpoint rule in quadruple
# precision, agree to 1e-22.
REFERENCE = {
    1.0: (0.98629175113187531936, -0.16501085312554116875),
    2.0: (-0.79356619534332174699, -0.60848393044379151463),
    5.0: (-0.94230543504375733550, -0.33475433841400058079),
    10.0: (-0.27508746257611686005, -0.96141920509912506427),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    angle: Numbers = ANGLE,
    rate: Numbers = 0.0,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The pendulum as a system with one constraint and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` in kg; of the rod, `length` in m and at
    the start `angle` from the downward direction, rad, and its `rate`, rad/s; `gravity`, m/s².
    """
    mass, length, angle, rate, gravity = (
        jnp.asarray(x, float) for x in (mass, length, angle, rate, gravity)
    )
    x, y, z = jnp.eye(3)
    return spherical_pendulum.build(
        formulation,
        mass=mass[None],
        length=length[None],
        direction=(jnp.sin(angle) * x - jnp.cos(angle) * y)[None],
        omega=(rate * z)[None],
        gravity=-gravity * y,
    )


def position(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "2"]:
    """World coordinates x and y (2,) of the mass, m."""
    return spherical_pendulum.positions(system, q)[0, :2]
