"""A table of robot files: which can be imported, and their dynamics against MuJoCo's."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _report
from experiments._command import robot_files, robot_motions
from experiments._command.mujoco_models import coordinates, model_of, mujoco, order
from experiments._command.robot_motions import Motion

STATES = 4
# Forces and accelerations below this are rounding: nothing acts.
_NOTHING = 1e-9
_HEADS = ("file", "import", "velocities", "couplings", "difference", "motion", "amplitude", "step")
_HEADS += ("springs, dampers, drives", "left out, and how many")
# Of coordinates after a second (rad, m).
_AGREES = 1e-9
# Kinds of `ignored` that the model can add or that need laws of the user.
_ADDED = ("contacts, which", "dry friction, which", "limits, which", "shapes of", "meshes")


class Robot(NamedTuple):
    """A file: how it is imported, or why it is not; velocities, couplings, the largest differences
    from MuJoCo over the largest entry (mass matrix, force, acceleration), counts of the parts that
    are left out by kind, and a second of motion.
    """

    file: str
    imported: str
    nv: int | None = None
    couplings: int = 0
    differences: tuple[float, ...] = ()
    ignored: dict[str, int] | None = None
    motion: Motion | None = None


def table(folder: Path, out: Path) -> None:
    """Write robots.json and robots.md with all robot files below a folder."""
    robots = []
    for path in robot_files.files(folder, scenes=False):
        robots.append(robot(path, str(path.relative_to(folder))))
        print(_report.row(_cells(robots[-1])), flush=True)
        _report.write_json(out / "robots.json", list(map(_numbers, robots)))
        lines = _report.table(_HEADS, map(_cells, robots))
        (out / "robots.md").write_text("\n".join([*lines, "", *_summary(robots), ""]))


def _numbers(robot: Robot) -> dict[str, Any]:
    return robot._asdict() | {"motion": robot.motion and robot.motion._asdict()}


def robot(path: Path, name: str) -> Robot:
    """Import a file, with mended inertias or a free base where it needs them, and compare it."""
    result = robot_files.loaded(path)
    model = result.model
    if model is None:
        return Robot(name, result.imported)
    ignored = {kind: len(names) for kind, names in model.ignored.items()}
    try:
        theirs = model_of(path, result.chosen, model.ignored)
        # Loops are exact here and soft there: without them.
        tree = model.mechanism.joints[: len(model.joints)]
        mechanism = dataclasses.replace(model.mechanism, joints=tree)
        motion = robot_motions.motion(model, mechanism, theirs)
        differences = _compared(mechanism, theirs)
    except Exception as error:
        # The other files have their rows.
        return Robot(name, f"imported, not compared: {type(error).__name__}: {error}")
    nv = sum(_velocities(joint) for joint in tree)
    nv += 6 * sum(_is_base(model, body) for body in model.mechanism.names)
    found = len(model.couplings), differences, ignored, motion
    return Robot(name, result.imported, nv, *found)


def _velocities(joint: Any) -> int:
    return 3 if isinstance(joint, lie_jax.SphericalJoint) else 1


def _is_base(model: Any, body: str) -> bool:
    return body not in {joint.child for joint in model.joints}


class _State(NamedTuple):
    """State in joint coordinates, and MuJoCo's mass matrix, force and acceleration in them."""

    q: np.ndarray
    v: np.ndarray
    mass: np.ndarray
    force: np.ndarray
    acceleration: np.ndarray


def _state(model: Any, rng: np.random.Generator) -> _State:
    data, qpos = mujoco.MjData(model), model.qpos0.copy()
    mujoco.mj_integratePos(model, qpos, rng.normal(size=model.nv), 0.7)
    data.qpos[:], data.qvel[:] = qpos, rng.normal(size=model.nv)
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    for unit, column in zip(np.eye(model.nv), mass, strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    # From MuJoCo's velocities to body-fixed ones, bases first.
    places, turned, drift = [], np.eye(model.nv), np.zeros(model.nv)
    for joint in order(model):
        place, dof, kind = model.jnt_qposadr[joint], model.jnt_dofadr[joint], model.jnt_type[joint]
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, qpos[place + 3 : place + 7])
            turn = turn.reshape(3, 3)
            turned[dof : dof + 3, dof : dof + 3] = turn
            spin = turn @ data.qvel[dof + 3 : dof + 6]
            drift[dof : dof + 3] = np.cross(spin, data.qvel[dof : dof + 3])
            places += range(dof, dof + 6)
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            places += range(dof, dof + 3)
        else:
            places.append(dof)
    acceleration = (turned.T @ (data.qacc - drift))[places]
    mass = (turned.T @ mass @ turned)[np.ix_(places, places)]
    q, v = coordinates(model, qpos, data.qvel)
    return _State(q, v, mass, mass @ acceleration, acceleration)


def _compared(mechanism: Any, model: Any) -> tuple[float, ...]:
    """Largest differences in random states over the largest entries; without motors and servos."""
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    forces = [
        force
        for force in mechanism.forces
        if getattr(force, "input", None) is None and not isinstance(force, lie_jax.JointController)
    ]
    mechanism = dataclasses.replace(mechanism, forces=forces)
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    rng = np.random.default_rng(1)
    states = [_state(model, rng) for _ in range(STATES)]
    q, v, *expected = map(np.stack, zip(*states, strict=True))

    @jax.jit
    @jax.vmap
    def ours(q, v):
        return system.mass_matrix(q), system.force(0.0, q, v), system.acceleration(0.0, q, v)

    computed = ours(jnp.asarray(q), jnp.asarray(v))
    return tuple(
        float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), _NOTHING))
        for a, b in zip(computed, expected, strict=True)
    )


def _cells(robot: Robot) -> list[str]:
    # Paths may break after their folders, or they would fill the page.
    file = robot.file.replace("/", "/<wbr>")
    if robot.ignored is None or robot.motion is None:
        return [file, "refused", *[""] * 7, " ".join(robot.imported.split())]
    motion = robot.motion
    left = {
        kind: count
        for kind, count in robot.ignored.items()
        if not kind.startswith(_ADDED) and "inertia='balance'" not in kind
    }
    counts = str(robot.nv), str(robot.couplings)
    moved = f"rates of {motion.rate:.0e} /s", "", ""
    if motion.difference is not None:
        numbers = motion.difference, motion.amplitude, motion.step
        moved = [f"{number:.0e}" for number in numbers]
        if motion.difference > _AGREES:
            moved[0] += f" (× {motion.growth:.0e})"
    cells = robot.imported, *counts, f"{max(robot.differences):.0e}", *moved
    return [file, *cells, *map(_listed, (motion.elements, left))]


def _listed(counts: dict[str, int]) -> str:
    return "; ".join(f"{kind} {count}" for kind, count in counts.items())


def _summary(robots: list[Robot]) -> list[str]:
    done = [robot for robot in robots if robot.ignored is not None]
    mended = [robot for robot in done if "balance" in robot.imported]
    worst = np.max([robot.differences for robot in done], axis=0) if done else np.zeros(3)
    motions = [robot.motion.difference for robot in done if robot.motion is not None]
    agree = sum(difference is not None and difference < _AGREES for difference in motions)
    return [
        f"{len(done)} of {len(robots)} files are imported, {len(mended)} of them with "
        f"inertia='balance'. Largest differences from MuJoCo {mujoco.__version__}: mass matrix "
        f"{worst[0]:.0e}, force {worst[1]:.0e}, acceleration {worst[2]:.0e} of the largest entry. "
        f"A second of motion agrees to {_AGREES:.0e} (rad, m) for {agree} of {len(motions)} robots."
    ]
