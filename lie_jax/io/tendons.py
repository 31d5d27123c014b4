"""Tendons of a file as forces along combinations of joint coordinates, and along lines of sites."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lie_jax.io.compiled import CompiledFile
from lie_jax.mechanics.forces.tendons import CouplingForce, PathForce

# Joints of a mechanism by their numbers in the file.
Joints = Mapping[int, Any]


def parts(file: CompiledFile, tendon: int, kind: str) -> list[int] | None:
    """Rows of the parts of a tendon, of this kind: "JOINT" or "SITE"; None if others are there."""
    model, first = file.model, int(file.model.tendon_adr[tendon])
    rows = range(first, first + int(model.tendon_num[tendon]))
    wanted = getattr(file.mujoco.mjtWrap, f"mjWRAP_{kind}")
    return list(rows) if all(model.wrap_type[row] == wanted for row in rows) else None


def force(
    file: CompiledFile, joints: Joints, tendon: int, *, relaxed: Any, **law: Any
) -> CouplingForce | PathForce | None:
    """Force along a tendon; `relaxed`: the range of its length in the file; others as there.

    None around geoms, over pulleys, and for a tendon that no motion changes.
    """
    model = file.model
    rows = parts(file, tendon, "JOINT")
    if rows is not None:
        numbers = [int(joint) for joint in model.wrap_objid[rows]]
        if not all(joint in joints for joint in numbers):
            # Joints of a deformable body.
            return None
        coefficients = model.wrap_prm[rows]
        # Coordinates of the mechanism are the file's less their zeros.
        relaxed = relaxed - coefficients @ [file.zero(joint) for joint in numbers]
        coupled = [joints[joint] for joint in numbers]
        return CouplingForce(coupled, coefficients, relaxed=relaxed, **law)
    rows = parts(file, tendon, "SITE")
    if rows is None:
        return None
    points: list[tuple[str, np.ndarray]] = []
    for site in model.wrap_objid[rows]:
        name, point, _ = file.site(int(site))
        # A line of no length has no direction.
        if not points or name != points[-1][0] or np.any(point != points[-1][1]):
            points.append((name, point))
    if len({name for name, _ in points}) < 2:
        return None
    return PathForce(points, relaxed=relaxed, **law)


def springs(file: CompiledFile, joints: Joints) -> Iterator[CouplingForce | PathForce]:
    """Springs and dampers of the tendons."""
    model = file.model
    for tendon in range(file.count("tendon")):
        stiffness = 0.0 if file.disables("SPRING") else float(model.tendon_stiffness[tendon])
        damping = 0.0 if file.disables("DAMPER") else float(model.tendon_damping[tendon])
        if stiffness or damping:
            law = {"relaxed": model.tendon_lengthspring[tendon]}
            made = force(file, joints, tendon, stiffness=stiffness, damping=damping, **law)
            if made is not None:
                yield made
