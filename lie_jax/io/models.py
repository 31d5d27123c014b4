"""Models in URDF and in MuJoCo's MJCF, read by MuJoCo's compiler."""

import importlib
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from lie_jax import checks
from lie_jax.io import geoms, unsupported
from lie_jax.io import meshes as reading
from lie_jax.io.imported import ImportedActuator, ImportedJoint, ImportedModel
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.forces.bushing import Bushing
from lie_jax.mechanics.forces.loads import ViscousFriction
from lie_jax.mechanics.forces.motors import PrismaticMotor, RevoluteMotor
from lie_jax.mechanics.forces.springs import TorsionalSpringDamper
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint
from lie_jax.mechanics.joints.pairs import PrismaticJoint, RevoluteJoint, SphericalJoint
from lie_jax.mechanics.mechanism import Mechanism


def import_model(path: str | os.PathLike, *, floating_base: bool = False) -> ImportedModel:
    """Mechanism of a URDF or MJCF file.

    Bodies that no joint moves against each other become one, with the name of the first; bodies
    that cannot move are the ground. Where a body has several joints, massless bodies stand between
    them: such a mechanism has joint coordinates alone, `lie_jax.Minimal()`, and so has one with an
    `armature`. Springs and dampers of joints are forces. An actuator of a hinge or a slider is a
    motor, whose input u[i] is its torque (N m) or force (N); its armature and damping, times the
    square of its gear, are the joint's. URDF has no actuators, and every hinge and slider gets a
    motor. Parts that the file's flags switch off are absent. Limits, dry friction and contact of
    shapes are data: `ImportedModel.stops`, `dry_friction` and `contacts` make forces of them. Parts
    that the mechanism does not have are left out: `ignored` and a warning name them.

    `floating_base`: whether the root of a URDF file is free; otherwise it is fixed to the ground.
    MJCF files state it. Inertias of URDF files come from `<inertial>` alone. Meshes (STL or OBJ)
    are the vertices of their convex hulls, of at most 64; a mesh without a file is no error where
    its body has an inertia.
    Needs MuJoCo: `pip install 'lie-jax[io]'`. Raises `FileNotFoundError`, `ImportError`, and
    `ValueError` for a file that MuJoCo does not compile or in which nothing moves.
    """
    checks.path("import_model(path=)", path)
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"import_model(path=) is {str(path)!r}, which is not a file; it must be the name of "
            "a URDF or MJCF file: check it and the folder that you are in."
        )
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError as error:
        raise ImportError(
            "import_model reads files by MuJoCo's compiler, which is not installed: "
            "pip install 'lie-jax[io]'."
        ) from error
    try:
        is_urdf = ElementTree.parse(path).getroot().tag == "robot"
    except ElementTree.ParseError as error:
        raise ValueError(
            f"import_model(path=): {str(path)!r} is not an XML file ({error}); it must be a URDF "
            "or MJCF file: correct it, or expand its macros first."
        ) from error
    if floating_base and not is_urdf:
        raise ValueError(
            f"import_model(floating_base=True), but {str(path)!r} is an MJCF file, where "
            "<freejoint/> makes a body free: leave floating_base out, or add <freejoint/> to the "
            "file."
        )
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        if is_urdf:
            _as_mechanism(spec, floating_base)
        model, meshes = reading.compiled(mujoco, spec)
    except ValueError as error:
        raise ValueError(
            f"import_model(path=): {str(path)!r} cannot be compiled: {str(error).strip()}. Correct "
            "the file."
        ) from error
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    imported = _imported(path, _File(model, data, mujoco), is_urdf)
    ignored = imported.ignored | meshes
    if ignored:
        warnings.warn(unsupported.message(path.name, ignored), stacklevel=2)
    return imported._replace(ignored=ignored)


def _as_mechanism(spec: Any, floating_base: bool) -> None:
    """Set what a URDF file leaves to its reader: inertias, fixed bodies, meshes, the free base."""
    reading.find(spec)
    # Inertias come from <inertial> alone.
    spec.compiler.inertiafromgeom = 0
    # `_bodies` joins fixed bodies, after the free one has got its joint.
    spec.compiler.fusestatic = False
    if floating_base:
        for body in spec.worldbody.bodies:
            body.add_freejoint()


class _File(NamedTuple):
    """A compiled model, its poses at zero, and the module `mujoco`."""

    model: Any
    data: Any
    mujoco: Any

    def name(self, kind: str, i: int) -> str:
        """Name of body, joint or actuator i."""
        return getattr(self.model, kind)(i).name or f"{kind} {i}"

    def kind(self, joint: int) -> str:
        """Word for a joint: free, ball, slide or hinge."""
        return self.mujoco.mjtJoint(self.model.jnt_type[joint]).name[len("mjJNT_") :].lower()

    def parent(self, body: int) -> int:
        """Moving body that a body is joined to, 0 for the ground."""
        parent = int(self.model.body_weldid[self.model.body_parentid[body]])
        # A body that MuJoCo's user moves has no joint: it is ground here.
        return parent if self.model.body_jntnum[parent] else 0

    def joints(self, body: int) -> list[int]:
        """Joints of a body, free ones left out."""
        first, count = self.model.body_jntadr[body], self.model.body_jntnum[body]
        return [j for j in range(first, first + count) if self.kind(j) != "free"]

    def disables(self, flag: str) -> bool:
        """Whether the file switches off a kind of force."""
        bit = getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{flag}")
        return bool(self.model.opt.disableflags & bit)

    def actuators(self) -> range:
        """Numbers of the actuators; an actuator may have several controls or none."""
        return range(len(self.model.actuator_trntype))

    def driven(self, actuator: int) -> int | None:
        """Joint in which an actuator exerts its force; None for other actuators."""
        kinds, kind = self.mujoco.mjtTrn, self.model.actuator_trntype[actuator]
        moves_a_joint = kinds(kind) in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT)
        return int(self.model.actuator_trnid[actuator, 0]) if moves_a_joint else None

    def armature(self, joint: int) -> float:
        """Rotor inertia of a joint and of its actuators, which their gears multiply."""
        armature = self.model.dof_armature[self.model.jnt_dofadr[joint]]
        return float(armature) + self._geared(joint, "actuator_armature")

    def damping(self, joint: int) -> float:
        """Damping of a joint and of its actuators, which their gears multiply."""
        if self.disables("DAMPER"):
            return 0.0
        damping = self.model.dof_damping[self.model.jnt_dofadr[joint]]
        return float(damping) + self._geared(joint, "actuator_damping")

    def dry_friction(self, joint: int) -> float:
        """Largest dry friction of a joint with one coordinate."""
        return float(self.model.dof_frictionloss[self.model.jnt_dofadr[joint]])

    def zero(self, joint: int) -> float:
        """Coordinate of a joint in the pose that is the mechanism's zero."""
        is_ball = self.kind(joint) == "ball"
        return 0.0 if is_ball else float(self.model.qpos0[self.model.jnt_qposadr[joint]])

    def stiffness(self, joint: int) -> float:
        """Stiffness of a joint's spring."""
        return 0.0 if self.disables("SPRING") else float(self.model.jnt_stiffness[joint])

    def _geared(self, joint: int, field: str) -> float:
        model = self.model
        if not hasattr(model, field) or self.kind(joint) == "ball":
            return 0.0
        acting = [i for i in self.actuators() if self.driven(i) == joint]
        return float(sum(model.actuator_gear[i, 0] ** 2 * getattr(model, field)[i] for i in acting))

    def pose(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and rotation (3, 3), body to inertial."""
        return self.data.xpos[body], self.data.xmat[body].reshape(3, 3)


class _Mount(NamedTuple):
    """Fields of the element of a mechanism for one of a body's joints."""

    parent: str
    child: str
    axis: np.ndarray
    parent_point: np.ndarray
    child_point: np.ndarray
    orientation: np.ndarray


def _imported(path: Path, file: _File, is_urdf: bool) -> ImportedModel:
    model, bodies, mounts = file.model, [], {}
    # Bodies without joints are parts of those that they are fixed to.
    for body in np.flatnonzero(model.body_jntnum).tolist():
        bodies += _bodies(file, body)
        mounts |= dict(_mounts(file, body))
    if not bodies:
        raise ValueError(
            f"import_model(path=) is {str(path)!r}, in which nothing moves; it must have a joint: "
            "set floating_base=True if it is the URDF file of a free robot."
        )
    forces = [force for joint in mounts for force in _passive(file, joint, mounts[joint])]
    motors, actuators = _motors(file, mounts, every_joint=is_urdf)
    mechanism = Mechanism(
        bodies,
        [_joint(file, joint, mount) for joint, mount in mounts.items()],
        [*forces, *motors],
        (0.0, 0.0, 0.0) if file.disables("GRAVITY") else model.opt.gravity,
    )
    joints = []
    for joint, mount in mounts.items():
        name, zero = file.name("joint", joint), file.zero(joint)
        limits = _limits(model.jnt_limited[joint], model.jnt_range[joint] - zero)
        friction = 0.0 if file.kind(joint) == "ball" else file.dry_friction(joint)
        joints.append(ImportedJoint(name, mount.parent, mount.child, limits, zero, friction))
    shapes = geoms.shapes(file)
    ignored = unsupported.elements(file, actuators, shapes)
    return ImportedModel(mechanism, tuple(joints), actuators, ignored, shapes)


def _bodies(file: _File, body: int) -> list[Body]:
    """A body with all bodies fixed to it, and the massless ones between its joints."""
    model, data = file.model, file.data
    parts = np.flatnonzero(model.body_weldid == body)
    masses, centers = model.body_mass[parts], data.xipos[parts]
    mass = masses.sum()
    center = masses @ centers / mass
    inertia = np.zeros((3, 3))
    for i, part_mass, part_center in zip(parts, masses, centers, strict=True):
        axes, arm = data.ximat[i].reshape(3, 3), part_center - center
        about_part_center = axes @ np.diag(model.body_inertia[i]) @ axes.T
        inertia += about_part_center + part_mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    position, rotation = file.pose(body)
    inertia = rotation.T @ inertia @ rotation
    pose = {"position": position, "orientation": data.xquat[body]}
    massless = [Body(name, 0.0, np.zeros((3, 3)), **pose) for name in _names_between(file, body)]
    name = file.name("body", body)
    symmetric = 0.5 * (inertia + inertia.T)
    return [*massless, Body(name, mass, symmetric, rotation.T @ (center - position), **pose)]


def _names_between(file: _File, body: int) -> list[str]:
    name = file.name("body", body)
    return [f"{name} after {file.name('joint', j)}" for j in file.joints(body)[:-1]]


def _mounts(file: _File, body: int) -> Iterator[tuple[int, _Mount]]:
    """Joints of a body, in the order in which they move it."""
    model = file.model
    parent = file.parent(body)
    (base, base_rotation), (position, rotation) = file.pose(parent), file.pose(body)
    home, point = base_rotation.T @ rotation, base_rotation.T @ (position - base)
    back, orientation = np.zeros(4), np.zeros(4)
    file.mujoco.mju_negQuat(back, file.data.xquat[parent])
    file.mujoco.mju_mulQuat(orientation, back, file.data.xquat[body])
    nearer = file.name("body", parent) if parent else GROUND
    farther = [*_names_between(file, body), file.name("body", body)]
    for joint, child in zip(file.joints(body), farther, strict=False):
        anchor, axis = model.jnt_pos[joint], model.jnt_axis[joint]
        yield joint, _Mount(nearer, child, home @ axis, point + home @ anchor, anchor, orientation)
        # All joints of a body are in its frame: the massless bodies between them have that frame.
        nearer, home, point = child, np.eye(3), np.zeros(3)
        orientation = np.asarray([1.0, 0.0, 0.0, 0.0])


def _joint(file: _File, joint: int, mount: _Mount) -> AbstractJoint:
    # None and not zero: an armature excludes all formulations but joint coordinates.
    armature = file.armature(joint) or None
    kind = file.kind(joint)
    if kind == "ball":
        ends = mount.parent, mount.child, mount.parent_point, mount.child_point
        return SphericalJoint(*ends, armature)
    joint_class = RevoluteJoint if kind == "hinge" else PrismaticJoint
    return joint_class(**mount._asdict(), armature=armature)


def _limits(is_limited: Any, bounds: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest value, infinite where there are no limits."""
    lower, upper = sorted(bounds) if is_limited else (-np.inf, np.inf)
    return float(lower), float(upper)


def _passive(file: _File, joint: int, mount: _Mount) -> Iterator[AbstractForce]:
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


def _motors(
    file: _File, mounts: dict[int, _Mount], every_joint: bool
) -> tuple[list[PrismaticMotor | RevoluteMotor], tuple[ImportedActuator, ...]]:
    driven = [joint for joint in mounts if file.kind(joint) != "ball"]
    if every_joint:
        actuators = [_motor_of(file, joint) for joint in driven]
    else:
        working = [i for i in file.actuators() if not unsupported.is_off(file, i)]
        drives = [(i, joint) for i in working if (joint := file.driven(i)) in driven]
        driven = [joint for _, joint in drives]
        actuators = [_actuator(file, *drive) for drive in drives]
    motors = []
    for i, joint in enumerate(driven):
        mount = mounts[joint]
        ends = mount.parent, mount.child, mount.axis, i
        if file.kind(joint) == "hinge":
            motors.append(RevoluteMotor(*ends))
        else:
            motors.append(PrismaticMotor(*ends, mount.parent_point, mount.child_point))
    return motors, tuple(actuators)


def _motor_of(file: _File, joint: int) -> ImportedActuator:
    """Actuator of a joint itself, within the joint's limits of force."""
    model, name = file.model, file.name("joint", joint)
    limits = _limits(model.jnt_actfrclimited[joint], model.jnt_actfrcrange[joint])
    return ImportedActuator(name, name, 1.0, limits)


def _actuator(file: _File, i: int, joint: int) -> ImportedActuator:
    model, motor = file.model, _motor_of(file, joint)
    gear = float(model.actuator_gear[i, 0])
    gain = gear * float(model.actuator_gainprm[i, 0])
    controls_force = model.actuator_ctrllimited[i] and not unsupported.is_servo(file, i)
    lower, upper = zip(
        motor.limits,
        _limits(model.actuator_forcelimited[i], gear * model.actuator_forcerange[i]),
        _limits(controls_force, gain * model.actuator_ctrlrange[i]),
        strict=True,
    )
    return ImportedActuator(file.name("actuator", i), motor.joint, gain, (max(lower), min(upper)))
