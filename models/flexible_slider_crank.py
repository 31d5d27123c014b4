"""A slider-crank in the plane with a connecting rod that bends.

The crank of 0.15 m is rigid and reaches 150 rad/s in a tenth of a second, the rod of 0.3 m is a
round bar of steel, 6 mm thick, the slider weighs 36 g: lengths and speed of Simeon's slider-crank
in the test set for initial value problems, whose rod has a few modes in place of a beam.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import beams
from models import driven

CRANK, ROD, RADIUS = 0.15, 0.3, 3e-3
CRANK_MASS, SLIDER_MASS = 0.36, 0.036
YOUNG, POISSON, DENSITY = 2e11, 0.3, 7870.0
SPEED, START = 150.0, 0.1


def angle(t: Array) -> Array:
    """Angle of the crank, rad."""
    return driven.started(t, SPEED, START)


def build(
    elements: int = 8,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    damping_time: float = 1e-6,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The stretched mechanism at rest, along x; the rod's damping is `damping_time` (s) times K."""
    section = beams.circle(
        RADIUS, YOUNG, 0.5 * YOUNG / (1.0 + POISSON), DENSITY, damping_time=damping_time
    )
    inertia = CRANK_MASS * CRANK**2 / 12.0
    crank = lie_jax.Body(
        "crank",
        CRANK_MASS,
        np.diag([0.01 * inertia, inertia, inertia]),
        position=(0.5 * CRANK, 0.0, 0.0),
    )
    rod = beams.line("rod", section, ROD, elements, position=(CRANK, 0.0, 0.0))
    slider = lie_jax.Body(
        "slider",
        SLIDER_MASS,
        lie_jax.solids.box(SLIDER_MASS, (0.03, 0.02, 0.02)),
        position=(CRANK + ROD, 0.0, 0.0),
    )
    z, first, last = (0.0, 0.0, 1.0), rod.nodes[0].name, rod.nodes[-1].name
    pivot = lie_jax.RevoluteJoint("ground", "crank", z, child_point=(-0.5 * CRANK, 0.0, 0.0))
    joints = [
        pivot,
        lie_jax.JointDriver(pivot, value=angle),
        lie_jax.RevoluteJoint("crank", first, z, parent_point=(0.5 * CRANK, 0.0, 0.0)),
        # A hinge would hold the plane twice.
        lie_jax.SphericalJoint(last, "slider"),
        lie_jax.PrismaticJoint("ground", "slider", (1.0, 0.0, 0.0)),
    ]
    mechanism = lie_jax.Mechanism(
        [crank, *rod.nodes, slider], joints, rod.elements, gravity=(0.0, 0.0, 0.0)
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def bow(system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]) -> Float[Array, ""]:
    """Distance of the rod's middle from the line between its ends, to the left of it, m."""
    names = system.names
    line = system.poses(q)[1][names.index("rod 0") : names.index("slider")]
    chord = line[-1] - line[0]
    across = jnp.stack([-chord[1], chord[0]]) / jnp.hypot(chord[0], chord[1])
    middle = line[line.shape[0] // 2] - line[0]
    return middle[0] * across[0] + middle[1] * across[1]
