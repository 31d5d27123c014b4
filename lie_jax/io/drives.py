"""Motors, servos, springs and dampers of a file's joints, and forces that carry weights."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lie_jax.io.compiled import CompiledFile
from lie_jax.io.imported import ImportedActuator
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.forces.bushing import Bushing
from lie_jax.mechanics.forces.controllers import PDController, PrismaticPDController
from lie_jax.mechanics.forces.loads import PointForce, ViscousFriction
from lie_jax.mechanics.forces.motors import PrismaticMotor, RevoluteMotor
from lie_jax.mechanics.forces.springs import TorsionalSpringDamper


class Servo(NamedTuple):
    """Law of a servo: force = gain · control + constant - proportional · x - derivative · ẋ, with x
    the file's coordinate of the joint.
    """

    constant: float
    proportional: float
    derivative: float


def servo(file: CompiledFile, actuator: int) -> Servo | None:
    """Law of an actuator of a joint, all zero for one that exerts its control; None for laws that
    are not imported.
    """
    model, mujoco = file.model, file.mujoco
    if np.any(np.asarray(getattr(model, "actuator_delay", np.zeros(0)))[actuator : actuator + 1]):
        return None
    is_fixed = model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    if not is_fixed or model.actuator_dyntype[actuator] != mujoco.mjtDyn.mjDYN_NONE:
        return None
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE:
        return Servo(0.0, 0.0, 0.0)
    if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE:
        return None
    gear = float(model.actuator_gear[actuator, 0])
    constant, by_length, by_rate = (float(x) for x in model.actuator_biasprm[actuator, :3])
    proportional, derivative = -(gear**2) * by_length, -(gear**2) * by_rate
    # Controllers have no negative gains, and no constant force.
    if proportional < 0.0 or derivative < 0.0 or (constant and not proportional):
        return None
    return Servo(gear * constant, proportional, derivative)


def passive(file: CompiledFile, joint: int, mount: Any) -> Iterator[AbstractForce]:
    """Spring and damper of a joint."""
    model, kind = file.model, file.kind(joint)
    stiffness, damping = file.stiffness(joint), file.damping(joint)
    relaxed = model.qpos_spring[model.jnt_qposadr[joint]] - file.zero(joint)
    ends, axis = (mount.parent, mount.child), mount.axis
    if kind == "ball" and damping:
        yield ViscousFriction(*ends, damping)
    elif kind == "hinge" and (stiffness or damping):
        turn = mount.orientation
        yield TorsionalSpringDamper(*ends, axis, stiffness, damping, relaxed, turn)
    elif kind == "slide" and (stiffness or damping):
        along, none = np.outer(axis, axis), np.zeros(3)
        relaxed_point = mount.parent_point + relaxed * axis
        points = relaxed_point, mount.child_point, mount.orientation
        yield Bushing(*ends, stiffness * along, none, damping * along, none, *points)


def compensation(file: CompiledFile, bodies: Iterable[int]) -> Iterator[PointForce]:
    """Forces that carry weights of moving bodies, in part or more, as `gravcomp` states."""
    model, data = file.model, file.data
    if file.disables("GRAVITY"):
        return
    for body in bodies:
        parts = np.flatnonzero(model.body_weldid == body)
        carried = model.body_gravcomp[parts] * model.body_mass[parts]
        total = carried.sum()
        if carried.any():
            origin, axes = file.pose(body)
            # Weights that cancel have no common point.
            center = carried @ data.xipos[parts] / total
            point = axes.T @ (center - origin)
            yield PointForce(file.name("body", body), -total * model.opt.gravity, point)


class Drives(NamedTuple):
    """Forces of all motors and servos, and the actuators in the order of the inputs."""

    forces: list[AbstractForce]
    actuators: tuple[ImportedActuator, ...]


def drives(
    file: CompiledFile, mounts: Mapping[int, Any], of_joints: Iterable[int] | None
) -> Drives:
    """Motors of the file's actuators, or of these joints for a file without actuators."""
    chosen: list[tuple[int | None, int]] = []
    if of_joints is None:
        for i in range(file.count("actuator")):
            joint = file.driven(i)
            if joint is not None and file.kind(joint) in ("hinge", "slide") and not file.is_off(i):
                chosen.append((i, joint))
    else:
        chosen += ((None, joint) for joint in of_joints if file.kind(joint) != "ball")
    forces, actuators = [], []
    for number, (i, joint) in enumerate(chosen):
        mount, is_hinge = mounts[joint], file.kind(joint) == "hinge"
        ends = mount.parent, mount.child, mount.axis
        points = mount.parent_point, mount.child_point
        if is_hinge:
            forces.append(RevoluteMotor(*ends, number))
        else:
            forces.append(PrismaticMotor(*ends, number, *points))
        if i is None:
            actuators.append(_motor_of(file, joint))
            continue
        law = servo(file, i)
        actuators.append(_actuator(file, i, joint, law))
        if law is not None and (law.proportional or law.derivative):
            held = law.constant / law.proportional if law.proportional else 0.0
            gains = held - file.zero(joint), law.proportional, law.derivative
            if is_hinge:
                forces.append(PDController(*ends, *gains, mount.orientation))
            else:
                forces.append(PrismaticPDController(*ends, *gains, *points))
    return Drives(forces, tuple(actuators))


def limits(is_limited: Any, bounds: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest value, infinite where there are no limits."""
    lower, upper = sorted(bounds) if is_limited else (-np.inf, np.inf)
    return float(lower), float(upper)


def _motor_of(file: CompiledFile, joint: int) -> ImportedActuator:
    """Actuator of a joint itself, within the joint's limits of force."""
    model, name = file.model, file.name("joint", joint)
    bounds = limits(model.jnt_actfrclimited[joint], model.jnt_actfrcrange[joint])
    return ImportedActuator(name, name, 1.0, bounds)


def _actuator(file: CompiledFile, i: int, joint: int, law: Servo | None) -> ImportedActuator:
    model, motor = file.model, _motor_of(file, joint)
    gear = float(model.actuator_gear[i, 0])
    gain = gear * float(model.actuator_gainprm[i, 0])
    name = file.name("actuator", i)
    of_control = limits(model.actuator_ctrllimited[i] and law, gain * model.actuator_ctrlrange[i])
    if law is not None and (law.proportional or law.derivative):
        # The input of a servo is a part of its force.
        return ImportedActuator(name, motor.joint, gain, of_control, *law[1:])
    of_force = limits(model.actuator_forcelimited[i], gear * model.actuator_forcerange[i])
    lower, upper = zip(motor.limits, of_force, of_control, strict=True)
    return ImportedActuator(name, motor.joint, gain, (max(lower), min(upper)))
