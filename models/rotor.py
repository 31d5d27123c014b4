"""The high-speed rotor with flexible supports of [S3] 4.2, Table 6.

A disk on a massless axis along body x, turning with 200 000 revolutions a minute. The body frame
lies at the centre of mass, at the world origin at the start. Springs and dampers act on the
inertial displacement of two points of the axis: the left one in x, y and z, the right one in y and
z. The only load is the torque [S3] (44), fixed in the world: the weight's moment about the middle
of the span. `gravity` adds the weight itself, which the paper leaves out.

Table 6 as printed: its moments of inertia and its damping belong to a mass of 1.23308 kg, not to
the printed 1.223 kg.
"""

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from models.fixed_point import Numbers

Rows = ArrayLike | Sequence[Sequence[float]]

MASS = 1.223
INERTIA = (0.001541, 0.000812, 0.000812)
LEFT = 0.11
RIGHT = 0.09
SPIN = 2.0 * math.pi * 200_000 / 60
STIFFNESS = 4000.0
DAMPING = 5.165093
# [S3] (44): (L/2 - L_L) m g about z, with L = L_L + L_R.
TORQUE = (0.0, 0.0, (0.5 * (LEFT + RIGHT) - LEFT) * MASS * 9.81)
GRAVITY = (0.0, 0.0, 0.0)
WEIGHT = (0.0, 0.0, -9.81)

# Left axis point (m) at these times (s), to 17 digits after the point, without gravity and with
# gravity=WEIGHT: an independent solution in extended precision, found by two routes that share no
# code.
REFERENCE = {
    0.01: (-1.09999999927200928e-01, 7.39414225312917410e-08, 4.03201652775715584e-06),
    0.1: (-1.09999999859602057e-01, 4.72514388110766618e-06, 3.70502543191872792e-05),
    0.5: (-1.09999999693637880e-01, 1.01358498969475933e-04, 1.41243345287571656e-04),
    1.0: (-1.10000000412583255e-01, 2.67208459632659440e-04, 9.15642231886962041e-05),
    2.0: (-1.09999999890279003e-01, 1.14227193519571418e-04, -1.43192050666309694e-04),
    4.0: (-1.10000000397315016e-01, 2.78191957895082478e-04, -6.82679927822057190e-05),
}
REFERENCE_WITH_WEIGHT = {
    0.01: (-1.09999999925718767e-01, -5.04270518738609951e-07, -4.47637732777371146e-04),
    0.1: (-1.10000001268229800e-01, -2.96612786502756658e-05, -1.62522258798756519e-03),
    0.5: (-1.10000000104452397e-01, -4.08193293477446923e-05, -1.41589701808129111e-03),
    1.0: (-1.10000000894834117e-01, 1.75689553703286743e-04, -1.12830096884512106e-03),
    2.0: (-1.09999999778205418e-01, 2.57557124408874290e-04, -1.52879368844765039e-03),
    4.0: (-1.10000000795319018e-01, 3.46512306305643657e-04, -1.28963544082464547e-03),
}


def build(
    formulation: lie_jax.extend.AbstractCoordinates | None = None,
    *,
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    left: Numbers = LEFT,
    right: Numbers = RIGHT,
    spin: Numbers = SPIN,
    stiffness: Rows = STIFFNESS,
    damping: Rows = DAMPING,
    torque: Numbers = TORQUE,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The rotor as a system without constraints and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `mass` in kg; `inertia` (3, 3) about the centre
    of mass, kg m²; `left`, `right`: distances of the supports from the centre of mass, m; `spin`:
    initial angular velocity about x, rad/s; `stiffness` in N/m and `damping` in N s/m: one number,
    or what broadcasts to (2, 3), rows for the left and the right support, columns along inertial x,
    y and z, of which the right one's x does not act; `torque` (3,), inertial components, N m;
    `gravity` (3,), m/s²: `WEIGHT` for a rotor with weight. Raises `ValueError` for other shapes.
    """
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else jnp.asarray(inertia, float)
    ahead = jnp.asarray((1.0, 0.0, 0.0))
    body = lie_jax.Body("rotor", mass, inertia, omega_body=ahead * jnp.asarray(spin, float))

    stiffness, damping = _rows("stiffness", stiffness), _rows("damping", damping)

    def support(row, place):
        return lie_jax.CartesianSpringDamper(
            "ground",
            "rotor",
            stiffness=stiffness[row],
            damping=damping[row],
            parent_point=place * ahead,
            child_point=place * ahead,
        )

    forces = [
        support(0, -jnp.asarray(left, float)),
        support(1, jnp.asarray(right, float)),
        lie_jax.Torque("rotor", torque),
    ]
    mechanism = lie_jax.Mechanism([body], forces=forces, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


# Where supports act: the right one holds nothing along x.
_ACTING = ((1.0, 1.0, 1.0), (0.0, 1.0, 1.0))


def _rows(name: str, value: Rows) -> Float[Array, "2 3"]:
    array = jnp.asarray(value, float)
    try:
        array = jnp.broadcast_to(array, (2, 3))
    except ValueError as error:
        raise ValueError(
            f"rotor.build({name}=) has the shape {array.shape}; it must broadcast to (2, 3): give "
            "one number, (3,) along x, y and z, (2, 1) for the two supports, or (2, 3)."
        ) from error
    return jnp.asarray(_ACTING, array.dtype) * array


def observed_point(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """World position (3,) of the left axis point, p₁ of [S3] Fig. 10, m."""
    rotation, position = system.poses(q)
    left_support = system.forces[0].element
    return position[0] + rotation[0] @ left_support.child_point[0]
