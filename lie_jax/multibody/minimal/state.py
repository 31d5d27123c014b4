"""The state of a tree from the initial poses and velocities of its bodies."""

import functools
from collections.abc import Sequence
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion, se3
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.joints.geometry import angle_about, nearest_turn
from lie_jax.mechanics.joints.motions import Kind, Motion
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.multibody.minimal.joints import TreeJoints
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.numerics import dense, small

# Sweeps over the motions of a joint, which one sweep finds where each can be read off alone, and
# Gauss-Newton steps after them, whose convergence is quadratic.
SWEEPS, CORRECTIONS = 10, 4


# Coordinates (bases, 7) and twists (bases, 6) of the bases, coordinates (links, nq) and velocities
# (links, nv) of the links.
Start = tuple[Array, Array, Array, Array]
# Deviations from a joint: of poses (m, rad), then of velocities (m/s, rad/s).
_Misfit = Float[Array, "4"]
# Links of a joint from the nearer body to the farther one, and these bodies' numbers, -1 for the
# ground.
_Row = tuple[tuple[int, ...], tuple[int, int]]


def initial(
    mechanism: Mechanism,
    tree: Tree,
    joints: TreeJoints,
    motions: Sequence[tuple[Motion, ...]],
    motion: tuple[Array, ...],
    rough: bool,
) -> Start:
    """Coordinates and velocities of bases and joints from the `motion` of the bodies, stacked.

    Raises `ValueError`, naming the joint and by how much, if they do not fit the joints, unless a
    rough fit is enough. Where traced ones do not fit, the start is NaN: a run from there ends as
    `Result.non_finite`.
    """
    rows = []
    for first, last in pairwise(accumulate(map(len, motions), initial=0)):
        links = sorted(tree.links[first:last])
        nearer, farther = tree.nearer[links[0]], tree.bases + links[-1]
        ends = -1 if nearer < 0 else tree.bodies[nearer], tree.bodies[farther]
        rows.append((tuple(links), ends))
    start, misfit = _fit(tree, tuple(rows), joints, motion)
    if rough:
        return start
    position, orientation, velocity, _ = motion
    root = float(jnp.finfo(position.dtype).eps) ** 0.5
    if not checks.has_tracers(misfit):
        scale = 1.0 + float(np.max(np.abs(position)) + np.max(np.abs(velocity)))
        _refuse_misfit(mechanism, misfit, scale * root)
        return start
    scale = 1.0 + jnp.max(jnp.abs(position)) + jnp.max(jnp.abs(velocity))
    # A quaternion of zeros has the matrix of no rotation, which may fit.
    held = orientation[np.asarray([body for _, (_, body) in rows], int)]
    unit = jnp.abs(jnp.sum(held**2, axis=1) - 1.0) <= 2.0 * root
    # Welds have no numbers of their own: all of the state shows the misfit.
    fits = jnp.all(misfit <= scale * root) & jnp.all(unit)
    bases, twists, coordinates, rates = (jnp.where(fits, x, jnp.nan) for x in start)
    return bases, twists, coordinates, rates


def _refuse_misfit(mechanism: Mechanism, misfit: Array, slack: float) -> None:
    for what, columns, units, fields in (
        ("poses", slice(2), ("m", "rad"), "position= and orientation="),
        ("velocities", slice(2, 4), ("m/s", "rad/s"), "velocity= and omega_body="),
    ):
        deviations = np.asarray(misfit)[:, columns]
        if not np.all(deviations <= slack):
            finite = np.where(np.isfinite(deviations), deviations, np.inf)
            worst = int(np.argmax(np.max(finite, axis=1)))
            far, turned = deviations[worst]
            others = int(np.sum(np.any(finite > slack, axis=1))) - 1
            more = f", and {others} other joints do not fit either" if others else ""
            placing = ", or let lie_jax.place(mechanism) search poses" if what == "poses" else ""
            raise ValueError(
                f"the initial {what} of the bodies do not fit "
                f"{element_name(mechanism.joints[worst])}: they are off by {far:.3g} {units[0]} "
                f"and {turned:.3g} {units[1]}; at most {slack:.1g} is allowed{more}: correct "
                f"{fields} of the bodies, or the joint's points, axis and orientation{placing}."
            )


@eqx.filter_jit
def _fit(
    tree: Tree, rows: tuple[_Row, ...], joints: TreeJoints, motion: tuple[Array, ...]
) -> tuple[Start, Float[Array, "joints 4"]]:
    bases = np.asarray(tree.bodies[: tree.bases], int)
    position, orientation, velocity, omega = motion
    pose = jax.vmap(se3.pose)(jax.vmap(quaternion.to_matrix)(orientation), position)
    linear = jax.vmap(lambda pose, v: small.matvec(pose[:3, :3].T, v))(pose, velocity)
    twist = jnp.concatenate([linear, omega], axis=1)
    base_poses = jax.vmap(SE3().configuration)(position[bases], orientation[bases])
    base_twists = twist[bases]
    coordinates, rates = (
        jnp.zeros((len(joints.kinds), size), twist.dtype) for size in joints.widest
    )
    # The ground comes last, where the number -1 finds it.
    pose = jnp.concatenate([pose, jnp.eye(4, dtype=twist.dtype)[None]])
    twist = jnp.concatenate([twist, jnp.zeros_like(twist[:1])])
    misfit = jnp.zeros((len(rows), 4), twist.dtype)
    # Joints of the same motions are fitted together: compile time does not grow with their number.
    groups: dict[tuple[Kind, ...], list[int]] = {}
    for number, (links, _) in enumerate(rows):
        groups.setdefault(tuple(joints.kinds[i] for i in links), []).append(number)
    for kinds, numbers in groups.items():
        links, ends = map(np.asarray, zip(*[rows[k] for k in numbers], strict=True))
        x, v, deviations = jax.vmap(_fit_joint)(
            joints.pick(links, kinds), *pose[ends.T], *twist[ends.T]
        )
        coordinates = coordinates.at[links, : x.shape[2]].set(x)
        rates = rates.at[links, : v.shape[2]].set(v)
        misfit = misfit.at[np.asarray(numbers)].set(deviations)
    return (base_poses, base_twists, coordinates, rates), misfit


def _fit_joint(
    joints: TreeJoints, nearer: Array, farther: Array, near_twist: Array, far_twist: Array
) -> tuple[Array, Array, _Misfit]:
    """Coordinates and velocities of a joint's links, for which it holds best, and its misfit."""
    relative = se3.compose(se3.inverse(nearer), farther)
    count, (nq, nv) = len(joints.kinds), joints.widest

    def poses(x: Array) -> Array:
        steps = joints.poses(x)
        return jax.vmap(se3.pose)(steps.rotation, joints.parent_point + steps.position)

    # Each motion in turn takes the coordinate for which the joint holds best while the others stay.
    def sweep(x: Array, _) -> tuple[Array, None]:
        for i in range(count):
            steps = poses(x)
            before, after = _product(steps[:i]), _product(steps[i + 1 :])
            target = se3.compose(se3.inverse(before), se3.compose(relative, se3.inverse(after)))
            closest = _coordinates(joints, i, target)
            x = x.at[i, : len(closest)].set(closest)
        return x, None

    def velocities(x: Array, twist: Array) -> tuple[Array, Array]:
        """Joint velocities whose twist, at the farther body, is closest; and the difference."""
        steps = poses(x)
        seen = [se3.inverse(_product(steps[i + 1 :])) for i in range(count)]
        seen = jnp.stack(seen, axis=-1)
        columns = joints.columns(seen[:3, :3], seen[:3, 3])
        twists = jnp.moveaxis(columns, -1, 0).reshape(-1, 6)
        gram = small.matmul(twists, twists.T)
        # Velocities that a link does not have leave empty rows.
        filled = gram + jnp.diag((jnp.diagonal(gram) == 0.0).astype(gram.dtype))
        rates = dense.solve(filled, small.matvec(twists, twist))
        return rates.reshape(count, nv), twist - small.matvec(twists.T, rates)

    def correct(x: Array, _) -> tuple[Array, None]:
        left = se3.log(se3.compose(se3.inverse(_product(poses(x))), relative))
        rates, _ = velocities(x, left)
        single = x.at[:, 0].add(rates[:, 0])
        if nq == 1:
            return single, None
        turned = jax.vmap(lambda x, r: quaternion.multiply(x, quaternion.exp(r)))(x, rates)
        return jnp.where(swivels[:, None], turned, single), None

    # Angles and distances of zero, and identity quaternions.
    swivels = jnp.asarray([kind == "swivel" for kind in joints.kinds])
    x = jnp.zeros((count, nq), relative.dtype).at[:, 0].set(swivels.astype(relative.dtype))
    x, _ = sweep(x, None)
    if count > 1:
        x, _ = jax.lax.scan(sweep, x, length=SWEEPS)
        x, _ = jax.lax.scan(correct, x, length=CORRECTIONS)
    fitted = _product(poses(x))
    relative_twist = far_twist - small.matvec(se3.Ad(se3.inverse(fitted)), near_twist)
    rates, left = velocities(x, relative_twist)
    misfit = (
        fitted[:3, 3] - relative[:3, 3],
        fitted[:3, :3] - relative[:3, :3],
        left[:3],
        left[3:],
    )
    # Norms of zero have no derivatives.
    misfit = jax.lax.stop_gradient(misfit)
    far, turned, *speeds = (jnp.linalg.norm(part) for part in misfit)
    # |R - 1| = √8 sin(θ / 2) of a rotation R by the angle θ.
    turned = 2.0 * jnp.arcsin(jnp.minimum(turned / np.sqrt(8.0), 1.0))
    return x, rates, jnp.stack([far, turned, *speeds])


def _product(poses: Array) -> Float[Array, "4 4"]:
    return functools.reduce(se3.compose, poses, jnp.eye(4, dtype=poses.dtype))


def _coordinates(joints: TreeJoints, i: int, target: Float[Array, "4 4"]) -> Array:
    """Coordinates of link i, for which its pose is closest to this one."""
    rotation, axis = target[:3, :3], joints.axis[i]
    if joints.kinds[i] == "turn":
        later = [j for j in range(i + 1, len(joints.kinds)) if joints.kinds[j] != "slide"]
        if [joints.kinds[j] for j in later] not in (["turn"], ["screw"]):
            return angle_about(axis, small.matmul(rotation, joints.home[i].T))[None]
        # The axis of the only later turn shows the angle, however far that one is turned.
        second_axis = joints.axis[later[0]]
        for j in reversed(range(i + 1, later[0])):
            second_axis = small.matvec(joints.home[j], second_axis)
        start, end = (small.matvec(r, second_axis) for r in (joints.home[i], rotation))
        along = small.dot(axis, start) * small.dot(axis, end)
        sine, cosine = small.dot(axis, small.cross(start, end)), small.dot(start, end) - along
        return jnp.arctan2(sine, cosine)[None]
    if joints.kinds[i] in ("slide", "screw"):
        point = target[:3, 3] + small.matvec(rotation, joints.child_point[i])
        distance = small.dot(axis, point - joints.parent_point[i])
        if joints.kinds[i] == "slide":
            return distance[None]
        assert joints.pitch is not None
        # The child's distance along the axis determines the number of turns.
        pitch = jnp.where(joints.pitch[i] == 0.0, jnp.inf, joints.pitch[i])
        angle = angle_about(axis, small.matmul(rotation, joints.home[i].T))
        return nearest_turn(angle, jax.lax.stop_gradient(distance / pitch))[None]
    if joints.kinds[i] == "swivel":
        free = quaternion.from_rotation(rotation)
        return jnp.where(free[0] < 0.0, -free, free)
    return jnp.zeros(1, axis.dtype)
