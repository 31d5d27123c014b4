"""One second of a robot's motion by lie_jax and by MuJoCo."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments._command.mujoco_models import NOT_IMPORTED, coordinates, mujoco, quaternions
from lie_jax.io.compiled import CompiledFile

# Random parts of the start (rad, m; rad/s, m/s) and of the controls (rad or rad/s; for motors the
# acceleration that their joint alone would have).
_MOVED, _SPEED, _CONTROL = 0.1, 0.3, 0.3
# Instants that are compared; the least and the most steps of a second.
_INSTANTS, _STEPS, _MOST = 10, 1000, 1_024_000
# Explicit methods of order four and more are stable where step times rate is less.
_STABLE = 2.0
# A run has converged where half the step changes its coordinates by less (rad, m); a change that
# shrinks no more is rounding where it is less.
_CONVERGED, _ROUNDING = 3e-10, 1e-7
# Changes of a state: for derivatives, and one that is followed (rad, m).
_SMALL, _NUDGE = 1e-6, 1e-8


class Motion(NamedTuple):
    """One second of motion: counts of the elements that act; the largest rate (1/s) of the
    linearised motion; the largest change of a coordinate of a joint (rad, m), of a free body
    without joints of its place; the smallest step (s) of lie_jax and of MuJoCo, and the change of
    coordinates by its last halving; the largest difference of coordinates (rad, m), of ball joints
    and free bodies of their turn; the factor by which a small change of the start grows. All but
    counts and rate are None for a motion that needs too small steps.
    """

    elements: dict[str, int]
    rate: float
    amplitude: float | None = None
    our_step: float | None = None
    our_change: float | None = None
    step: float | None = None
    change: float | None = None
    difference: float | None = None
    growth: float | None = None


class _Run(NamedTuple):
    """Coordinates at the instants, smallest step (s), and their change by the last halving."""

    q: np.ndarray
    step: float
    change: float


def motion(imported: Any, mechanism: Any, model: Any) -> Motion:
    """Compare the motions of an imported model without couplings and of MuJoCo's."""
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    model = copy.copy(model)
    file = CompiledFile(mujoco, model)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    # Otherwise an unstable run starts anew.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    rng, start = np.random.default_rng(2), mujoco.MjData(model)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, start, 0)
    mujoco.mj_integratePos(model, start.qpos, rng.normal(size=model.nv), _MOVED)
    start.qvel[:] = _SPEED * rng.normal(size=model.nv)
    start.ctrl[:] = 0.0
    mujoco.mj_forward(model, start)
    inputs = _controlled(file, imported, start, rng)
    q, v = coordinates(model, start.qpos, start.qvel)
    turns = quaternions(model)
    elements, (steps, rate) = _elements(file, imported), _first_steps(model, start)
    if steps >= _MOST:
        return Motion(elements, rate)
    theirs = _converged(lambda steps: _their_run(model, start, steps), steps, turns)
    ours = _converged(_our_run(system, q, v, inputs), steps, turns)
    nudge = _NUDGE * rng.normal(size=model.nv)
    near, far = (_their_run(model, start, 2 * steps, x) for x in (nudge, 0.0 * nudge))
    return Motion(
        elements,
        rate,
        _amplitude(theirs.q - q, model),
        *ours[1:],
        *theirs[1:],
        _difference(ours.q, theirs.q, turns),
        _difference(near, far, turns) / _NUDGE,
    )


def _amplitude(moved: np.ndarray, model: Any) -> float:
    """Largest change of a joint's coordinate, or of those of a free body without joints."""
    free = np.count_nonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    in_joints = moved[:, 7 * free :] if free < model.njnt else moved
    return float(np.max(np.abs(in_joints)))


def _difference(first: np.ndarray, second: np.ndarray, turns: list[int]) -> float:
    """Largest difference of coordinates, of quaternions the angle between them."""
    first, second = np.broadcast_arrays(first, second)
    difference = np.abs(first - second)
    for place in turns:
        a, b = first[:, place : place + 4], second[:, place : place + 4]
        apart = (np.linalg.norm(a + sign * b, axis=1) for sign in (-1.0, 1.0))
        difference[:, place : place + 4] = 2.0 * np.minimum(*apart)[:, None]
    return float(np.max(difference))


def _controlled(
    file: CompiledFile, imported: Any, start: Any, rng: np.random.Generator
) -> np.ndarray:
    """Set constant controls in MuJoCo's data, and return our inputs."""
    model, inputs = file.model, []
    mass = np.zeros((model.nv, model.nv))
    for unit, column in zip(np.eye(model.nv), mass, strict=True):
        mujoco.mj_mulM(model, start, column, unit)
    numbers = {file.name("actuator", i): i for i in range(file.count("actuator"))}
    joints = {file.name("joint", j): j for j in range(model.njnt)}
    left_out = {name for kind in NOT_IMPORTED for name in imported.ignored.get(kind, ())}
    for actuator in imported.actuators:
        dof = model.jnt_dofadr[joints[actuator.joint]] if actuator.transmission == "joint" else None
        if actuator.name in left_out or not actuator.gain:
            inputs.append(0.0)
            continue
        wanted = _CONTROL * rng.normal()
        if actuator.proportional and actuator.name in numbers:
            wanted = actuator.gain * (start.actuator_length[numbers[actuator.name]] + wanted)
        elif actuator.derivative:
            wanted = actuator.gain * wanted
        elif dof is not None:
            wanted = mass[dof, dof] * wanted
        lower, upper = actuator.limits
        inputs.append(min(max(wanted, lower), upper))
        if actuator.name in numbers:
            start.ctrl[file.control(numbers[actuator.name])] = inputs[-1] / actuator.gain
        else:
            start.qfrc_applied[dof] = inputs[-1]
    return np.asarray(inputs)


def _elements(file: CompiledFile, imported: Any) -> dict[str, int]:
    """Counts of the elements that act."""
    model = file.model
    joints = [j for j in range(model.njnt) if file.kind(j) != "free"]
    single = [j for j in joints if file.kind(j) != "ball"]
    springs = [j for j in single if file.stiffness(j)]
    places = model.jnt_qposadr
    relaxed = [j for j in springs if model.qpos_spring[places[j]] != file.zero(j)]
    servos = [a for a in imported.actuators if a.proportional or a.derivative]
    carried = 0 if file.disables("GRAVITY") else np.count_nonzero(model.body_gravcomp)
    counts = {
        "springs": len(springs),
        "of these relaxed off zero": len(relaxed),
        "dampers": sum(bool(file.damping(j)) for j in joints),
        "tendons": int(np.count_nonzero(model.tendon_stiffness + model.tendon_damping)),
        "rotors": sum(bool(file.armature(j)) for j in joints),
        "servos": len(servos),
        "motors": len(imported.actuators) - len(servos),
        "carried bodies": int(carried),
    }
    return {kind: count for kind, count in counts.items() if count}


def _first_steps(model: Any, start: Any) -> tuple[int, float]:
    """Steps of a second with which an explicit method is stable, and the largest rate (1/s) of the
    linearised motion.
    """
    data, n = mujoco.MjData(model), model.nv

    def accelerations(moved: np.ndarray, faster: np.ndarray) -> np.ndarray:
        _begin(model, data, start, moved)
        data.qvel[:] += faster
        mujoco.mj_forward(model, data)
        return data.qacc.copy()

    none, steps = np.zeros(n), _SMALL * np.eye(n)
    by_place = [accelerations(x, none) - accelerations(-x, none) for x in steps]
    by_rate = [accelerations(none, x) - accelerations(none, -x) for x in steps]
    blocks = [np.stack(rows, axis=1) / (2.0 * _SMALL) for rows in (by_place, by_rate)]
    system = np.block([[np.zeros((n, n)), np.eye(n)], blocks])
    rate = float(np.max(np.abs(np.linalg.eigvals(system))))
    doublings = math.ceil(math.log2(max(1.0, rate / (_STABLE * _STEPS))))
    return _STEPS * 2**doublings, rate


def _converged(run: Callable[[int], np.ndarray], steps: int, turns: list[int]) -> _Run:
    """Halve the step until the coordinates stay."""
    q, change = run(steps), np.inf
    while steps < _MOST:
        steps *= 2
        finer, before = run(steps), change
        change = _difference(finer, q, turns)
        q = finer
        at_rounding = change < _ROUNDING and change > 0.7 * before
        if change < _CONVERGED or at_rounding:
            break
    return _Run(q, 1.0 / steps, change)


def _begin(model: Any, data: Any, start: Any, moved: np.ndarray | None = None) -> None:
    """Set the start of the motion, or a state that is moved from it."""
    data.qpos[:], data.qvel[:] = start.qpos, start.qvel
    data.ctrl[:], data.qfrc_applied[:] = start.ctrl, start.qfrc_applied
    if moved is not None:
        mujoco.mj_integratePos(model, data.qpos, moved, 1.0)


def _their_run(model: Any, start: Any, steps: int, nudge: Any = None) -> np.ndarray:
    data = mujoco.MjData(model)
    model.opt.timestep = 1.0 / steps
    _begin(model, data, start, nudge)
    q = []
    for _ in range(_INSTANTS):
        mujoco.mj_step(model, data, steps // _INSTANTS)
        q.append(coordinates(model, data.qpos, data.qvel)[0])
        if not np.isfinite(q[-1]).all() or np.max(np.abs(q[-1])) > 1e6:
            return np.full((_INSTANTS, len(q[-1])), np.nan)
    return np.stack(q)


def _our_run(
    system: Any, q: np.ndarray, v: np.ndarray, inputs: np.ndarray
) -> Callable[[int], np.ndarray]:
    """Runs of the motion with a number of steps; all are calls of one compiled program."""
    table = jnp.tile(jnp.asarray(inputs), (_STEPS, 1)) if len(inputs) else None
    method = lie_jax.RKMK("rk67")

    @jax.jit
    def stretch(state, dt):
        return lie_jax.simulate(
            system,
            method,
            state,
            dt=dt,
            steps=_STEPS,
            inputs=table,
            save=_STEPS // _INSTANTS,
            throw=False,
        )

    def run(steps: int) -> np.ndarray:
        state, saved = lie_jax.State(jnp.asarray(q), jnp.asarray(v)), []
        for _ in range(steps // _STEPS):
            part = stretch(state, 1.0 / steps)
            saved.append(np.asarray(part.q[1:]))
            state = lie_jax.State(part.q[-1], part.v[-1])
            if not np.isfinite(saved[-1]).all():
                return np.full((_INSTANTS, len(q)), np.nan)
        return np.concatenate(saved)[steps // _STEPS - 1 :: steps // _STEPS]

    return run
