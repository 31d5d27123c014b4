"""The flyball governor, a stiff benchmark of IFToMM (problem A05).

A shaft stands on the origin and turns about the world's z axis. Two rods hang on its top by hinges
across it, each with a ball, a point mass, at its outer end. A slider runs along the shaft. A strong
spring with a strong damper ties the middle of each rod to the slider: rods and slider follow each
other within some 0.1 ms, while the shaft takes a second for a turn.

Body frames: the shaft's at its foot; the rods' at their hinges, with x along the rod outwards; the
slider's at its middle. Rods hang in the plane of the shaft's x and z axes. Angles of rods are those
below the horizontal.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax import solids
from lie_jax.mechanics.body import inertia_about_origin
from models import placement
from models.fixed_point import Numbers

SHAFT_MASS, ROD_MASS, SLIDER_MASS, BALL_MASS = 0.3, 0.3, 3.0, 5.0
# Length of shaft and rods, width of their square section, side of the slider, which is a cube.
LENGTH, WIDTH, SIDE = 1.0, 0.01, 0.1
# Of the hinges of the rods, and of the springs on the slider, from the axis of the shaft.
OFFSET = 0.05
STIFFNESS, DAMPING, RELAXED = 8e5, 4e4, 0.5
ANGLE, SLIDE, SPEED = float(jnp.pi / 6), 0.5, float(2.0 * jnp.pi)
GRAVITY = (0.0, 0.0, -9.81)

BODIES = ("shaft", "rod 1", "rod 2", "slider")

# Height of the slider (m), angle of the rods (rad), speed of the shaft (rad/s) at these times (s),
# to some 2e-12: Lagrange's equations by SciPy in double precision, found by two routes that share
# no code. One has two coordinates and the conserved moment of momentum, written by hand, by Radau
# IIA and again by DOP853; the other four coordinates, from the energies of the bodies in space by
# automatic differentiation. All end with these digits.
REFERENCE = {
    0.1: (0.52383647557, 0.496173869076, 6.10371780883),
    0.5: (0.743249424786, 0.259491381543, 5.10341542197),
    1.0: (0.50142092238, 0.521833301626, 6.27112574188),
    2.0: (0.505909294297, 0.516663797365, 6.23622361444),
    5.0: (0.535563103722, 0.482874576587, 6.02249649976),
    10.0: (0.619622917061, 0.390073701845, 5.54820362266),
}


def build(
    formulation: lie_jax.AbstractFormulation | None = None,
    *,
    ball_mass: Numbers = BALL_MASS,
    stiffness: Numbers = STIFFNESS,
    damping: Numbers = DAMPING,
    relaxed: Numbers = RELAXED,
    angle: Numbers = ANGLE,
    slide: Numbers = SLIDE,
    speed: Numbers = SPEED,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.AbstractMultibodySystem, lie_jax.State]:
    """The governor as a system, with 20 constraints or in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `ball_mass` in kg; of the springs and dampers,
    `stiffness` in N/m, `damping` in N s/m and length `relaxed` in m; at the start, `angle` of both
    rods below the horizontal, rad, height `slide` of the slider, m, and `speed` of the shaft, with
    which all turns, rad/s; `gravity` (3,), m/s².
    """
    ball, angle, slide, speed = (jnp.asarray(x, float) for x in (ball_mass, angle, slide, speed))
    start = placement.motion(
        _place, jnp.stack([jnp.zeros(()), angle, slide]), speed * jnp.asarray([1.0, 0.0, 0.0])
    )
    x, y, z = jnp.eye(3)
    bar = (WIDTH, WIDTH, LENGTH)
    # A rod and its ball are one body, whose inertia counts from their common centre of mass.
    mass = ROD_MASS + ball
    center = LENGTH * (0.5 * ROD_MASS + ball) / mass * x
    rod = inertia_about_origin(
        jnp.asarray(ROD_MASS), solids.box(ROD_MASS, bar[::-1]), 0.5 * LENGTH * x
    ) + inertia_about_origin(ball, jnp.zeros((3, 3)), LENGTH * x)
    rod = rod - inertia_about_origin(mass, jnp.zeros((3, 3)), center)
    properties = (
        (SHAFT_MASS, solids.box(SHAFT_MASS, bar), 0.5 * LENGTH * z),
        (mass, rod, center),
        (mass, rod, center),
        (SLIDER_MASS, solids.box(SLIDER_MASS, (SIDE, SIDE, SIDE)), jnp.zeros(3)),
    )
    bodies = [
        lie_jax.Body(name, *numbers, *(part[i] for part in start))
        for i, (name, numbers) in enumerate(zip(BODIES, properties, strict=True))
    ]
    joints: list[lie_jax.AbstractJoint] = [lie_jax.RevoluteJoint("ground", "shaft", z)]
    forces = []
    # The second rod lies opposite of the first, turned by half a turn about the shaft.
    for name, side, home in (("rod 1", 1.0, (1.0, 0, 0, 0)), ("rod 2", -1.0, (0, 0, 0, 1.0))):
        hinge = side * OFFSET * x + LENGTH * z
        joints.append(lie_jax.RevoluteJoint("shaft", name, side * y, hinge, orientation=home))
        forces.append(
            lie_jax.LinearSpringDamper(
                name, "slider", stiffness, damping, relaxed, 0.5 * LENGTH * x, side * OFFSET * x
            )
        )
    joints.append(lie_jax.PrismaticJoint("shaft", "slider", z))
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _place(coordinates: Float[Array, "3"]) -> tuple[Array, Array]:
    """Rotations (4, 3, 3) and positions (4, 3) for the angles of shaft and rods and the slide."""
    x, y, z = jnp.eye(3)
    turn, angle, slide = coordinates
    shaft, half_turn = lie_jax.so3.exp(turn * z), jnp.diag(jnp.asarray([-1.0, -1.0, 1.0]))
    lowered = lie_jax.so3.exp(angle * y)
    rods = shaft @ lowered, shaft @ half_turn @ lowered
    hinges = [shaft @ (side * OFFSET * x + LENGTH * z) for side in (1.0, -1.0)]
    rotations = jnp.stack([shaft, *rods, shaft])
    return rotations, jnp.stack([jnp.zeros(3), *hinges, slide * z])


def observe(
    system: lie_jax.AbstractMultibodySystem, q: Float[Array, " nq"], v: Float[Array, " nv"]
) -> Float[Array, "3"]:
    """Height of the slider (m), angle of the first rod (rad), speed of the shaft (rad/s)."""
    joints = system.joint_coordinates(q)
    speed = system.twists(q, v)[0, 5]
    return jnp.stack([joints["shaft", "slider"][0], joints["shaft", "rod 1"][0], speed])
