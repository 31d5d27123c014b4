"""A dual-spin satellite: a platform and a fast rotor on a hinge with viscous friction, in space.

The frames of platform and rotor lie in their common centre of mass, with z along the hinge. The
rotor is symmetric about z, so that only its axial inertia I and its momentum about the axis
h = I (ω_z + Ω) matter, with Ω the rotor's speed against the platform and d the friction:
ḣ = -d Ω, and with J the inertia of all but for the rotor's axial part,
J ω̇ + ω × (J ω + h z) = d Ω z. Without friction this is a gyrostat.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from models import attitude
from models.fixed_point import Numbers
from models.satellite import Table

# Neither mass moves the satellite, whose centre of mass stays in place.
PLATFORM_MASS, ROTOR_MASS = 400.0, 60.0
# Of the platform. With the rotor's transverse inertia J is ((90, 1.5, -2), (1.5, 110, 1),
# (-2, 1, 75)) kg m².
INERTIA = ((83.0, 1.5, -2.0), (1.5, 103.0, 1.0), (-2.0, 1.0, 75.0))
ROTOR_AXIAL_INERTIA, ROTOR_TRANSVERSE_INERTIA = 12.0, 7.0
DAMPING = 0.05
OMEGA_BODY = (0.05, -0.04, 0.1)
ROTOR_SPEED = 10.0

# Angular velocity of the platform (body components, rad/s), momentum of the rotor about its axis
# (kg m²/s) and orientation of the platform (unit quaternion) at these times (s), to 17 digits. Two
# solutions that share no code agree to 4e-18 of the largest number: the equations above with a
# quaternion, by extrapolation in 113 bits; and the first integral J ω + h z = Rᵀ H, which leaves a
# differential equation of the rotation matrix and of h, by Gauss collocation of order 16 in 64.
REFERENCE = {
    10.0: (
        *(-6.80658094646426132e-3, -5.98793465848839501e-2, 0.163502534443972761),
        116.317824592191853,
        *(0.789632404179850178, 8.78558974450874095e-4),
        *(-9.25012200576195742e-3, 0.613509844783404154),
    ),
    100.0: (
        *(-3.49072789562432552e-2, 6.50791648514023960e-2, 0.622917941253549140),
        81.5415771137436630,
        *(0.921611174190645084, 4.28013305973095543e-2),
        *(3.58316836336567821e-2, 0.384079393034848708),
    ),
}
# The same without friction, `damping=0.0`.
REFERENCE_UNDAMPED = {
    10.0: (
        *(1.52695107143794724e-2, -5.88444587343377475e-2, 9.90300239223660934e-2),
        121.2,
        *(0.879119975897726324, 2.60542888368028453e-3),
        *(-8.82356107135158480e-3, 0.476511725446429387),
    ),
    100.0: (
        *(5.14498859314581058e-2, -3.84314980521054655e-2, 0.100033435763794786),
        121.2,
        *(0.258069455689867815, -3.21523786943985371e-2),
        *(3.09276346509888876e-2, -0.965095778666098141),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    inertia: Table = INERTIA,
    rotor_axial_inertia: Numbers = ROTOR_AXIAL_INERTIA,
    damping: Numbers = DAMPING,
    omega_body: Numbers = OMEGA_BODY,
    rotor_speed: Numbers = ROTOR_SPEED,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The satellite as a system, with five constraints or in joint coordinates, and its initial
    state.

    **Arguments:** `formulation`: default `Minimal()`; `inertia` (3, 3) of the platform and
    `rotor_axial_inertia` of the rotor, kg m²; `damping` d of the hinge, N m s/rad; at the start,
    `omega_body` (3,), the platform's angular velocity, rad/s, and `rotor_speed`, the rotor's
    against the platform, rad/s. The bodies are `"platform"` and `"rotor"`.
    """
    axial, omega, speed = (
        jnp.asarray(x, float) for x in (rotor_axial_inertia, omega_body, rotor_speed)
    )
    x, y, z = jnp.eye(3)
    rotor = jnp.diag(axial * z + ROTOR_TRANSVERSE_INERTIA * (x + y))
    bodies = [
        lie_jax.Body("platform", PLATFORM_MASS, jnp.asarray(inertia, float), omega_body=omega),
        lie_jax.Body("rotor", ROTOR_MASS, rotor, omega_body=omega + speed * z),
    ]
    joints = [lie_jax.RevoluteJoint("platform", "rotor", z)]
    forces = [lie_jax.ViscousFriction("platform", "rotor", damping)]
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal() if formulation is None else formulation)


def observe(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"], v: Float[Array, " nv"]
) -> Float[Array, "8"]:
    """Angular velocity of the platform (rad/s), momentum of the rotor (kg m²/s), quaternion."""
    omega = system.twists(q, v)[:, 3:]
    axial = system.bodies.inertia[system.slots[1], 2, 2]
    momentum = axial * omega[1, 2]
    return jnp.concatenate([omega[0], momentum[None], attitude.quaternion(system, q)])
