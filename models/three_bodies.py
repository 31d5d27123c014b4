"""Three bodies and two revolute joints, free of forces: the example of [S1] Section VI.

Spheres of 10 kg and 1 m radius that touch each other, L-shaped. Body frames lie at the centres and
are parallel to the inertial frame at the start. The first body is the base; joint 1 turns the
second one about the axis +y through the centre of the first, joint 2 the third one about -x through
the centre of the second. The paper gives neither place nor sense of the axes in words: these are
the ones that lead to its tables.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models.fixed_point import Numbers

MASS = 10.0
RADIUS = 1.0
AXES = ((0.0, 1.0, 0.0), (-1.0, 0.0, 0.0))
# [S1] Tables VI to VIII start with the joints turning, Figs. 7 and 8 with the base moving, too.
JOINT_RATES = (0.4, 0.4)
BASE_TWIST = (0.1, 0.1, 0.1, 0.3, 0.3, 0.3)

# Motion from rest of the base, with JOINT_RATES: pose and twist of the base and joint coordinates
# at these times (s). An independent solution in extended precision, found by two routes that share
# no code.
REFERENCE = {
    1.0: {
        "R": (
            (0.9976893694009945054108, 0.06793832242761363775207, 0.0005536514856283495150811),
            (-0.06793958676115406285115, 0.9975976546329075016122, 0.01353262803914397038425),
            (0.0003670626234694615978181, -0.01353897398785505369389, 0.9999082765175947056932),
        ),
        "r": (0.1613950022689679915396, 0.1428477669388685047269, -0.04211047593184719264651),
        "q": (0.3896269701353033476380, 0.4061172279841298689650),
        "V": (
            *(0.2930515861630982423471, 0.2999156826261058516826, -0.1206490786445697383549),
            *(-0.03966004309687161044744, 0.0, -0.1316756015041768563430),
        ),
        "qd": (0.3689414591513245970119, 0.4180524527955328324429),
    },
    10.0: {
        "R": (
            (-0.2009958490232540758147, 0.7376735044769579196200, 0.6445451648008111445975),
            (-0.5862397327580922449819, -0.6177211027572577921252, 0.5241599135226557422948),
            (0.7848080302922121858630, -0.2725040183209064237422, 0.5566128956355729782418),
        ),
        "r": (0.7265833958709380889781, 0.9079185948142642302912, -9.340102325487374156075),
        "q": (-0.3178028285041969605043, 5.066908427853923766742),
        "V": (
            *(-0.2056899084889501852092, 0.2261986408219417834774, -0.8946641251568598267917),
            *(0.007936325226676954608723, 0.0, -0.1955488237123474291094),
        ),
        "qd": (-0.4864921427436418324197, 0.3347625177134086518829),
    },
}
# Kinetic energy (J), momentum (kg m/s) and angular momentum about the origin (kg m²/s) of it.
INVARIANTS = (16.96, (0.0, 0.0, -24.0), (-33.6, 51.2, 0.0))


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    base_twist: Numbers = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    joint_rates: Numbers = JOINT_RATES,
    mass: Numbers = MASS,
    radius: Numbers = RADIUS,
    gravity: Numbers = (0.0, 0.0, 0.0),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The bodies as a system and their initial state.

    **Arguments:** `formulation`: default `Minimal()`; `base_twist` (6,): initial body-fixed twist
    of the first body, translation first, m/s and rad/s; `joint_rates` (2,), rad/s; `mass` in kg and
    `radius` in m of each sphere; `gravity` (3,), m/s².
    """
    base_twist, rates, mass, radius, gravity = (
        jnp.asarray(x, float) for x in (base_twist, joint_rates, mass, radius, gravity)
    )
    inertia = 0.4 * mass * radius**2 * jnp.eye(3)
    along = 2.0 * radius * jnp.eye(3)
    velocity, omega = base_twist[:3], base_twist[3:]
    position = jnp.zeros(3)
    bodies, joints = [_body(1, mass, inertia, position, velocity, omega)], []
    for i, (axis, arm) in enumerate(zip(jnp.asarray(AXES), (along[0], along[1]), strict=True)):
        omega = omega + rates[i] * axis
        position, velocity = position + arm, velocity + jnp.cross(omega, arm)
        bodies.append(_body(i + 2, mass, inertia, position, velocity, omega))
        joints.append(
            lie_jax.RevoluteJoint(bodies[-2].name, bodies[-1].name, axis, child_point=-arm)
        )
    formulation = lie_jax.Minimal() if formulation is None else formulation
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, (), gravity), formulation)


def _body(
    number: int,
    mass: Float[Array, ""],
    inertia: Float[Array, "3 3"],
    position: Float[Array, "3"],
    velocity: Float[Array, "3"],
    omega: Float[Array, "3"],
) -> lie_jax.Body:
    return lie_jax.Body(
        f"body {number}", mass, inertia, position=position, velocity=velocity, omega_body=omega
    )
