"""A satellite with a manipulator of five hinges, free in space and at rest at the start.

The base's frame lies at its centre of mass. The arm starts at `SHOULDER` and, with all angles zero,
points along the base's x axis; hinges turn about z, y, y, x and y. Shoulder and wrist have two
hinges in one place. Links are square rods, their frames mid-link and parallel to the base's at
angles of zero; the links without a length are cubes. Motors turn the hinges by given torques. As
nothing acts from outside, momentum and angular momentum stay zero: the base turns against the arm,
and a closed path of the arm leaves it turned.

All numbers are chosen; torques keep the wrist, of some grams times m², from spinning fast.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax import solids
from models import attitude, driven, placement
from models.fixed_point import Numbers

BASE_MASS = 200.0
BASE_INERTIA = (60.0, 75.0, 50.0)
SHOULDER = (0.5, 0.0, 0.4)
AXES = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
MASS = (5.0, 12.0, 8.0, 3.0, 2.0)
# From each hinge to the next one.
LENGTH = (0.0, 1.0, 0.8, 0.0, 0.3)
WIDTH = 0.05
ANGLES = (0.0, -0.6, 1.2, 0.0, 1.4)
# Torques are amplitude · sin(2π t / period), N m and s.
AMPLITUDE = (2.0, -3.0, -1.5, 0.005, -0.05)
PERIOD = 10.0

# Position of the base (m), its orientation (unit quaternion) and the angles of the hinges (rad) at
# these times (s), to 15 digits. Two solutions that share no code agree to 4e-16: Hamilton's
# equations of the five angles, from which zero momentum removes the base, by extrapolation in 113
# bits; and Newton's and Euler's equations of six bodies with 25 multipliers, by Gauss collocation
# of order 16 in 64 bits.
REFERENCE = {
    1.0: (
        *(-3.39001464247470925e-4, -6.85638823128627685e-4, -1.03545751761198762e-3),
        *(0.999992636107603032, 7.99751495492556652e-4),
        *(2.56512804273627593e-3, -2.74011792389481838e-3),
        *(1.89345227100666609e-2, -0.615714801136426065, 1.18396701534126602),
        *(-6.49700962159117512e-2, 1.33103805672388550),
    ),
    5.0: (
        *(6.29570424031030070e-2, -2.76919038830087971e-2, -2.11497224568721908e-2),
        *(0.966571305279771152, 2.54809189541263745e-3),
        *(0.194241453231314052, -0.167342991738642012),
        *(2.06795509763164794, -0.586299468205743041, -1.29221642658587223),
        *(2.05438547718391206, 1.67234013192005710),
    ),
    10.0: (
        *(0.102590449458323602, 6.47699652533361270e-2, 0.185140065972433628),
        *(0.821510103030225682, -0.100665431014231031),
        *(0.508645970763973254, -0.237206446041338312),
        *(3.16365267445318402, 2.18877786583383679, 1.70974872347405123),
        *(4.57608761936813097, 1.99426702098986203),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    base_mass: Numbers = BASE_MASS,
    base_inertia: Numbers | None = None,
    mass: Numbers = MASS,
    length: Numbers = LENGTH,
    width: Numbers = WIDTH,
    angles: Numbers = ANGLES,
    amplitude: Numbers = AMPLITUDE,
    period: Numbers = PERIOD,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The robot as a system, in joint coordinates or with 25 constraints, and its initial state.

    **Arguments:** `formulation`: default `Minimal()`; `base_mass`, kg, and `base_inertia` (3, 3)
    about the centre of mass, kg m²; of the links, `mass` (5,), kg, `length` (5,) from hinge to
    hinge, m, and `width` of their square section, m; `angles` (5,) of the hinges at the start, rad;
    of the motors' torques, `amplitude` (5,), N m, and `period`, s. The bodies are `"base"` and
    `"link 1"` to `"link 5"`.
    """
    mass, length, width, angles, amplitude, period = (
        jnp.asarray(x, float) for x in (mass, length, width, angles, amplitude, period)
    )
    if base_inertia is None:
        base_inertia = jnp.diag(jnp.asarray(BASE_INERTIA))
    position, orientation = placement.motion(
        lambda angles: _place(angles, length), angles, jnp.zeros(5)
    )[:2]
    bodies = [lie_jax.Body("base", base_mass, base_inertia)]
    joints, forces = [], []
    parent, parent_point, x = "base", jnp.asarray(SHOULDER), jnp.eye(3)[0]
    for i, axis in enumerate(jnp.asarray(AXES)):
        name, half = f"link {i + 1}", 0.5 * length[i] * x
        sides = jnp.stack([jnp.maximum(length[i], width), width, width])
        inertia = solids.box(mass[i], sides)
        bodies.append(
            lie_jax.Body(name, mass[i], inertia, position=position[i], orientation=orientation[i])
        )
        joints.append(lie_jax.RevoluteJoint(parent, name, axis, parent_point, -half))
        torque = driven.Sine(amplitude[i], 2.0 * jnp.pi / period)
        forces.extend(driven.motor(parent, name, axis, torque))
        parent, parent_point = name, half
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal() if formulation is None else formulation)


def _place(angles: Float[Array, "5"], length: Float[Array, "5"]) -> tuple[Array, Array]:
    """Rotations (5, 3, 3) and positions (5, 3) of the links, seen from the base."""
    rotation, hinge, x = jnp.eye(3), jnp.asarray(SHOULDER), jnp.eye(3)[0]
    rotations, positions = [], []
    for i, axis in enumerate(jnp.asarray(AXES)):
        rotation = rotation @ lie_jax.groups.so3.exp(angles[i] * axis)
        along = length[i] * (rotation @ x)
        rotations.append(rotation)
        positions.append(hinge + 0.5 * along)
        hinge = hinge + along
    return jnp.stack(rotations), jnp.stack(positions)


def observe(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "12"]:
    """Position of the base (m), its quaternion, and the angles of the hinges (rad).

    In absolute coordinates angles lie between -π and π.
    """
    angles = jnp.concatenate(list(system.joint_coordinates(q).values()))
    return jnp.concatenate([system.poses(q)[1][0], attitude.quaternion(system, q), angles])
