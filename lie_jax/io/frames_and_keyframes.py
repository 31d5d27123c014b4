"""Named frames and named states of a file."""

from collections.abc import Iterable

import numpy as np

from lie_jax.io.compiled import CompiledFile
from lie_jax.robotics.frames import Frame
from lie_jax.systems.system import State


def frames(file: CompiledFile) -> dict[str, Frame]:
    """Frames of all bodies and sites; a site with the name of a body is called "site" as well."""
    placed = {}
    for body in range(1, file.count("body")):
        if body not in file.points:
            placed[file.name("body", body)] = file.seen(body, *file.pose(body))
    for site in range(file.count("site")):
        name = file.name("site", site)
        placed[f"{name} site" if name in placed else name] = file.site(site)
    return {name: Frame(*place, name=name) for name, place in placed.items()}


def keyframes(file: CompiledFile, joints: Iterable[int]) -> dict[str, State]:
    """States of the keyframes in joint coordinates; `joints` are those of the mechanism."""
    return {
        file.name("key", i): _state(file, file.model.key_qpos[i], file.model.key_qvel[i], joints)
        for i in range(file.count("key"))
    }


def _state(
    file: CompiledFile, positions: np.ndarray, velocities: np.ndarray, joints: Iterable[int]
) -> State:
    model, mujoco = file.model, file.mujoco
    free = [joint for joint in range(file.count("joint")) if file.kind(joint) == "free"]
    q, v = [], []
    for joint in (*free, *joints):
        place, rate = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        kind = file.kind(joint)
        if kind == "free":
            pose, turn = positions[place : place + 7].copy(), np.zeros(9)
            mujoco.mju_normalize4(pose[3:])
            mujoco.mju_quat2Mat(turn, pose[3:])
            linear, angular = velocities[rate : rate + 6].reshape(2, 3)
            q.append(pose)
            # MuJoCo's linear velocity is inertial.
            v += [turn.reshape(3, 3).T @ linear, angular]
        elif kind == "ball":
            turn_of_joint, turned = positions[place : place + 4].copy(), np.zeros(4)
            mujoco.mju_normalize4(turn_of_joint)
            mujoco.mju_mulQuat(turned, model.body_quat[model.jnt_bodyid[joint]], turn_of_joint)
            q.append(turned)
            v.append(velocities[rate : rate + 3])
        else:
            q.append(positions[place : place + 1] - file.zero(joint))
            v.append(velocities[rate : rate + 1])
    return State(np.concatenate(q), np.concatenate(v))
