"""Inverse kinematics: configurations in which frames are at given places."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.multibody.arguments import check_system
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import dense, rules, small, waits
from lie_jax.numerics.conversion import in_precision
from lie_jax.robotics.arguments import is_flexible
from lie_jax.robotics.frames import Frame
from lie_jax.robotics.placement import Placement, straight
from lie_jax.robotics.search import search
from lie_jax.systems.system import State
from lie_jax.user_functions import snapshots


class InverseKinematics(NamedTuple):
    """Configuration `q` (nq,), the best one of the search where it has not `converged`.

    `residual` (targets,): distance (m) or angle (rad) to each target, the larger one, and the
    largest error of the position constraints if the system has any; `iterations`: steps from all
    starts together.
    """

    q: Float[Array, " nq"]
    residual: Float[Array, " targets"]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


class InverseKinematicsError(RuntimeError):
    """Search without a solution; `best` is its `InverseKinematics`, the nearest configuration."""

    def __init__(self, message: str, best: InverseKinematics):
        super().__init__(message)
        self.best = best


@waits.announce("the inverse kinematics")
def inverse_kinematics(
    system: AbstractMultibodySystem,
    targets: Sequence[tuple[Frame, Any]],
    q: Any,
    *,
    lower: Any = None,
    upper: Any = None,
) -> InverseKinematics:
    """A configuration in which all frames are at their targets, within limits.

    Levenberg's and Marquardt's method along the velocities of the system, with displacement and
    rotation vector of each frame as errors, up to eps^(2/3), 4e-11 in double precision. Position
    constraints of the system at time zero are met, too. Where targets leave a choice, joints tend
    to the middle of their limits.

    Batches of targets by `jax.vmap`: it solves them in a queue, so that no one waits for the
    slowest. Derivatives by targets, frames and the system are those of the least change of
    velocities' coordinates that keeps the targets, limits left aside: of the solution itself where
    it has no freedom. Those by `q` and the limits are zero.

    **Arguments:** `targets`: pairs of a frame and its target, a pose (4, 4) or a position (3,) of
    its origin, inertial; `q`: a start (nq,), or starts (n, nq) of which the nearest is taken and up
    to 15 others if it fails: for a robot arm some 250 random ones within the limits; `lower`,
    `upper`: limits (nq,), infinite for none, of coordinates whose rates are velocities.

    Raises `InverseKinematicsError`, which has the best configuration, where the search fails; under
    JAX transformations `converged` is False then, and derivatives are NaN. Raises `ValueError` for
    bad arguments.
    """
    problem, starts = _problem(snapshots.freeze(system), targets, q, lower, upper)
    solved = _solve(rules.stop_gradient(problem), rules.stop_gradient(starts))
    if not checks.has_tracers(solved) and not bool(solved.converged):
        raise _error(problem, solved, starts.shape[0])
    return solved._replace(
        q=rules.value_with_rule(solved.q, _change, (problem, solved.converged)),
        residual=jax.lax.stop_gradient(solved.residual),
    )


@eqx.filter_jit
def _solve(problem: Placement, starts: Array) -> InverseKinematics:
    nearest = search(problem, jnp.clip(starts, problem.lower[None], problem.upper[None]))
    errors, _ = problem.errors(nearest.q)
    residual = problem.residuals(errors)
    return InverseKinematics(nearest.q, residual, nearest.converged, nearest.iterations)


def _change(q: Array, parameters: Any, tangents: Any) -> Array:
    """Change of the solution: the least velocity that undoes the change of the errors."""
    (problem, converged), (changes, _) = parameters, tangents
    (_, jacobian), (errors, _) = eqx.filter_jvp(lambda p: p.errors(q), (problem,), (changes,))
    rows, columns = jacobian.shape
    if rows <= columns:
        solved = dense.solve(small.matmul(jacobian, jacobian.T), errors)
        velocity = small.matvec(jacobian.T, solved)
    else:
        pushes = small.matvec(jacobian.T, errors)
        velocity = dense.solve(small.matmul(jacobian.T, jacobian), pushes)
    # A product, which spoils derivatives in reverse mode, too.
    valid = jnp.where(converged, jnp.ones((), q.dtype), jnp.nan)
    return problem.system.space.lift(q, valid * velocity)


def _problem(
    system: AbstractMultibodySystem, targets: Any, q: Any, lower: Any, upper: Any
) -> tuple[Placement, Array]:
    check_system("inverse_kinematics(system=)", system)
    if isinstance(q, State):
        raise ValueError(
            "inverse_kinematics(q=) is a State; it must be the configuration alone: give state.q."
        )
    if is_flexible(system):
        raise ValueError(
            "inverse_kinematics(system=) has flexible bodies, which would bend to reach a target: "
            "take the mechanism with a lie_jax.Body in place of each of them."
        )
    dtype = system.gravity.dtype
    checks.real("inverse_kinematics(q=)", q)
    starts = jnp.asarray(in_precision(q, dtype), dtype)
    starts = starts[None] if starts.ndim == 1 else starts
    if starts.ndim != 2 or not starts.shape[0] or starts.shape[1] != system.nq:
        raise ValueError(
            f"inverse_kinematics(q=) has shape {np.shape(q)}; it must be a start ({system.nq},) or "
            f"starts (n, {system.nq}): give numbers in the order of the system's q."
        )
    checks.finite("inverse_kinematics(q=)", starts)
    if not checks.has_tracers(starts, system):
        _check_quaternions(system, starts)
    frames, goals = _targets(targets, dtype)
    for frame in frames:
        frame.number(system)
    places = straight(system.space)
    limits = []
    for name, value, default in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
        where = f"inverse_kinematics({name}=)"
        limit = np.full(system.nq, default) if value is None else value
        checks.shape(where, limit, (system.nq,), "one number for each coordinate of q")
        limits.append(jnp.asarray(in_precision(limit, dtype), dtype))
        if not checks.has_tracers(limits[-1]):
            _check_limit(where, np.asarray(limits[-1]), places)
    if not checks.has_tracers(limits):
        below, above = map(np.asarray, limits)
        if not np.all(below <= above):
            i = int(np.argmin(below <= above))
            raise ValueError(
                f"inverse_kinematics(lower=) is {below[i]:g} at coordinate {i}, and upper= is "
                f"{above[i]:g}; lower must not be above upper: swap them."
            )
    return Placement(system, frames, goals, limits[0], limits[1], places), starts


@eqx.filter_jit
def _on_the_space(system: AbstractMultibodySystem, starts: Array) -> Bool[Array, " starts"]:
    """Whether a step of no length leaves a start where it is, and all velocities move it."""
    units = jnp.eye(system.nv, dtype=starts.dtype)
    slack = jnp.finfo(starts.dtype).eps ** 0.5

    def check(q: Array) -> Array:
        change = jnp.max(jnp.abs(system.space.flow(q, jnp.zeros_like(units[0])) - q))
        rates = jax.vmap(lambda unit: jnp.max(jnp.abs(system.space.lift(q, unit))))(units)
        return (change <= slack * (1.0 + jnp.max(jnp.abs(q)))) & jnp.all(rates > 0.0)

    return jax.vmap(check)(starts)


def _check_quaternions(system: AbstractMultibodySystem, starts: Array) -> None:
    with jax.ensure_compile_time_eval():
        good = np.asarray(_on_the_space(system, starts))
    if not good.all():
        i = int(np.argmin(good))
        raise ValueError(
            f"inverse_kinematics(q=): start {i} is no configuration; its quaternions must have "
            "length one: divide them by theirs, or start from the state that assemble returns."
        )


def _targets(targets: Any, dtype: Any) -> tuple[tuple[Frame, ...], tuple[Array, ...]]:
    pairs = list(targets) if isinstance(targets, Sequence) else []
    are_pairs = all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs)
    others = [pair[0] for pair in pairs if are_pairs and not isinstance(pair[0], Frame)]
    if not pairs or not are_pairs or others:
        given = f"is {targets!r:.80}" if not pairs else f"is a {type(targets).__name__}"
        if others:
            given = f"names {others[0]!r}, a {type(others[0]).__name__}"
        raise ValueError(
            f"inverse_kinematics(targets=) {given}; it must be a list of pairs of a "
            "lie_jax.robotics.Frame and its target: write [(frame, pose)], with a frame such as "
            "imported.frames['tool']."
        )
    goals = []
    for frame, value in pairs:
        where = f"the target of {frame.title}"
        if isinstance(value, tuple | list) and len(value) == 2:
            raise ValueError(
                f"{where} is a pair; {_ACCEPTED}: of a rotation matrix R, or "
                "lie_jax.groups.quaternion.to_matrix(x), and a position p make "
                "lie_jax.groups.se3.pose(R, p)."
            )
        checks.real(where, value)
        goal = jnp.asarray(in_precision(value, dtype), dtype)
        if goal.shape not in ((4, 4), (3,)):
            raise ValueError(f"{where} has shape {goal.shape}; {_ACCEPTED}: {_remedy(goal)}")
        checks.finite(where, goal)
        if goal.ndim == 2:
            checks.rotation(f"the rotation in {where}", goal[:3, :3])
        goals.append(goal)
    return tuple(frame for frame, _ in pairs), tuple(goals)


_ACCEPTED = "it must be a pose (4, 4), or a position (3,) where the orientation is free"


def _remedy(goal: Array) -> str:
    shape = goal.shape
    if shape == (3, 3):
        return (
            "with the position p of the frame's origin, m, make "
            "lie_jax.groups.se3.pose(rotation, p)."
        )
    if shape == (3, 4):
        return "add the last row (0, 0, 0, 1)."
    if shape in ((4,), (7,)):
        return (
            "of a unit quaternion x, scalar first, and a position p make "
            "lie_jax.groups.se3.pose(lie_jax.groups.quaternion.to_matrix(x), p)."
        )
    if shape == (6,):
        return (
            "of a rotation vector x (rad) and a position p make "
            "lie_jax.groups.se3.pose(lie_jax.groups.so3.exp(x), p)."
        )
    if shape[-2:] == (4, 4) or shape[-1:] == (3,):
        return "use jax.vmap for a batch of targets."
    return "make a pose of a rotation matrix R and a position p by lie_jax.groups.se3.pose(R, p)."


def _check_limit(where: str, limit: np.ndarray, places: tuple[int, ...]) -> None:
    if np.isnan(limit).any():
        raise ValueError(f"{where} is NaN at coordinate {int(np.isnan(limit).argmax())}; give one.")
    curved = np.isfinite(limit) & ~np.isin(np.arange(limit.size), places)
    if curved.any():
        raise ValueError(
            f"{where} is {limit[curved][0]:g} at coordinate {int(curved.argmax())}, whose rate is "
            "no velocity of the system (a quaternion has no limits): make it infinite."
        )


def _error(problem: Placement, best: InverseKinematics, starts: int) -> InverseKinematicsError:
    worst = int(np.argmax(np.nan_to_num(np.asarray(best.residual), nan=np.inf)))
    left = f"{float(best.residual[worst]):.3g} in the constraints of the system"
    moves = True
    if worst < len(problem.frames):
        frame = problem.frames[worst]
        moves = frame.number(problem.system) is not None
        pose = np.asarray(_pose(frame, problem.system, best.q))
        left = f"{_distance(pose, np.asarray(problem.targets[worst]))} of {frame.title}"
    advice = (
        "Give a target within reach and limits, or more starts q= (n, nq), as random ones within "
        "the limits."
    )
    if not moves:
        advice = "This frame is fixed to the ground, which no joint moves: name another one."
    return InverseKinematicsError(
        f"inverse_kinematics: no solution from {starts} start{'s' * (starts > 1)}; the best "
        f"configuration leaves {left}. {advice}",
        best,
    )


@eqx.filter_jit
def _pose(frame: Frame, system: AbstractMultibodySystem, q: Array) -> Array:
    return frame.pose(system, q)


def _distance(pose: np.ndarray, target: np.ndarray) -> str:
    """Distance to a target, and the angle if it is a pose, in words."""
    if target.ndim == 1:
        return f"{np.linalg.norm(pose[:3, 3] - target):.3g} m in the position"
    # |R - S|² = 8 sin²(angle / 2).
    sine = np.linalg.norm(pose[:3, :3] - target[:3, :3]) / 8.0**0.5
    return (
        f"{np.linalg.norm(pose[:3, 3] - target[:3, 3]):.3g} m in the position and "
        f"{2.0 * np.arcsin(min(sine, 1.0)):.3g} rad in the orientation"
    )
