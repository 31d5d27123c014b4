"""The flyball governor, a stiff benchmark of IFToMM (problem A05).

A shaft stands on the origin and turns about the world's z axis. Two rods hang on its top by hinges
across it, each with a ball, a point mass, at its outer end. A slider runs along the shaft. A strong
spring with a strong damper ties the middle of each rod to the slider: rods and slider follow each
other within some 0.1 ms, while the shaft takes a second for a turn.

Body frames: the shaft's at its foot; the rods' at their hinges, with x along the rod outwards; the
slider's at its middle. Rods hang in the plane of the shaft's x and z axes. Angles of rods are those
below the horizontal.

`build_compliant` is the variant of Exudyn (`stiffFlyballGovernor`, J. Gerstmayr and S. Holzinger,
2020): the joints are bushings, springs and dampers are 200 times softer, and all turns slowly at
the start. The light shaft turns to and fro between rods and slider at some 4 kHz, undamped.
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
ANGLE, SLIDE, RATE = float(jnp.pi / 6), 0.5, float(2.0 * jnp.pi)
GRAVITY = (0.0, 0.0, -9.81)

# Of the compliant variant.
SOFT_STIFFNESS, SOFT_DAMPING, SOFT_RATE = 4e3, 200.0, 0.16 * RATE
JOINT_STIFFNESS, JOINT_ROTATIONAL_STIFFNESS = 2e4, 1e3
FOOT_DAMPING, FOOT_ROTATIONAL_DAMPING = 1e3, 50.0

BODIES = ("shaft", "rod 1", "rod 2", "slider")

# Height of the slider (m), angle of the rods (rad), rate of the shaft (rad/s) at these times (s),
# to 17 digits, and to 15 of the compliant variant; REFERENCE_SOFT has the springs, dampers and rate
# of that variant on ideal joints. Two routes that share no code: all coordinates of the four
# bodies, with multipliers for ideal joints, extrapolated from the midpoint rule in quadruple
# precision; and Hamilton's equations of the motions that half a turn about z does not change, by
# Gauss collocation with 10 stages. They agree to 2e-18, for the compliant variant to 3e-16. At 2,
# 5 and 10 s of REFERENCE the first route has double extended precision; they agree to 3e-13.
REFERENCE = {
    0.1: (0.52383647556957569, 0.49617386907590026, 6.1037178088308628),
    0.5: (0.74324942478632572, 0.25949138154341312, 5.1034154219715353),
    1.0: (0.50142092237956765, 0.52183330162554623, 6.2711257418765548),
    2.0: (0.50590929429670371, 0.51666379736459874, 6.2362236144359715),
    5.0: (0.53556310372164348, 0.48287457658693981, 6.0224964997584590),
    10.0: (0.61962291706136566, 0.39007370184464508, 5.5482036226549266),
}
REFERENCE_SOFT = {
    0.1: (0.46027596135513811, 0.56629932661410605, 1.0556479031732675),
    0.5: (0.0099371161003431605, 1.3835719898668886, 14.947696723610605),
    1.0: (0.49309610608352829, 0.52704476898808478, 1.0091090664435434),
    2.0: (0.48306687714472441, 0.53830354750442247, 1.0218342893070337),
}
REFERENCE_COMPLIANT = {
    0.1: (0.461062144485125, 0.564607003791664, 1.05189017610995),
    0.5: (-0.00926853429879271, 1.37961445944656, 14.4485087725585),
    1.0: (0.485002980090454, 0.534817753770050, 0.927459643012899),
    2.0: (0.462743936826055, 0.559784696590193, 1.10033121546550),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    ball_mass: Numbers = BALL_MASS,
    stiffness: Numbers = STIFFNESS,
    damping: Numbers = DAMPING,
    relaxed: Numbers = RELAXED,
    angle: Numbers = ANGLE,
    slide: Numbers = SLIDE,
    rate: Numbers = RATE,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The governor as a system, with 20 constraints or in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `ball_mass` in kg; of the springs and dampers,
    `stiffness` in N/m, `damping` in N s/m and length `relaxed` in m; at the start, `angle` of both
    rods below the horizontal, rad, height `slide` of the slider, m, and `rate` of the shaft, with
    which all turns, rad/s; `gravity` (3,), m/s².
    """
    y, z = jnp.eye(3)[1:]
    joints: list[lie_jax.extend.AbstractJoint] = [lie_jax.RevoluteJoint("ground", "shaft", z)]
    for name, side, hinge, home in _hinges():
        joints.append(lie_jax.RevoluteJoint("shaft", name, side * y, hinge, orientation=home))
    joints.append(lie_jax.PrismaticJoint("shaft", "slider", z))
    bodies = _bodies(ball_mass, angle, slide, rate)
    mechanism = lie_jax.Mechanism(bodies, joints, _springs(stiffness, damping, relaxed), gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def build_compliant(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    ball_mass: Numbers = BALL_MASS,
    stiffness: Numbers = SOFT_STIFFNESS,
    damping: Numbers = SOFT_DAMPING,
    relaxed: Numbers = RELAXED,
    joint_stiffness: Numbers = JOINT_STIFFNESS,
    joint_rotational_stiffness: Numbers = JOINT_ROTATIONAL_STIFFNESS,
    foot_damping: Numbers = FOOT_DAMPING,
    foot_rotational_damping: Numbers = FOOT_ROTATIONAL_DAMPING,
    angle: Numbers = ANGLE,
    slide: Numbers = SLIDE,
    rate: Numbers = SOFT_RATE,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The governor with bushings in the place of joints: no constraints, and its initial state.

    The shaft stands on a bushing that is free about z, rods hang on bushings that are free about
    the axes of their hinges. That of the slider has no stiffness along the shaft; its turn against
    the shaft stays small. The dampers are those of the shaft's foot.

    **Arguments:** as for `build`; of all bushings, in the directions that are not free,
    `joint_stiffness` in N/m and `joint_rotational_stiffness` in N m/rad; `foot_damping` in N s/m,
    `foot_rotational_damping` in N m s/rad.
    """
    along, about, foot, foot_about = (
        jnp.asarray(x, float)
        for x in (
            *(joint_stiffness, joint_rotational_stiffness),
            *(foot_damping, foot_rotational_damping),
        )
    )
    y, z = jnp.eye(3)[1:]
    all_axes = jnp.ones(3)
    bushings = [
        lie_jax.RevoluteBushing(
            "ground", "shaft", z, along * all_axes, about, foot * all_axes, foot_about
        ),
        *(
            lie_jax.RevoluteBushing(
                "shaft", name, side * y, along * all_axes, about,
                parent_point=hinge, orientation=home,
            )
            for name, side, hinge, home in _hinges()
        ),
        lie_jax.Bushing("shaft", "slider", along * (all_axes - z), about * all_axes),
    ]  # fmt: skip
    bodies = _bodies(ball_mass, angle, slide, rate)
    forces = [*_springs(stiffness, damping, relaxed), *bushings]
    mechanism = lie_jax.Mechanism(bodies, (), forces, gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _hinges() -> list[tuple[str, float, Array, tuple[float, ...]]]:
    """Name of each rod, sign of its axis along the shaft's y, place of its hinge on the shaft, and
    its orientation when it is level: the second rod lies opposite of the first, turned by half a
    turn about the shaft.
    """
    x, _, z = jnp.eye(3)
    turns = ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    rods = zip(BODIES[1:3], (1.0, -1.0), turns, strict=True)
    return [(name, side, side * OFFSET * x + LENGTH * z, home) for name, side, home in rods]


def _springs(
    stiffness: Numbers, damping: Numbers, relaxed: Numbers
) -> list[lie_jax.LinearSpringDamper]:
    x = jnp.eye(3)[0]
    return [
        lie_jax.LinearSpringDamper(
            name, "slider", stiffness, damping, relaxed, 0.5 * LENGTH * x, side * OFFSET * x
        )
        for name, side, *_ in _hinges()
    ]


def _bodies(
    ball_mass: Numbers, angle: Numbers, slide: Numbers, rate: Numbers
) -> list[lie_jax.Body]:
    ball, angle, slide, rate = (jnp.asarray(x, float) for x in (ball_mass, angle, slide, rate))
    start = placement.motion(
        _place, jnp.stack([jnp.zeros(()), angle, slide]), rate * jnp.asarray([1.0, 0.0, 0.0])
    )
    x, _, z = jnp.eye(3)
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
    return [
        lie_jax.Body(name, *numbers, *(part[i] for part in start))
        for i, (name, numbers) in enumerate(zip(BODIES, properties, strict=True))
    ]


def _place(coordinates: Float[Array, "3"]) -> tuple[Array, Array]:
    """Rotations (4, 3, 3) and positions (4, 3) for the angles of shaft and rods and the slide."""
    x, y, z = jnp.eye(3)
    turn, angle, slide = coordinates
    shaft, half_turn = lie_jax.groups.so3.exp(turn * z), jnp.diag(jnp.asarray([-1.0, -1.0, 1.0]))
    lowered = lie_jax.groups.so3.exp(angle * y)
    rods = shaft @ lowered, shaft @ half_turn @ lowered
    hinges = [shaft @ (side * OFFSET * x + LENGTH * z) for side in (1.0, -1.0)]
    rotations = jnp.stack([shaft, *rods, shaft])
    return rotations, jnp.stack([jnp.zeros(3), *hinges, slide * z])


def readings(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], v: Float[Array, " nv"]
) -> Float[Array, "3"]:
    """Height of the slider (m), angle of the first rod below the horizontal (rad), and rate of the
    shaft about its axis (rad/s).
    """
    rotation, position = system.poses(q)
    outwards = rotation[1, :, 0]
    angle = jnp.arctan2(-outwards[2], jnp.hypot(outwards[0], outwards[1]))
    return jnp.stack([position[3, 2], angle, system.twists(q, v)[0, 5]])
