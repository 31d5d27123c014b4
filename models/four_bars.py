"""Four-bar linkages in a row, a benchmark of IFToMM for singular positions (problem A02).

Posts of 1 m stand on the ground, 1 m apart, and beams of 1 m join their tops. All turn over to the
right and on below the ground, round and round. Where the posts lie along the ground all bars are in
line, the linkage may leave its parallelograms there, and one constraint a loop depends on others:
ten times in 10 s. Bodies are ones in space: in every position three rows a loop are redundant.

Body frames lie mid-bar, with x along posts from the foot and along beams to the right.
"""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from models import placement
from models.fixed_point import Numbers

MASS = 1.0
LENGTH = 1.0
# About a bar's axis, kg m²; bars stay in their plane, so that it does not matter.
AXIAL_INERTIA = 1e-3
ANGLE, RATE = float(jnp.pi / 2), -1.0
GRAVITY = (0.0, -9.81, 0.0)

# Angle of the posts (rad) and its rate (rad/s) at these times (s), for two, ten and forty loops, to
# 20 digits. All posts are parallel: with n loops (4n + 1) L θ̈ / 3 = -(3n + 1) g cos θ / 2. Its
# solution in elliptic functions in 40 digits and its extrapolation from the midpoint rule in
# quadruple precision agree to 2e-22, and with two loops at 0.25 and 0.5 s, before the posts first
# lie down, all coordinates of all bars with multipliers agree to 24 digits. The posts lie down for
# the first time at 0.7144, 0.7203 and 0.7216 s, for the tenth time at 8.9982, 9.0873 and 9.1064 s.
REFERENCE = {
    0.25: (1.2900193778788852122, -1.3770847703807508992),
    0.5: (0.80197769923969057702, -2.7273084942770728426),
    1.0: (-1.7670744763102011126, -6.8073852408694455367),
    2.0: (-4.7702370345174349864, -1.0189645914385367067),
    5.0: (-15.083557159858586006, -6.1050675535196209888),
    10.0: (-30.179800860191205198, -1.5066421808418294699),
}
REFERENCE_10 = {
    0.25: (1.2909065786784580108, -1.3659848565188471387),
    0.5: (0.81040851446116225662, -2.6699966259537467455),
    1.0: (-1.7004654140410328295, -6.7317970451149616262),
    2.0: (-4.7509662147292519718, -1.0082438480118147907),
    5.0: (-14.775111170259437345, -6.4130669587211062790),
    10.0: (-30.050933495986975996, -1.2122622165278673240),
}
REFERENCE_40 = {
    0.25: (1.2910923439275874508, -1.3636623797016554890),
    0.5: (0.81216881071213342510, -2.6580506789180815840),
    1.0: (-1.6864105981149168085, -6.7148148807235629590),
    2.0: (-4.7468621152412202283, -1.0065492036262305413),
    5.0: (-14.707829870140081710, -6.4600011807574712936),
    10.0: (-30.026637417190841101, -1.1676221087517068278),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    loops: int = 2,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    angle: Numbers = ANGLE,
    rate: Numbers = RATE,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """So many linkages in a row as a system with 5 constraints and 15 more a loop, or in joint
    coordinates 5 a loop, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `loops`: the number of linkages; of each bar,
    `mass` in kg and `length` in m; `angle` of the posts at the start, from the x axis, rad, and its
    `rate`, rad/s; `gravity` (3,), m/s². Raises `ValueError` for less than one loop.
    """
    if loops < 1:
        raise ValueError(f"build(loops=) is {loops}; it must be at least 1.")
    mass, length, angle, rate = (jnp.asarray(x, float) for x in (mass, length, angle, rate))
    start = placement.motion(lambda a: place(a, length, loops), angle, rate)
    about_center = jnp.diag(inertia(mass, length))
    bodies = [
        lie_jax.Body(name, mass, about_center, (0.0, 0.0, 0.0), *(part[i] for part in start))
        for i, name in enumerate(names(loops))
    ]
    z = jnp.eye(3)[2]
    joints = [
        lie_jax.RevoluteJoint(
            parent, child, z, length * jnp.asarray(parent_point), length * jnp.asarray(child_point)
        )
        for parent, child, parent_point, child_point in hinges(loops)
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def inertia(mass: ArrayLike, length: ArrayLike) -> Float[Array, "3"]:
    """Principal moments of inertia of a bar about its centre, kg m²."""
    across = jnp.asarray(mass * length**2 / 12.0, float)
    return jnp.stack([jnp.asarray(AXIAL_INERTIA), across, across])


def names(loops: int) -> list[str]:
    """Names of the bars: a post, then post and beam of each loop, in the order of `place`."""
    return ["post 0"] + [f"{bar} {i}" for i in range(1, loops + 1) for bar in ("post", "beam")]


def hinges(loops: int) -> list[tuple[str, str, tuple[float, ...], tuple[float, ...]]]:
    """Parent, child, and the hinge's place on each of them, for bars of 1 m."""
    left, right = (-0.5, 0.0, 0.0), (0.5, 0.0, 0.0)
    joints = [("ground", "post 0", (0.0, 0.0, 0.0), left)]
    for i in range(1, loops + 1):
        post, beam = f"post {i}", f"beam {i}"
        joints.append(("ground", post, (float(i), 0.0, 0.0), left))
        joints.append((f"post {i - 1}", beam, right, left))
        joints.append((beam, post, right, right))
    return joints


def place(
    angle: Float[Array, ""], length: Float[Array, ""], loops: int
) -> tuple[Float[Array, "bars 3 3"], Float[Array, "bars 3"]]:
    """Rotations and positions of the bars whose posts have this angle from the x axis."""
    x, y, z = jnp.eye(3)
    turned = lie_jax.groups.so3.exp(angle * z)
    post = length * (jnp.cos(angle) * x + jnp.sin(angle) * y)
    rotations, positions = [turned], [0.5 * post]
    for i in range(1, loops + 1):
        rotations += [turned, jnp.eye(3)]
        positions += [i * length * x + 0.5 * post, (i - 0.5) * length * x + post]
    return jnp.stack(rotations), jnp.stack(positions)


def post_angle(
    system: lie_jax.extend.AbstractMultibodySystem,
    q: Float[Array, "*instants nq"],
    v: Float[Array, "*instants nv"] | None = None,
    t: Float[Array, " instants"] | None = None,
) -> Float[Array, "*instants"]:
    """Angle of the first post from the x axis at q (nq,), or at instants of a run in order, with
    its velocities v (n, nv) and times t (n,), rad.

    In joint coordinates it counts whole turns. In absolute coordinates it lies between -π and π;
    that of instants is continued from the first one by its rates.
    """
    return system.joint_coordinates(q, v, t)["ground", "post 0"][..., 0]
