"""Models of MuJoCo with the parts that an import has, and their coordinates."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from lie_jax.io import inertias, meshes
from lie_jax.io.compiled import CompiledFile

# Pyright does not know its members.
mujoco: Any = importlib.import_module("mujoco")

# Kinds of actuators without a law.
NOT_IMPORTED = "actuators", "control laws of the actuators"


def model_of(path: Path, chosen: dict[str, Any], ignored: dict[str, tuple[str, ...]]) -> Any:
    """Model of MuJoCo without constraints and without the parts `ignored` that an import with the
    options `chosen` leaves out; with joined inertias where it needs them.
    """
    spec = mujoco.MjSpec.from_file(str(path))
    if path.suffix == ".urdf":
        spec.compiler.inertiafromgeom = 0
        spec.compiler.fusestatic = False
        if chosen.get("floating_base"):
            for body in spec.worldbody.bodies:
                body.add_freejoint()
        for part in (*spec.geoms, *spec.meshes):
            spec.delete(part)
        try:
            model = spec.copy().compile()
        except ValueError:
            inertias.join(mujoco, spec, "inertia" in chosen)
            model = spec.compile()
    else:
        model, _ = meshes.compiled(mujoco, spec)
    free = model.jnt_type[model.dof_jntid] == mujoco.mjtJoint.mjJNT_FREE
    model.dof_armature[free], model.dof_damping[free] = 0.0, 0.0
    loose = np.isin(model.jnt_type, (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL))
    model.jnt_stiffness[loose] = 0.0
    model.opt.density = model.opt.viscosity = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    _leave_out(CompiledFile(mujoco, model), ignored)
    return model


def _leave_out(file: CompiledFile, ignored: dict[str, tuple[str, ...]]) -> None:
    model = file.model
    shared = ignored.get("limits of the force of several actuators in", ())
    model.tendon_armature[:] = 0.0
    for i in range(file.count("tendon")):
        if file.name("tendon", i) in ignored.get("tendons around geoms or over pulleys", ()):
            model.tendon_stiffness[i] = model.tendon_damping[i] = 0.0
        if file.name("tendon", i) in shared:
            model.tendon_actfrclimited[i] = 0
    for i in range(model.njnt):
        if file.name("joint", i) in shared:
            model.jnt_actfrclimited[i] = 0
    for i in range(file.count("actuator")):
        name = file.name("actuator", i)
        if any(name in ignored.get(kind, ()) for kind in NOT_IMPORTED):
            model.actuator_gainprm[i] = model.actuator_biasprm[i] = 0.0
        if name in ignored.get("inertia (armature) and dampers of the actuators", ()):
            model.actuator_armature[i] = model.actuator_damping[i] = 0.0


def coordinates(model: Any, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and velocities of `lie_jax.Minimal()`, free bodies first, from MuJoCo's."""
    q, v = [], []
    for joint in order(model):
        place, dof = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        kind = model.jnt_type[joint]
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, qpos[place + 3 : place + 7])
            q.append(qpos[place : place + 7])
            v += [turn.reshape(3, 3).T @ qvel[dof : dof + 3], qvel[dof + 3 : dof + 6]]
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            turned = np.zeros(4)
            body = model.jnt_bodyid[joint]
            mujoco.mju_mulQuat(turned, model.body_quat[body], qpos[place : place + 4])
            q.append(turned)
            v.append(qvel[dof : dof + 3])
        else:
            q.append(qpos[place : place + 1] - model.qpos0[place : place + 1])
            v.append(qvel[dof : dof + 1])
    return np.concatenate(q), np.concatenate(v)


def order(model: Any) -> list[int]:
    """Joints in the order of our coordinates, free ones first."""
    free = mujoco.mjtJoint.mjJNT_FREE
    return sorted(range(model.njnt), key=lambda joint: (model.jnt_type[joint] != free, joint))


def quaternions(model: Any) -> list[int]:
    """First places of the quaternions in our coordinates."""
    places, place = [], 0
    for joint in order(model):
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            places.append(place + 3)
            place += 7
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_BALL:
            places.append(place)
            place += 4
        else:
            place += 1
    return places
