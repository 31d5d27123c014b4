"""Two boxes that float in space, joined by a ball joint at corners or by a hinge along edges.

No force acts: energy and both momenta are constant. A. Müller and Z. Terze, "The significance of
the configuration space Lie group for the constraint satisfaction in numerical time integration of
multibody systems" (2014), compare formulations by how well they hold the joints of such bodies; the
numbers here are of our choice.

Body frames lie at the centres of the boxes, along their edges, and are parallel to the world's at
the start. The ball joint joins the corner of the first box where x, y and z are largest to the
corner of the second one where they are smallest; the hinge, the edges along z through these.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import checks, solids
from lie_jax.numerics import small
from models.double_pendulum import Rows
from models.fixed_point import Numbers

SIDES = ((0.8, 0.4, 0.2), (1.0, 0.3, 0.3))
DENSITY = 1000.0
# Of the first box at the start: velocity (m/s), then angular velocity (rad/s).
TWIST = (0.5, 0.0, 0.2, 1.0, -0.7, 2.0)
# The second box turns against the first about these directions at the start, at this rate.
AXES = {"ball": (1.0, 2.0, -2.0), "hinge": (0.0, 0.0, 1.0)}
RATE = 3.0

# Corners of the boxes (m) as `corners` has them, for each joint at these times (s), to 18 digits.
# An independent solution by two routes that share no code and agree to 1e-18: all coordinates of
# both boxes with multipliers, extrapolated from the midpoint rule in quadruple precision; and the
# rotations about the uniformly moving centre of mass, by Gauss collocation with 10 stages.
REFERENCE = {
    "ball": {
        1.0: (
            (0.907332369066167232, -0.0188746524726531498, -0.0339590939627129003),
            (1.39118551753667743, 0.874568491684050290, 0.255946126603019995),
        ),
        5.0: (
            (1.94901029459755876, 1.77340735951985708, 1.10639836425712644),
            (2.75938081624780128, 1.12294123100539477, 1.15394602123673979),
        ),
    },
    "hinge": {
        1.0: (
            (0.793953926590682329, 3.04881321406381236, 0.830554430470283507),
            (-0.0954068422048354235, 1.31175108842378570, 0.773968858377780052),
        ),
        5.0: (
            (-0.939913302889305340, 9.07463586119586231, 3.61216594731518786),
            (0.135707367514377126, 10.5955581563930783, 4.16428284606452551),
        ),
    },
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    joint: str = "ball",
    sides: Rows = SIDES,
    density: Numbers = DENSITY,
    twist: Numbers = TWIST,
    rate: Numbers = RATE,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The boxes, with 3 or 5 constraints or in joint coordinates, and their initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `joint`: `"ball"` or `"hinge"`; `sides` (2, 3)
    along x, y and z, m; `density` of both boxes, kg/m³; `twist` (6,) of the first box at the start,
    translation first, m/s and rad/s; `rate` at which the second one turns against it about the
    joint's direction in `AXES`, rad/s.
    """
    checks.one_of("build(joint=)", joint, tuple(AXES))
    sides, density, twist, rate = (jnp.asarray(x, float) for x in (sides, density, twist, rate))
    axis = np.asarray(AXES[joint])
    mass = density * jnp.prod(sides, axis=1)
    held = jnp.asarray([1.0, 1.0, 0.0 if joint == "hinge" else 1.0])
    first, second = 0.5 * held * sides[0], -0.5 * held * sides[1]
    velocity, omega = twist[:3], twist[3:]
    omegas = omega, omega + rate * axis / np.linalg.norm(axis)
    velocities = velocity, velocity + small.cross(omega, first) - small.cross(omegas[1], second)
    bodies = [
        lie_jax.Body(
            f"box {i + 1}",
            mass[i],
            solids.box(mass[i], sides[i]),
            position=position,
            velocity=velocities[i],
            omega_body=omegas[i],
        )
        for i, position in enumerate((jnp.zeros(3), first - second))
    ]
    joints = [
        lie_jax.SphericalJoint("box 1", "box 2", first, second)
        if joint == "ball"
        else lie_jax.RevoluteJoint("box 1", "box 2", axis, first, second)
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def corners(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], sides: Rows = SIDES
) -> Float[Array, "2 3"]:
    """World positions (2, 3) of the corners opposite to the joint's: of the first box where x, y
    and z are smallest, of the second one where they are largest, m.
    """
    rotation, position = system.poses(q)
    halves = 0.5 * jnp.asarray(sides, float)
    first, second = (small.matvec(rotation[i], halves[i]) for i in (0, 1))
    return jnp.stack([position[0] - first, position[1] + second])
