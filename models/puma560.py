"""The Puma 560 manipulator of [S3] 4.4: six hinges, and PD controllers or motors that move them.

Standard Denavit-Hartenberg frames: frame i follows from frame i - 1 by Rz(q) Tz(d) Tx(a) Rx(α), so
that joint i turns link i about the z axis of frame i - 1; frame 0 is the world's. Body frames are
parallel to these link frames and lie at the centres of mass.

Two numbers do not act on the motion and are chosen: the mass of link 1, whose centre of mass rests,
and its moments of inertia across its axis y, about which it turns. One pair is shifted: the printed
moments of link 3, (0.066, 0.086, 0.0125), belong to no distribution of mass, for the largest
exceeds the sum of the others. Its axes x and z stay in the vertical plane, so 0.01 kg m² about both
of them add 0.01 kg m² about the vertical at any angle, which link 1 has less of: the motion and the
torques of the controllers are those of the printed numbers. Neither friction nor the inertia of
motors is in the model.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax.numerics.conversion import as_float
from models import placement
from models.fixed_point import Numbers

Rows = ArrayLike | Sequence[Sequence[float]]

# d and a in m, α in rad.
OFFSET = (0.0, 0.0, 0.15005, 0.4318, 0.0, 0.0)
LENGTH = (0.0, 0.4318, 0.0203, 0.0, 0.0, 0.0)
TWIST = (0.5 * np.pi, 0.0, -0.5 * np.pi, 0.5 * np.pi, -0.5 * np.pi, 0.0)
MASS = (10.0, 17.4, 4.8, 0.82, 0.34, 0.09)
# In link frames, and principal moments about them.
CENTER_OF_MASS = (
    (0.0, 0.0, 0.0),
    (-0.3638, 0.006, 0.2275),
    (-0.0203, -0.0141, 0.07),
    (0.0, 0.019, 0.0),
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.032),
)
SHIFTED = 0.01
INERTIA = (
    (0.35, 0.35 - SHIFTED, 0.35),
    (0.13, 0.524, 0.539),
    (0.066 + SHIFTED, 0.086, 0.0125 + SHIFTED),
    (0.0018, 0.0013, 0.0018),
    (0.0003, 0.0004, 0.0003),
    (0.00015, 0.00015, 0.00004),
)
# [S3] (45), Tables 9 and 10.
ANGLES = tuple(np.deg2rad((0.0, 22.5, 90.0, 0.0, 22.5, 0.0)).tolist())
ACCELERATION = (-8.3776, 4.1888, -13.9626, 6.2832, 6.2832, 3.1416)
SWITCH = 0.5
PROPORTIONAL = (40_000.0, 40_000.0, 40_000.0, 100.0, 100.0, 10.0)
DERIVATIVE = (400.0, 400.0, 100.0, 1.0, 1.0, 0.1)
GRAVITY = (0.0, 0.0, -9.81)

# Joint angles (rad), to 15 digits after the point, and their rates (rad/s) at these times (s): an
# independent solution in extended precision, found by two routes that share no code.
REFERENCE = {
    0.1: (
        (
            *(-4.132509630314046174e-02, 4.127999994031765242e-01, 1.501329207595673357e00),
            *(3.127707540813203688e-02, 4.245223039286498042e-01, 1.565159647940035452e-02),
        ),
        (
            *(-8.380169905715314285e-01, 4.189044100368650776e-01, -1.396228542686096733e00),
            *(6.286379945971736241e-01, 6.283413721887705315e-01, 3.142334553580736172e-01),
        ),
    ),
    0.5: (
        (
            *(-1.046991139386689126e00, 9.155954935368917717e-01, -1.743724627411395152e-01),
            *(7.854072399855124680e-01, 1.178055738535797219e00, 3.928244410965147510e-01),
        ),
        (
            *(-4.189668919772181122e00, 2.094649507117377146e00, -6.982827873527312305e00),
            *(3.141631968401913607e00, 3.137888979872717645e00, 1.571325127060941021e00),
        ),
    ),
    1.0: (
        (
            *(-2.094799573719561714e00, 1.439911613909177356e00, -1.919984656634292339e00),
            *(1.570929410899876351e00, 1.963807380648520781e00, 7.853781774740816760e-01),
        ),
        (
            *(-7.910172563487266397e-06, 4.798398819621828053e-05, -4.183423609204389276e-06),
            *(1.815361799168550607e-05, 3.091367393919964959e-05, 4.549091752505612995e-06),
        ),
    ),
}
# Torques (N m) in the joints for given angles, rates and accelerations, of the same origin: what
# the controllers would have to exert for this motion.
INVERSE_DYNAMICS = {
    "angles": (
        *(0.345584192064786000, 0.821618143501158400, 0.330437076183387140),
        *(-1.30315723160436100, 0.905355866673117700, 0.446374572364011300),
    ),
    "rates": (
        *(-0.536953235360285200, 0.581118104196353100, 0.364572396186075730),
        *(0.294132496655526000, 0.0284222413157967900, 0.546712986612446900),
    ),
    "accelerations": (
        *(-0.736454087001666900, -0.162909947993052780, -0.482119312679978260),
        *(0.598846212634627600, 0.0397221074816589900, -0.292456750965088600),
    ),
    "torques": (
        *(-1.12471974039256159, 16.6528522770595936, -7.95525224273750826),
        *(-0.0189423497828531093, -0.0109582113200886215, 0.0000401197139436440497),
    ),
}


class AccelerateAndBrake(eqx.Module):
    """A command with a constant acceleration (rad/s²) from rest at `start` (rad) and, after the
    time `switch` (s), its opposite for as long. Then it rests. [S3] Table 9
    """

    start: Float[Array, "..."] = eqx.field(converter=as_float)
    acceleration: Float[Array, "..."] = eqx.field(converter=as_float)
    switch: Float[Array, "..."] = eqx.field(converter=as_float)

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The angle at a time."""
        t = jnp.minimum(t, 2.0 * self.switch)
        braked = jnp.maximum(t - self.switch, 0.0)
        return self.start + self.acceleration * (0.5 * t * t - braked * braked)


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    mass: Numbers = MASS,
    center_of_mass: Rows = CENTER_OF_MASS,
    inertia: Numbers | None = None,
    offset: Numbers = OFFSET,
    length: Numbers = LENGTH,
    twist: Numbers = TWIST,
    angles: Numbers = ANGLES,
    rates: Numbers = (0.0,) * 6,
    acceleration: Numbers = ACCELERATION,
    switch: Numbers = SWITCH,
    commands: Sequence[Callable] | None = None,
    proportional: Numbers = PROPORTIONAL,
    derivative: Numbers = DERIVATIVE,
    gravity: Numbers = GRAVITY,
    motors: bool = False,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The robot as a system, with 30 constraints or in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; of the links, `mass` (6,), kg, `center_of_mass`
    (6, 3) in link frames, m, `inertia` (6, 3, 3) about them, kg m²; Denavit-Hartenberg parameters
    `offset` d (6,), m, `length` a (6,), m, and `twist` α (6,), rad; `angles` (6,), rad, at which
    motion and commands start, and `rates` (6,), rad/s, of the motion there; of the commands,
    `acceleration` (6,), rad/s², and the time `switch` from which they brake, s, or instead six
    `commands` of your own, the references of the controllers; of these, `proportional` (6,),
    N m/rad, and `derivative` (6,), N m s/rad; `gravity` (3,), m/s²; with `motors` inputs take the
    controllers' place: u (6,), N m, are the torques in the joints.
    """
    if inertia is None:
        inertia = jnp.stack([jnp.diag(jnp.asarray(i)) for i in INERTIA])
    mass, inertia, center, angles, rates, acceleration, proportional, derivative = (
        jnp.asarray(x, float)
        for x in (
            *(mass, inertia, center_of_mass, angles, rates),
            *(acceleration, proportional, derivative),
        )
    )
    homes = _homes(*(jnp.asarray(x, float) for x in (offset, length, twist)))
    start = placement.motion(lambda q: _place(q, homes, center), angles, rates)
    bodies, joints, forces = [], [], []
    z = jnp.asarray((0.0, 0.0, 1.0))
    parent, origin = "ground", jnp.zeros(3)
    for i, (rotation, position) in enumerate(zip(*homes, strict=True)):
        name = f"link {i + 1}"
        orientation = lie_jax.groups.quaternion.from_matrix(rotation)
        own = -rotation.T @ position - center[i]
        bodies.append(
            lie_jax.Body(name, mass[i], inertia[i], (0.0, 0.0, 0.0), *(part[i] for part in start))
        )
        joint = lie_jax.RevoluteJoint(parent, name, z, origin, own, orientation)
        joints.append(joint)
        command = (
            AccelerateAndBrake(angles[i], acceleration[i], switch)
            if commands is None
            else commands[i]
        )
        forces.append(
            lie_jax.JointMotor(joint, input=i)
            if motors
            else lie_jax.JointController(
                joint, reference=command, proportional=proportional[i], derivative=derivative[i]
            )
        )
        parent, origin = name, -center[i]
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _homes(offset: Array, length: Array, twist: Array) -> lie_jax.extend.BodyPose:
    """Poses of the frames in those before at zero angles: (6, 3, 3) and (6, 3)."""
    x = jnp.asarray((1.0, 0.0, 0.0))
    rotation = jax.vmap(lambda alpha: lie_jax.groups.so3.exp(alpha * x))(twist)
    return lie_jax.extend.BodyPose(
        rotation, jnp.stack([length, jnp.zeros_like(length), offset], axis=1)
    )


def _place(q: Array, homes: lie_jax.extend.BodyPose, center: Array) -> tuple[Array, Array]:
    """Rotations (6, 3, 3) and positions (6, 3) of the body frames."""
    rotation, position = jnp.eye(3), jnp.zeros(3)
    rotations, positions = [], []
    for i in range(6):
        turned = rotation @ lie_jax.groups.so3.exp(jnp.stack([0.0 * q[i], 0.0 * q[i], q[i]]))
        position = position + turned @ homes.position[i]
        rotation = turned @ homes.rotation[i]
        rotations.append(rotation)
        positions.append(position + rotation @ center[i])
    return jnp.stack(rotations), jnp.stack(positions)


def joint_angles(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "6"]:
    """Angles (6,) of the joints, rad; in absolute coordinates between -π and π.

    In absolute coordinates turns are not counted; those of the paper's motion stay within ±2.1 rad.
    """
    return jnp.concatenate(list(system.joint_coordinates(q).values()))


def motor_torques(
    system: lie_jax.extend.AbstractMultibodySystem,
    t: Float[Array, ""],
    q: Float[Array, " 6"],
    v: Float[Array, " 6"],
) -> Float[Array, "6"]:
    """Torques (6,) of the controllers, N m.

    Raises `ValueError` in absolute coordinates, which hold no angles.
    """
    if system.nc:
        raise ValueError(
            f"puma560.motor_torques got a {type(system).__name__}; torques are read in joint "
            "coordinates: build the robot with lie_jax.Minimal()."
        )
    controllers = system.forces[0].element

    def references(t):
        return jax.vmap(lambda controller: controller.reference(t))(controllers)

    angles, rates = jax.jvp(references, (t,), (jnp.ones_like(t),))
    return controllers.proportional * (angles - q) + controllers.derivative * (rates - v)
