"""Equations of frames at given places, and damped steps towards their solution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import so3
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import gather, small
from lie_jax.robotics.frames import Frame
from lie_jax.spaces.base import AbstractSpace

# Damping by the square of the error, and its least value in units of sqrt(eps).
_DAMPING, _LEAST = 1e-2, 1e-2
# Longest step along a velocity (rad, m).
_LONGEST = 1.0
# Part of the way to the middle of the limits that a step takes where the targets leave it free.
_CENTRING = 0.5
# Length (m) that weighs as a radian in the choice of a start.
_LENGTH = 0.5


class Placement(eqx.Module):
    """Frames of a system, their targets, and limits (nq,) of the coordinates.

    A target is a pose (4, 4) or a position (3,). `places`: for every velocity the coordinate whose
    rate it is, -1 for none.
    """

    system: AbstractMultibodySystem
    frames: tuple[Frame, ...]
    targets: tuple[Array, ...]
    lower: Float[Array, " nq"]
    upper: Float[Array, " nq"]
    places: tuple[int, ...] = eqx.field(static=True)

    def errors(self, q: Float[Array, " nq"]) -> tuple[Array, Array]:
        """Ways to the targets (rows,), in the axes of the frames, and Jacobian (rows, nv).

        Displacement (m) and rotation vector (rad) of each target, displacement alone for positions,
        and minus the position constraints of the system.
        """
        numbers = [frame.number(self.system) for frame in self.frames]
        bodies = tuple(number for number in numbers if number is not None)
        placed = iter(zip(*self.system.poses_and_jacobians(q, bodies), strict=True))
        rows, jacobians = [], []
        for frame, number, target in zip(self.frames, numbers, self.targets, strict=True):
            if number is None:
                pose, jacobian = frame.placement(q.dtype), frame.jacobian(self.system, q)
            else:
                rotation, position, jacobian = next(placed)
                pose = frame.transform_pose(rotation, position)
                jacobian = frame.transform_twists(jacobian)
            way = _way(*pose, target)
            rows.append(way)
            jacobians.append(jacobian[: way.shape[0]])
        count = self.system.nc - self.system.velocity_rows
        if count:
            # Sines would close joints half a turn off, too.
            closing = self.system.closing()
            rows.append(-closing.constraint(0.0, q))
            jacobians.append(closing.constraint_jacobian(0.0, q)[:count])
        return jnp.concatenate(rows), jnp.concatenate(jacobians)

    def residuals(self, errors: Float[Array, " rows"]) -> Float[Array, " equations"]:
        """Distance (m) or angle (rad) to each target, the larger one, and the largest error of the
        constraints if the system has any.
        """
        ways = [(6 if target.ndim == 2 else 3) for target in self.targets]
        *parts, constraints = jnp.split(errors, np.cumsum(ways).tolist())
        squares = [jnp.max(jnp.sum(part.reshape(-1, 3) ** 2, axis=1)) for part in parts]
        if constraints.shape[0]:
            squares.append(jnp.max(constraints**2))
        return jnp.sqrt(jnp.stack(squares))

    def nearest(self, starts: Float[Array, "starts nq"], count: int) -> Float[Array, "count nq"]:
        """Starts near the targets, the nearest one first: the best one of each of `count` groups.

        Frames of the starts are the same for all targets of a batch, the distances one product.
        """
        goals = [_goal(target) for target in self.targets]

        def places(q):
            poses = (frame.pose(self.system, q) for frame in self.frames)
            pairs = zip(poses, goals, strict=True)
            return jnp.concatenate([_goal(pose)[: goal.shape[0]] for pose, goal in pairs])

        near = jax.vmap(places)(starts)
        squares = jnp.sum(near**2, axis=1) - 2.0 * near @ jnp.concatenate(goals)
        groups = squares.reshape(count, -1)
        best = jnp.argmin(groups, axis=1) + groups.shape[1] * jnp.arange(count)
        return starts[best[jnp.argsort(jnp.min(groups, axis=1))]]

    def step(self, q: Array, errors: Array, jacobian: Array) -> Float[Array, " nq"]:
        """Configuration after one step within the limits.

        Levenberg's and Marquardt's step with a damping that vanishes with the error: quadratic
        convergence, without divergence at singular poses. Where the targets leave joints free they
        go towards the middle of their limits. Joints at a limit that the errors push outwards stay.
        """
        square = small.dot(errors, errors)
        eps = jnp.finfo(q.dtype).eps
        damping = _DAMPING * square + _LEAST * eps**0.5
        here = gather.pick(self.places, q)
        below = self._along(self.lower, -jnp.inf) - here
        above = self._along(self.upper, jnp.inf) - here
        limited = jnp.isfinite(below) & jnp.isfinite(above)
        middle = jnp.where(limited, 0.5 * (below + above), 0.0)
        push = small.matvec(jacobian.T, errors)
        free = ~(((below >= 0.0) & (push < 0.0)) | ((above <= 0.0) & (push > 0.0)))
        free = free.astype(q.dtype)
        wished = _CENTRING * jnp.minimum(1.0, jnp.sqrt(square)) * middle * free
        x = _damped_least_squares(
            jacobian * free[None], errors - small.matvec(jacobian, wished), damping
        )
        x = x + wished
        x = x * jnp.minimum(1.0, _LONGEST / jnp.maximum(jnp.max(jnp.abs(x)), 1e-30))
        return jnp.clip(self.system.space.flow(q, x), self.lower, self.upper)

    def _along(self, limits: Array, missing: float) -> Float[Array, " nv"]:
        known = np.asarray(self.places) >= 0
        return jnp.where(known, gather.pick(self.places, limits), missing)


def _goal(target: Array) -> Array:
    if target.ndim == 1:
        return target
    # The squares of differences of rotation matrices are twice those of small angles.
    turned = (0.5**0.5 * _LENGTH) * target[:3, :3].reshape(9)
    return jnp.concatenate([target[:3, 3], turned])


def _way(rotation: Array, position: Array, target: Array) -> Array:
    goal = target if target.ndim == 1 else target[:3, 3]
    displacement = small.matvec(rotation.T, goal - position)
    if target.ndim == 1:
        return displacement
    return jnp.concatenate([displacement, so3.log(small.matmul(rotation.T, target[:3, :3]))])


def _damped_least_squares(jacobian: Array, errors: Array, damping: Array) -> Float[Array, " nv"]:
    """Least x with jacobian x = errors up to the damping, by the smaller of two matrices."""
    rows, columns = jacobian.shape
    if rows <= columns:
        square = small.matmul(jacobian, jacobian.T)
        square = square + damping * jnp.eye(rows, dtype=square.dtype)
        return small.matvec(jacobian.T, small.matvec(small.inverse(square), errors))
    square = small.matmul(jacobian.T, jacobian)
    square = square + damping * jnp.eye(columns, dtype=square.dtype)
    return small.matvec(small.inverse(square), small.matvec(jacobian.T, errors))


def straight(space: AbstractSpace) -> tuple[int, ...]:
    """For every velocity the coordinate whose rate it is alone, wherever it is; -1 for none."""
    points = np.random.default_rng(0).normal(size=(2, space.nq))
    with jax.ensure_compile_time_eval():
        lifts = np.asarray(_lifts(space, jnp.asarray(points)))
    ones = (lifts[0] == 1.0) & (lifts[0] == lifts[1])
    ones &= (lifts[0] != 0.0).sum(axis=0) == 1
    ones &= (lifts[0] != 0.0).sum(axis=1, keepdims=True) == 1
    return tuple(int(np.argmax(column)) if column.any() else -1 for column in ones.T)


@eqx.filter_jit
def _lifts(space: AbstractSpace, points: Array) -> Array:
    units = jnp.eye(space.nv, dtype=points.dtype)
    columns = jax.vmap(jax.vmap(space.lift, (None, 0), 1), (0, None))
    return columns(points, units)
