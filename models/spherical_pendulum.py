"""Point masses on massless rods, one below the other: a pendulum in the tangent bundle of spheres.

The form of E. Celledoni, E. Çokaj, A. Leone, D. Murari and B. Owren, "Lie group integrators for
mechanical systems" (2022), with a start of our choice. The first rod hangs on the world origin;
directions of rods are unit vectors outwards, their angular velocities lie across them.

The masses are small balls: forces act at their centres alone, so that the balls do not turn, and
their centres move exactly as points, whatever the radius. Rods are `DistanceJoint`s, constraints in
all formulations.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import solids
from lie_jax.numerics import small
from models.double_pendulum import Rows
from models.fixed_point import Numbers

MASS, LENGTH = (1.0, 1.0), (1.0, 1.0)
DIRECTION = (
    (0.0, float(np.sin(1.0)), -float(np.cos(1.0))),
    (float(np.sin(0.5)), 0.0, -float(np.cos(0.5))),
)
# Parts along the rods are left out.
OMEGA = ((1.0, 0.0, 0.0), (0.0, 1.5, 0.0))
GRAVITY = (0.0, 0.0, -9.81)
RADIUS = 0.05

# The masses (m) at these times (s), to 17 digits. An independent solution by two routes that share
# no code and agree to 1e-17: both points with two multipliers, extrapolated from the midpoint rule
# in quadruple precision; and directions and angular velocities of the rods, by Gauss collocation
# with 10 stages.
REFERENCE = {
    1.0: (
        (-0.29979003342361024, -0.41753691005161651, -0.85778136177257836),
        (-0.49014848102495102, -0.74032810332875426, -1.7849110759817224),
    ),
    5.0: (
        (0.040967262665723803, -0.20106186321184691, -0.97872151838582672),
        (-0.22885055797197830, 0.67802614505195336, -1.3716625030045166),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    direction: Rows = DIRECTION,
    omega: Rows = OMEGA,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The pendulum of n masses as a system with n constraints, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` (n,) in kg; of the rods, `length` (n,)
    in m and at the start `direction` (n, 3), unit vectors, and angular velocity `omega` (n, 3),
    inertial components, rad/s; `gravity` (3,), m/s².
    """
    mass, length, direction, omega = (
        jnp.asarray(x, float) for x in (mass, length, direction, omega)
    )
    bodies, joints = [], []
    parent, place, velocity = "ground", jnp.zeros(3), jnp.zeros(3)
    # The velocity of a rod's end is that of its beginning and ω × L q.
    rods = length[:, None] * direction
    for i, change in enumerate(jax.vmap(small.cross)(omega, rods)):
        place, velocity = place + rods[i], velocity + change
        name = f"mass {i + 1}"
        inertia = solids.sphere(mass[i], RADIUS)
        bodies.append(lie_jax.Body(name, mass[i], inertia, position=place, velocity=velocity))
        joints.append(lie_jax.DistanceJoint(parent, name, length[i]))
        parent = name
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def positions(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "n 3"]:
    """World positions (n, 3) of the masses, m."""
    return system.poses(q)[1]
