"""Equality constraints of a file as joints that are constraints: closed loops and couplings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lie_jax.io import tendons
from lie_jax.io.compiled import CompiledFile
from lie_jax.io.imported import ImportedCoupling
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.drivers import (
    COORDINATES,
    CoordinateJoint,
    JointDriver,
)


class Couplings(NamedTuple):
    """Joints of the equality constraints, what they couple, and names of those left out by kind."""

    joints: tuple[AbstractJoint, ...]
    couplings: tuple[ImportedCoupling, ...]
    ignored: dict[str, tuple[str, ...]]


def couplings(file: CompiledFile, joints: Mapping[int, Any]) -> Couplings:
    """Joints of all equality constraints that have a counterpart.

    `joints`: those of the mechanism, by their numbers in the file.
    """
    made, described, ignored = [], [], {}
    for i in range(file.count("equality")):
        name = file.name("equality", i)
        if file.mujoco.mjtEq(file.model.eq_type[i]).name.startswith("mjEQ_FLEX"):
            # MuJoCo adds them to the file's own, without names.
            name = file.name("flex", int(file.model.eq_obj1id[i]))
            ignored.setdefault("equality constraints within the flexible bodies", []).append(name)
            continue
        if not file.model.eq_active0[i] or file.disables("EQUALITY"):
            ignored.setdefault("equality constraints that the file switches off", []).append(name)
            continue
        coupling = _coupling(file, i, joints)
        if coupling is None:
            ignored.setdefault("equality constraints", []).append(name)
            continue
        made.append(coupling[0])
        described.append(coupling[1])
    names = {kind: tuple(dict.fromkeys(of)) for kind, of in ignored.items()}
    return Couplings(tuple(made), tuple(described), names)


def followers(file: CompiledFile) -> set[int]:
    """Joints whose coordinate follows that of another joint, as `<mimic>` states."""
    model, kinds = file.model, file.mujoco.mjtEq
    chosen = np.flatnonzero((model.eq_type == kinds.mjEQ_JOINT) & (model.eq_obj2id >= 0))
    return {int(model.eq_obj1id[i]) for i in chosen}


def _coupling(
    file: CompiledFile, i: int, joints: Mapping[int, Any]
) -> tuple[AbstractJoint, ImportedCoupling] | None:
    model, kinds = file.model, file.mujoco.mjtEq
    kind, name = kinds(model.eq_type[i]), file.name("equality", i)
    first, second = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
    if kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
        is_weld = kind == kinds.mjEQ_WELD
        closure = _closure(file, i, is_weld)
        if closure is None:
            return None
        word = "weld" if is_weld else "connect"
        return closure, ImportedCoupling(name, word, closure.parent, closure.child)
    coefficients = np.trim_zeros(model.eq_data[i, :5], "b")
    if kind == kinds.mjEQ_JOINT:
        pair, scales = (first, second), (1.0, 1.0)
    elif kind == kinds.mjEQ_TENDON:
        of_tendons = _of_tendons(file, first, second)
        if of_tendons is None:
            return None
        pair, scales, is_sum = of_tendons
        if is_sum:
            # Constant length: the second joint moves the first one the other way.
            coefficients = np.asarray([coefficients[0] if coefficients.size else 0.0, -1.0])
    else:
        return None
    # Coordinates of the mechanism and lengths of tendons count from the same pose.
    powers = scales[1] ** np.arange(max(coefficients.size, 1)) / scales[0]
    coefficients = powers * np.pad(coefficients, (0, max(0, 1 - coefficients.size)))
    if any(joint >= 0 and joint not in joints for joint in pair):
        # A joint of a deformable body.
        return None
    follower, leader = joints[pair[0]], joints.get(pair[1])
    names = file.name("joint", pair[0]), "" if leader is None else file.name("joint", pair[1])
    described = ImportedCoupling(name, "joint", *names)
    if leader is not None:
        return CouplingJoint(follower, leader, coefficients), described
    return JointDriver(follower, value=coefficients[0]), described


def _closure(file: CompiledFile, i: int, is_weld: bool) -> CoordinateJoint | None:
    """Points, and orientations of a weld, held together; None within one body."""
    model, data = file.model, file.model.eq_data[i]
    ends = [int(model.eq_obj1id[i]), int(model.eq_obj2id[i])]
    identity = np.asarray([1.0, 0.0, 0.0, 0.0])
    if model.eq_objtype[i] == file.mujoco.mjtObj.mjOBJ_SITE:
        points = [model.site_pos[site] for site in ends]
        turns = [model.site_quat[site] for site in ends]
        ends = [int(model.site_bodyid[site]) for site in ends]
    elif is_weld:
        points, turns = [data[3:6], data[:3]], [data[6:10], identity]
    else:
        points, turns = [data[:3], data[3:6]], [identity, identity]
    if any(model.body_mocapid[body] >= 0 or body in file.points for body in ends):
        # MuJoCo's user drags the other body by it, or it is a point of a deformable one.
        return None
    held = [file.on(*frame) for frame in zip(ends, points, turns, strict=True)]
    (parent, parent_point, home), (child, child_point, turn) = held
    if parent == child:
        return None
    back, orientation = np.zeros(4), np.zeros(4)
    file.mujoco.mju_negQuat(back, turn)
    file.mujoco.mju_mulQuat(orientation, home, back)
    return CoordinateJoint(
        parent,
        child,
        COORDINATES if is_weld else COORDINATES[:3],
        parent_point=parent_point,
        child_point=child_point,
        orientation=orientation if is_weld else identity,
    )


def _of_tendons(
    file: CompiledFile, first: int, second: int
) -> tuple[tuple[int, int], tuple[float, float], bool] | None:
    """Two joints that fixed tendons couple, their coefficients, and whether one tendon has both;
    None for others.
    """
    model = file.model

    def parts(tendon: int) -> list[tuple[int, float]] | None:
        rows = [] if tendon < 0 else tendons.parts(file, tendon, "JOINT")
        if rows is None:
            return None
        return [(int(model.wrap_objid[row]), float(model.wrap_prm[row])) for row in rows]

    of_first, of_second = parts(first), parts(second)
    if of_first is None or of_second is None:
        return None
    counts = len(of_first), len(of_second)
    if counts not in ((1, 0), (2, 0), (1, 1)):
        return None
    both = [*of_first, *of_second, (-1, 1.0)][:2]
    (joint, scale), (other, other_scale) = both
    return (joint, other), (scale, other_scale), counts == (2, 0)
