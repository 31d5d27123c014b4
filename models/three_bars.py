"""A loop of three bars and the ground on four ball joints, which swings under its weight.

Twelve constraints leave six degrees of freedom: the loop's swing about the line through the joints
on the ground, two of its shape, and the spins of the bars about themselves, which nothing changes.

The loop hangs from the origin and from a point on the world's x axis, trapezoidal, with the middle
bar level; it is turned about x and turns about x at the start. Body frames lie mid-bar, with x
along the bar.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax import solids
from lie_jax.numerics import small
from models import placement
from models.fixed_point import Numbers

MASS = (1.0, 2.0, 1.5)
LENGTH = (0.6, 0.9, 0.7)
RADIUS = 0.02
# Between the ball joints on the ground.
SPAN = 1.2
TILT, RATE = 0.4, 1.0
GRAVITY = (0.0, 0.0, -9.81)

# The joints between the bars (m) at these times (s), to 18 digits. An independent solution by two
# routes that share no code and agree to 3e-18: all coordinates of the bars with multipliers,
# extrapolated from the midpoint rule in quadruple precision; and the coordinates of these two
# points with three distances, where the spins act as gyroscopic forces, by Gauss collocation with
# 10 stages.
REFERENCE = {
    0.5: (
        (0.251877857085255511, -0.0146188734262301396, -0.544374718048044056),
        (1.13814933633134720, 0.0206147778531638029, -0.696957334661033537),
    ),
    1.0: (
        (0.224673873711724086, -0.183812115265176084, -0.525104519836870075),
        (1.10992136370559127, -0.317275903711916572, -0.617431648206606165),
    ),
    2.0: (
        (0.273861243967009046, 0.0477393345140722927, -0.531715125789172803),
        (1.15527842892331472, -0.0259037750799045643, -0.698089518268998723),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    radius: Numbers = RADIUS,
    span: Numbers = SPAN,
    tilt: Numbers = TILT,
    rate: Numbers = RATE,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The loop, with 12 constraints, 3 in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` (3,), kg, and `length` (3,), m, of the
    bars, and `radius` of all, m; `span` between the joints on the ground, m, another than the
    length of the middle bar; at the start, `tilt` about x from the vertical, rad, and `rate` at
    which all turns about x, rad/s; `gravity` (3,), m/s².
    """
    mass, length, radius, span, tilt, rate = (
        jnp.asarray(x, float) for x in (mass, length, radius, span, tilt, rate)
    )
    points = _trapezoid(length, span)
    start = placement.motion(lambda turn: _place(turn, points), tilt, rate)
    x = jnp.asarray([1.0, 0.0, 0.0])
    bodies, joints = [], []
    parent, parent_point = "ground", jnp.zeros(3)
    for i in range(3):
        name, half = f"bar {i + 1}", 0.5 * length[i] * x
        inertia = solids.cylinder(mass[i], radius, length[i], x)
        motion = (part[i] for part in start)
        bodies.append(lie_jax.Body(name, mass[i], inertia, (0.0, 0.0, 0.0), *motion))
        joints.append(lie_jax.SphericalJoint(parent, name, parent_point, -half))
        parent, parent_point = name, half
    joints.append(lie_jax.SphericalJoint(parent, "ground", parent_point, span * x))
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _trapezoid(length: Float[Array, "3"], span: Array) -> Float[Array, "4 3"]:
    """The four joints (m) in the plane of x and z, with the middle bar level and below."""
    beyond = span - length[1]
    ahead = (length[0] ** 2 - length[2] ** 2 + beyond**2) / (2.0 * beyond)
    depth = jnp.sqrt(length[0] ** 2 - ahead**2)
    zero = jnp.zeros(())
    along = jnp.stack([zero, ahead, ahead + length[1], span])
    return jnp.stack([along, jnp.zeros(4), jnp.stack([zero, -depth, -depth, zero])], axis=1)


def _place(turn: Array, points: Float[Array, "4 3"]) -> tuple[Array, Array]:
    """Rotations (3, 3, 3) and positions (3, 3) of the body frames of the turned loop."""
    tilted = lie_jax.groups.so3.exp(turn * jnp.asarray([1.0, 0.0, 0.0]))
    bars, y = points[1:] - points[:-1], jnp.asarray([0.0, 1.0, 0.0])
    rotations = []
    for bar in bars:
        along = bar / jnp.sqrt(small.dot(bar, bar))
        rotations.append(tilted @ jnp.stack([along, y, small.cross(along, y)], axis=1))
    return jnp.stack(rotations), (points[1:] + points[:-1]) @ (0.5 * tilted.T)


def joint_points(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], length: Numbers = LENGTH
) -> Float[Array, "2 3"]:
    """World positions (2, 3) of the ends of the middle bar, m."""
    rotation, position = system.poses(q)
    half = 0.5 * jnp.asarray(length, float)[1] * rotation[1, :, 0]
    return jnp.stack([position[1] - half, position[1] + half])
