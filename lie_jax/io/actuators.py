"""Actuators of a file, springs and dampers of its joints, and forces that carry weights."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lie_jax.io import tendons
from lie_jax.io.compiled import CompiledFile
from lie_jax.io.imported import ImportedActuator
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.forces.in_joints import JointController, JointMotor, JointSpring
from lie_jax.mechanics.forces.loads import PointForce, Torque, ViscousFriction
from lie_jax.mechanics.forces.tendons import CouplingForce
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint
from lie_jax.numerics.conversion import as_float


class Servo(NamedTuple):
    """Law of a servo: force = gain · control + constant - proportional · x - derivative · ẋ, with x
    the file's coordinate of the joint, or the length of the tendon.
    """

    constant: float
    proportional: float
    derivative: float


def servo(file: CompiledFile, actuator: int) -> Servo | None:
    """Law of an actuator, all zero for one that exerts its control; None for laws that are not
    imported.
    """
    model, mujoco = file.model, file.mujoco
    if np.any(np.asarray(getattr(model, "actuator_delay", np.zeros(0)))[actuator : actuator + 1]):
        return None
    is_fixed = model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
    has_state = model.actuator_dyntype[actuator] != mujoco.mjtDyn.mjDYN_NONE
    is_plugin = model.actuator_plugin[actuator] >= 0
    if not is_fixed or has_state or is_plugin or file.control(actuator) is None:
        return None
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE:
        return Servo(0.0, 0.0, 0.0)
    if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE:
        return None
    if file.target(actuator)[0] == "site":
        return None
    gear = float(model.actuator_gear[actuator, 0])
    constant, by_length, by_rate = (float(x) for x in model.actuator_biasprm[actuator, :3])
    proportional, derivative = -(gear**2) * by_length, -(gear**2) * by_rate
    # Controllers have no negative gains, and no constant force.
    if proportional < 0.0 or derivative < 0.0 or (constant and not proportional):
        return None
    return Servo(gear * constant, proportional, derivative)


def passive(file: CompiledFile, number: int, joint: AbstractJoint) -> Iterator[AbstractForce]:
    """Spring and damper of the joint with this number in the file."""
    model, kind = file.model, file.kind(number)
    stiffness, damping = file.stiffness(number), file.damping(number)
    relaxed = model.qpos_spring[model.jnt_qposadr[number]] - file.zero(number)
    if kind == "ball" and damping:
        yield ViscousFriction(joint.parent, joint.child, damping)
    elif kind in ("hinge", "slide") and (stiffness or damping):
        yield JointSpring(joint, stiffness=stiffness, damping=damping, relaxed=relaxed)


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


def drives(file: CompiledFile, joints: tendons.Joints) -> Drives:
    """Forces of the file's actuators; `joints`: those of the mechanism, by number."""
    forces: list[AbstractForce] = []
    actuators: list[ImportedActuator] = []
    for i in range(file.count("actuator")):
        law = servo(file, i) or Servo(0.0, 0.0, 0.0)
        made = None if file.is_off(i) else _forces(file, joints, i, law, len(actuators))
        if made is not None:
            forces += made
            actuators.append(_actuator(file, i, law))
    return Drives(forces, tuple(actuators))


def motors(file: CompiledFile, joints: tendons.Joints, driven: Iterable[int]) -> Drives:
    """Motors of these joints, of a file that has no actuators."""
    chosen = [joint for joint in driven if file.kind(joint) != "ball"]
    forces: list[AbstractForce] = []
    actuators = []
    for number, joint in enumerate(chosen):
        forces.append(JointMotor(joints[joint], input=number))
        name, bounds = file.name("joint", joint), total_limits(file, "joint", joint)
        actuators.append(ImportedActuator(name, name, 1.0, bounds, force_limits=bounds))
    return Drives(forces, tuple(actuators))


def limits(is_limited: Any, bounds: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest value, infinite where there are no limits."""
    lower, upper = sorted(bounds) if is_limited else (-np.inf, np.inf)
    return float(lower), float(upper)


def total_limits(file: CompiledFile, kind: str, number: int) -> tuple[float, float]:
    """Limits of the force of all actuators of a joint or tendon."""
    prefix = {"joint": "jnt", "tendon": "tendon"}[kind]
    is_limited, bounds = (
        getattr(file.model, f"{prefix}_{field}") for field in ("actfrclimited", "actfrcrange")
    )
    return limits(is_limited[number], bounds[number])


def shares_limits(file: CompiledFile, kind: str, number: int) -> bool:
    """Whether more than one actuator, of the joint or tendon itself, may have a force in it."""

    def acts(actuator: int) -> bool:
        on, part = file.target(actuator)
        if kind == "tendon" or on == "joint":
            return (on, part) == (kind, number)
        rows = tendons.parts(file, part, "JOINT") if on == "tendon" else None
        return rows is None or number in file.model.wrap_objid[rows]

    numbers = range(file.count("actuator"))
    acting = [file.target(i) for i in numbers if not file.is_off(i) and acts(i)]
    return acting not in ([], [(kind, number)])


def keyframe_inputs(
    file: CompiledFile, actuators: Iterable[ImportedActuator]
) -> dict[str, Float[Array, " nu"]]:
    """Inputs of the keyframes, zero for actuators with laws that are not imported."""
    numbers = {file.name("actuator", i): i for i in range(file.count("actuator"))}

    def value(key: int, actuator: ImportedActuator) -> float:
        i = numbers[actuator.name]
        is_known = servo(file, i) is not None
        return actuator.gain * file.model.key_ctrl[key, file.control(i)] if is_known else 0.0

    return {
        file.name("key", key): as_float(np.asarray([value(key, a) for a in actuators], float))
        for key in range(file.count("key"))
    }


def _forces(
    file: CompiledFile, joints: tendons.Joints, i: int, law: Servo, number: int
) -> list[AbstractForce] | None:
    """Forces of an actuator with this number of its input; None for those without a counterpart."""
    kind, part = file.target(i)
    if kind == "site":
        return _at_site(file, i, part, number)
    drive: dict[str, Any] = {"input": number}
    bounds, is_servo = _force_limits(file, i), bool(law.proportional or law.derivative)
    held = law.constant / law.proportional if law.proportional else 0.0
    if is_servo:
        drive |= {"stiffness": law.proportional, "damping": law.derivative}
        drive |= {"limits": bounds} if np.isfinite(bounds).any() else {}
    if kind == "tendon":
        made = tendons.force(file, joints, part, relaxed=np.full(2, held), **drive)
        return None if made is None else [made]
    joint = joints.get(part) if kind == "joint" else None
    if joint is None or len(joint.coordinate_units) != 1:
        return None
    held -= file.zero(part)
    if "limits" in drive:
        return [CouplingForce([joint], [1.0], relaxed=(held, held), **drive)]
    motor = JointMotor(joint, input=number)
    if not is_servo:
        return [motor]
    gains: dict[str, Any] = {"proportional": law.proportional, "derivative": law.derivative}
    return [motor, JointController(joint, reference=held, **gains)]


def _at_site(file: CompiledFile, i: int, site: int, number: int) -> list[AbstractForce] | None:
    body, point, orientation = file.site(site)
    if body == GROUND:
        return None
    turned = np.zeros((2, 3))
    for part, given in zip(turned, file.model.actuator_gear[i].reshape(2, 3), strict=True):
        file.mujoco.mju_rotVecQuat(part, given, orientation)
    force, torque = turned
    made: list[AbstractForce] = []
    # One with a gear of zeros still has its input.
    if force.any() or not torque.any():
        made.append(PointForce(body, force, point, "body", number))
    if torque.any():
        made.append(Torque(body, torque, "body", number))
    return made


def _gear(file: CompiledFile, i: int) -> float:
    """Force where an actuator acts for one unit of its own; those of sites have six in elements."""
    return 1.0 if file.target(i)[0] == "site" else float(file.model.actuator_gear[i, 0])


def _force_limits(file: CompiledFile, i: int) -> tuple[float, float]:
    """Limits of an actuator's force where it acts, but for those that it shares with others."""
    model, (kind, part), gear = file.model, file.target(i), _gear(file, i)
    bounds = limits(model.actuator_forcelimited[i], gear * model.actuator_forcerange[i])
    if kind not in ("joint", "tendon") or shares_limits(file, kind, part):
        return bounds
    total = np.asarray(total_limits(file, kind, part))
    if kind == "tendon" and np.isfinite(total).any():
        # Those of tendons count before the gear.
        total = gear * total
    return _both(bounds, limits(True, total))


def _both(*bounds: tuple[float, float]) -> tuple[float, float]:
    lower, upper = zip(*bounds, strict=True)
    return max(lower), min(upper)


def _actuator(file: CompiledFile, i: int, law: Servo) -> ImportedActuator:
    model, (kind, part), control = file.model, file.target(i), file.control(i)
    gain = _gear(file, i) * float(model.actuator_gainprm[i, 0])
    of_control, of_force = (-np.inf, np.inf), _force_limits(file, i)
    if servo(file, i) is not None:
        is_clamped = model.actuator_ctrllimited[control] and not file.disables("CLAMPCTRL")
        of_control = limits(is_clamped, gain * model.actuator_ctrlrange[control])
    # The input of a servo is a part of its force.
    is_servo = law.proportional or law.derivative
    bounds = of_control if is_servo else _both(of_control, of_force)
    names = file.name("actuator", i), file.name(kind, part)
    return ImportedActuator(*names, gain, bounds, *law[1:], kind, of_force)
