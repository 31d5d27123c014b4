"""Two quadrotors that carry a point mass on massless rods of equal length.

The model of T. Lee, K. Sreenath and V. Kumar, "Geometric control of cooperating multiple quadrotor
UAVs with a suspended payload", CDC 2013, with z upwards. A rod ends in the centre of mass of its
vehicle, so that the attitude of the vehicle steers its thrust alone and no rod acts on it. Frames
lie at the centres of mass; thrusts act along the vehicles' z axes. Numbers and controls are chosen,
and nothing keeps the vehicles apart.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax import solids
from models import driven, quadrotor
from models.fixed_point import Numbers
from models.satellite import Table

PAYLOAD_MASS = 0.3
LENGTH = 1.0
# Of both rods against the vertical, one to either side.
TILT = 0.4
# Angular velocities of the rods at the start; their parts along the rods do not matter.
ROD_RATES = ((0.0, 0.2, 0.0), (0.1, 0.0, 0.0))
VELOCITY = (0.1, -0.2, 0.05)
OMEGA_BODY = ((0.1, 0.0, 0.2), (0.0, -0.1, -0.2))
GRAVITY = (0.0, 0.0, -9.81)

# Positions (m) of mass, first and second vehicle at these times (s), to 18 digits. Two solutions
# that share no code agree to 8e-19 m: equations of the rods' directions on S² and of rotation
# matrices, by extrapolation in 113 bits; and Newton's equations of three points with the two rods'
# forces and of quaternions, by Gauss collocation of order 16 in 64.
REFERENCE = {
    0.5: (
        (5.40745761154807898e-2, -0.109686745102955019, 3.31990398719936477e-2),
        (-9.73243080639752780e-2, -0.138400204264048504, 1.02125466337313028),
        (0.287038020127141940, -0.127696152989976805, 1.00551776075614103),
    ),
    1.0: (
        (0.181396877925282499, -0.305344479431697115, 0.200024642906676267),
        (0.462940163684865614, -0.619111842703346075, 1.10682308798102398),
        (8.67744456716616096e-2, -0.125510058688171932, 1.17916006583358155),
    ),
    2.0: (
        (1.14829517332809895, -1.67883695878867281, 0.838684654637037338),
        (1.47193917140908872, -2.59738075896274517, 1.06569093135185887),
        (0.895964442360241334, -0.839610191923429311, 1.32037712498107011),
    ),
}


def first_thrust(t: Float[Array, ""]) -> Float[Array, ""]:
    """Thrust (N) of the first vehicle at a time (s)."""
    return 6.5 + 0.3 * jnp.sin(2.0 * t)


def second_thrust(t: Float[Array, ""]) -> Float[Array, ""]:
    """Thrust (N) of the second vehicle at a time (s)."""
    return 6.4 + 0.2 * jnp.cos(3.0 * t)


def first_torque(t: Float[Array, ""]) -> Float[Array, "3"]:
    """Torque (N m, body components) on the first vehicle at a time (s)."""
    return 1e-3 * jnp.stack([2.0 * jnp.sin(5.0 * t), jnp.cos(4.0 * t), 0.5 + 0.0 * t])


def second_torque(t: Float[Array, ""]) -> Float[Array, "3"]:
    """Torque (N m, body components) on the second vehicle at a time (s)."""
    return 1e-3 * jnp.stack([-jnp.cos(3.0 * t), 2.0 * jnp.sin(6.0 * t), -0.5 + 0.0 * t])


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    payload_mass: Numbers = PAYLOAD_MASS,
    mass: Numbers = quadrotor.MASS,
    inertia: Numbers | None = None,
    length: Numbers = LENGTH,
    tilt: Numbers = TILT,
    rod_rates: Table = ROD_RATES,
    velocity: Numbers = VELOCITY,
    omega_body: Table = OMEGA_BODY,
    thrusts: Sequence[Callable] = (first_thrust, second_thrust),
    torques: Sequence[Callable] = (first_torque, second_torque),
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The mass and the vehicles as a system with two constraints, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `payload_mass` in kg; of each vehicle, `mass`,
    kg, and `inertia` (3, 3), kg m²; `length` of the rods, m; at the start, with the mass at the
    origin and both vehicles level, `tilt` of the rods against the vertical, rad, `rod_rates`
    (2, 3), their angular velocities, inertial components, rad/s, `velocity` (3,) of the mass, m/s,
    and `omega_body` (2, 3) of the vehicles, rad/s; `thrusts`, two functions of the time (s) along
    the vehicles' z axes, N, and `torques`, two that return (3,), body components, N m; `gravity`
    (3,), m/s². The bodies are `"mass"`, `"vehicle 1"` and `"vehicle 2"`.
    """
    payload, length, tilt, rates, velocity, omega = (
        jnp.asarray(x, float) for x in (payload_mass, length, tilt, rod_rates, velocity, omega_body)
    )
    inertia = jnp.diag(jnp.asarray(quadrotor.INERTIA)) if inertia is None else inertia
    x, _, z = jnp.eye(3)
    # A ball that is held at its centre moves as a point, whatever its radius.
    point = solids.sphere(payload, 0.05)
    bodies = [lie_jax.Body("mass", payload, point, velocity=velocity)]
    joints, forces = [], []
    for i, side in enumerate((-1.0, 1.0)):
        name, rod = f"vehicle {i + 1}", length * (side * jnp.sin(tilt) * x + jnp.cos(tilt) * z)
        moving = velocity + jnp.cross(rates[i], rod)
        vehicle = lie_jax.Body(
            name, mass, inertia, position=rod, velocity=moving, omega_body=omega[i]
        )
        bodies.append(vehicle)
        joints.append(lie_jax.DistanceJoint("mass", name, length))
        forces.append(lie_jax.PointForce(name, driven.Along(thrusts[i], z), frame="body"))
        forces.append(lie_jax.Torque(name, torques[i], frame="body"))
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def positions(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3 3"]:
    """World positions of mass, first and second vehicle, m."""
    return system.poses(q)[1]
