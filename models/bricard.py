"""The Bricard mechanism: six bars of a cube's edges, six hinges, one degree of freedom.

A benchmark of IFToMM for redundant constraints: 30 constraints of five bodies, of which 29 are
independent, in every configuration. Solvers that need independent constraints refuse it.

Five bars run along edges of a unit cube from the joint points P0 = (0, 0, 0) over P1 = (1, 0, 0),
P2 = (1, -1, 0), P3 = (1, -1, 1), P4 = (0, -1, 1) to P5 = (0, 0, 1); the ground is the sixth. Hinges
turn about y, z, x, y, z, x, at the start. Body frames lie mid-bar and are parallel to the world's
at the start. With θ_k the angle by which bar k is turned against the bar before, about the axis of
the hinge at P(k-1): θ1 = θ3 = θ5 = a, θ2 = θ4 = b and sin a + sin b + sin a sin b = 0.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models import placement
from models.fixed_point import Numbers

MASS = 1.0
LENGTH = 1.0
WIDTH = 0.1
# Bars as directions, and the axes of the hinges.
EDGES = (
    (1.0, 0.0, 0.0),
    (0.0, -1.0, 0.0),
    (0.0, 0.0, 1.0),
    (-1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
)
AXES = (
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (1.0, 0.0, 0.0),
)
GRAVITY = (0.0, -9.81, 0.0)

# P3 (m) and the angles a and b (rad) at these times (s), to 15 digits: an independent solution in
# extended precision, found by two routes that share no code.
REFERENCE = {
    0.1: (
        (9.999519193049098585e-01, -1.009758459779279243e00, 9.901939264520888519e-01),
        (9.806230711877869627e-03, -9.711000885273922145e-03),
    ),
    0.5: (
        (9.682836791067771679e-01, -1.224625159436333889e00, 7.501466094377668997e-01),
        (2.525288405250523435e-01, -2.012621456093071796e-01),
    ),
    1.0: (
        (5.105014611872197545e-01, -1.649167599394806304e00, 1.401231145531858300e-01),
        (1.035028459518062174e00, -4.806211041771847266e-01),
    ),
    2.0: (
        (-9.693403447776515443e-01, -1.221246894956317402e00, 7.542780107797767584e-01),
        (2.893328205981293379e00, -1.985547377958620456e-01),
    ),
    5.0: (
        (9.999999977380490199e-01, -1.000067257697882987e00, 9.999327400403180044e-01),
        (6.725995973270838185e-05, -6.725543613466807382e-05),
    ),
    10.0: (
        (9.999999638063500020e-01, -1.000269012696163605e00, 9.997309511199205172e-01),
        (2.690488833254366082e-04, -2.689765154928368047e-04),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractCoordinates | None = None,
    *,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    width: Numbers = WIDTH,
    angle: Numbers = 0.0,
    rate: Numbers = 0.0,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The mechanism as a system with 30 constraints of rank 29 and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; of each bar, `mass` in kg, `length` in m and
    `width` of its square section in m; `angle` a at the start, with sin a > -1/2, rad, and its
    `rate`, rad/s; `gravity` (3,), m/s².
    """
    mass, length, width, angle, rate = (
        jnp.asarray(x, float) for x in (mass, length, width, angle, rate)
    )
    start = placement.motion(lambda a: _place(a, length), angle, rate)
    bodies, joints = [], []
    parent, parent_point = "ground", jnp.zeros(3)
    for k, edge in enumerate(jnp.asarray(EDGES)):
        name, half = f"bar {k + 1}", 0.5 * length * edge
        inertia, motion = _inertia(mass, length, width, edge), (part[k] for part in start)
        bodies.append(lie_jax.Body(name, mass, inertia, (0.0, 0.0, 0.0), *motion))
        joints.append(lie_jax.RevoluteJoint(parent, name, AXES[k], parent_point, -half))
        parent, parent_point = name, half
    last = length * jnp.asarray((0.0, 0.0, 1.0))
    joints.append(lie_jax.RevoluteJoint(parent, "ground", AXES[-1], parent_point, last))
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _place(a: Array, length: Array) -> tuple[Array, Array]:
    """Rotations (5, 3, 3) and positions (5, 3) of the body frames."""
    b = -jnp.arcsin(jnp.sin(a) / (1.0 + jnp.sin(a)))
    rotation, end = jnp.eye(3), jnp.zeros(3)
    rotations, positions = [], []
    for axis, edge, angle in zip(AXES[:5], EDGES, (a, b, a, b, a), strict=True):
        rotation = rotation @ lie_jax.groups.so3.exp(angle * jnp.asarray(axis))
        bar = length * (rotation @ jnp.asarray(edge))
        rotations.append(rotation)
        positions.append(end + 0.5 * bar)
        end = end + bar
    return jnp.stack(rotations), jnp.stack(positions)


def _inertia(mass: Array, length: Array, width: Array, edge: Array) -> Float[Array, "3 3"]:
    """Inertia of a bar along an axis of its frame about its middle."""
    along = mass * width**2 / 6.0
    across = mass * (length**2 + width**2) / 12.0
    return jnp.diag(across + (along - across) * edge**2)


def observed_point(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """World position (3,) of the joint point P3 between the third and the fourth bar, m."""
    rotation, position = system.poses(q)
    # The first bar begins at the origin: its centre is half a bar away.
    half = jnp.linalg.norm(position[0]) * jnp.asarray(EDGES[2])
    return position[2] + rotation[2] @ half
