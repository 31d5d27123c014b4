"""Models of MuJoCo with the parts that an import has, and their coordinates."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from lie_jax.io import inertias, meshes, sources, urdf
from lie_jax.io.compiled import CompiledFile

# Pyright does not know its members.
mujoco: Any = importlib.import_module("mujoco")

# Mass and moments (kg, kg m²) of massless bodies in MuJoCo.
_LEAST = 1e-12
# Kinds of actuators without a law.
NOT_IMPORTED = "actuators", "control laws of the actuators"


def model_of(path: Path, chosen: dict[str, Any], ignored: dict[str, tuple[str, ...]]) -> Any:
    """Model of MuJoCo without constraints and without the parts `ignored` that an import with the
    options `chosen` leaves out; with joined inertias where it needs them.
    """
    if path.suffix == ".urdf":
        try:
            model = _urdf(path, chosen)
        except ValueError:
            model = _urdf_with_joined_inertias(path, chosen)
    else:
        model, _ = meshes.compile_model(mujoco, mujoco.MjSpec.from_file(str(path)))
    free = model.jnt_type[model.dof_jntid] == mujoco.mjtJoint.mjJNT_FREE
    model.dof_armature[free], model.dof_damping[free] = 0.0, 0.0
    loose = np.isin(model.jnt_type, (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL))
    model.jnt_stiffness[loose] = 0.0
    model.opt.density = model.opt.viscosity = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    _leave_out(CompiledFile(mujoco, model), ignored)
    return model


def _urdf(path: Path, chosen: dict[str, Any]) -> Any:
    """Model with the inertias that MuJoCo reads."""
    spec = mujoco.MjSpec.from_file(str(path))
    spec.compiler.inertiafromgeom = 0
    spec.compiler.fusestatic = False
    if chosen.get("floating_base"):
        for body in spec.worldbody.bodies:
            body.add_freejoint()
    for part in (*spec.geoms, *spec.meshes):
        spec.delete(part)
    return spec.compile()


def _urdf_with_joined_inertias(path: Path, chosen: dict[str, Any]) -> Any:
    """Model with the inertias of an import, where MuJoCo refuses those of single links."""
    robot = sources.tree(path)
    spec, _ = urdf.specification(mujoco, path, robot, bool(chosen.get("floating_base")))
    joined = inertias.join(mujoco, spec, robot, chosen.get("inertia", "strict"))
    for part in (*spec.geoms, *spec.meshes):
        spec.delete(part)
    for body in spec.bodies[1:]:
        body.mass, body.inertia = 0.0, np.zeros(3)
        if body.name in joined.masses:
            mass, center, inertia = joined.masses[body.name]
            moments, axes = np.linalg.eigh(inertia)
            axes[:, 2] *= np.linalg.det(axes)
            # MuJoCo accepts no massless bodies that move, and no rounding of flat ones.
            moments = np.maximum(moments, _LEAST)
            moments[2] = min(moments[2], moments[0] + moments[1])
            body.mass, body.inertia = max(mass, _LEAST), moments
            body.ipos = center
            mujoco.mju_mat2Quat(body.iquat, axes.ravel())
    return spec.compile()


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
