"""Causes for which a search for an equilibrium ends early, by the equations at its last state."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.statics import windings
from lie_jax.statics.equations import EquilibriumEquations
from lie_jax.statics.search import Search

# Unknowns up to which singular values are computed, in a second or two.
_MOST = 1500
# Part of the stiffness without loads below which a load counts as the largest one.
_LIMIT = 0.1
# Rows of constraints, of length one, that depend on others up to this are redundant.
_REDUNDANT = 1e-8
# Violation of constraints (m, rad) from which a start is far from closing them.
_OPEN = 1e-2


# Angles (rad) so near to half a turn end a search that should wind a spring further.
_NEAR = 0.2


class _Instant(NamedTuple):
    """Defect (n,) and matrix (n, n) of the equations, at the last state or at the start."""

    defect: np.ndarray
    matrix: np.ndarray


@eqx.filter_jit
def _equations(
    problem: EquilibriumEquations, part: Array, q: Array, multipliers: Array
) -> tuple[Array, Array]:
    loaded = problem.under_loads(part)
    return loaded.defect(q, multipliers), loaded.dense_matrix(q, multipliers).entries


def _at(problem: EquilibriumEquations, part: Array, q: Array, multipliers: Array) -> _Instant:
    return _Instant(*map(np.asarray, _equations(problem, part, q, multipliers)))


def causes(problem: EquilibriumEquations, start: Array, reached: Search) -> str:
    """Sentences on the causes that the last state shows, and remedies."""
    part, worst = float(reached.part), problem.system.owner(int(reached.worst))
    sides = np.asarray(problem.system.validity.branch_signs(problem.t, start))
    if not np.all(sides > 0.0):
        joint = problem.system.validity.joint_name(int(np.argmin(sides)))
        return (
            f"The start has {joint} more than a quarter turn from where it holds, near a second "
            "position half a turn off: start from lie_jax.project(system, state)."
        )
    wound = _winding_message(problem, reached)
    if wound is not None:
        return wound
    if bool(reached.out):
        return (
            f"The next load step leads out of the range of a force's law or of the coordinates, "
            f"the most at {worst}: an element turns or shortens too far, or shapes pass through "
            "each other. Give a smaller load, or divide beams into more elements."
        )
    if problem.size > _MOST:
        return (
            "Beyond it no equilibrium continues the start, a direction is free of forces, or "
            f"constraints are redundant. The last attempt failed at {worst}. Give a smaller load "
            "or a start nearer to the equilibrium, hold what is free, or leave redundant "
            "constraints out."
        )
    none, whole = jnp.zeros_like(reached.part), jnp.ones_like(reached.part)
    last = _at(problem, reached.part, reached.q, reached.multipliers)
    for name, values in (("forces", last.defect), ("derivatives of forces", last.matrix)):
        if not np.all(np.isfinite(values)):
            row = int(np.argmin(np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
            return (
                f"There {name} are infinite or NaN at {problem.system.owner(row)}: look for a "
                "division by zero or a root of zero in them, as of bodies in one place."
            )
    nv = problem.system.nv
    free, redundant = _null_space(last.matrix[nv:, :nv])
    if redundant:
        owners = dict.fromkeys(problem.system.owner(nv + row) for row in redundant)
        return (
            f"{len(redundant)} of {problem.system.nc} constraints are redundant, the first one in "
            f"{', '.join(list(owners)[:3])}: the forces in them are not determined. Leave "
            "redundant joints out, or take lie_jax.Minimal(), which has none in trees."
        )
    softest, direction, largest = _softest(last.matrix[:nv, :nv], free)
    rounding = 64.0 * len(last.defect) * float(np.finfo(last.defect.dtype).eps)
    if softest <= rounding * largest:
        under_all = _at(problem, whole, reached.q, reached.multipliers)
        if _softest(under_all.matrix[:nv, :nv], free)[0] <= rounding * largest:
            return (
                f"A direction is free there: no force changes when {_owner(problem, direction)} "
                "moves. Hold it by a joint or a spring. If it hangs, as a pendulum, or a rope or "
                "spring without tension is to hold it, start nearer to the place where it hangs "
                "or that has the tension. Friction holds nothing at rest: its law has no force "
                "without a velocity."
            )
    at_start = _at(problem, none, start, jnp.zeros_like(reached.multipliers))
    if part > 0.0:
        unloaded = _softest(at_start.matrix[:nv, :nv], _null_space(at_start.matrix[nv:, :nv])[0])[0]
        if softest <= _LIMIT * unloaded:
            return (
                f"This is close to the largest load: the least stiffness, against a motion of "
                f"{_owner(problem, direction)}, falls to {softest / unloaded:.2g} of that without "
                "loads. Give a smaller load, or follow the equilibria past it with "
                "lie_jax.equilibrium_path."
            )
    opened = np.abs(at_start.defect[nv:])
    if part == 0.0 and opened.max(initial=0.0) > _OPEN:
        row = int(np.argmax(opened))
        return (
            f"At the start {problem.system.owner(nv + row)} is open by {opened[row]:.3g} (m or "
            "rad), too far to be closed: start from lie_jax.project(system, state), or place the "
            "bodies by lie_jax.place."
        )
    return (
        f"The equations are regular there, and the last attempt failed at {worst}: give a start "
        "nearer to the equilibrium, or a smaller load."
    )


def redundant(problem: EquilibriumEquations, q: Array) -> bool:
    """Whether constraints depend on each other at a configuration."""
    rows = np.asarray(_rows(problem, q))
    return bool(_null_space(rows)[1])


@eqx.filter_jit
def _rows(problem: EquilibriumEquations, q: Array) -> Array:
    return problem.system.constraint_jacobian(problem.t, q)


def _null_space(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Orthonormal columns that rows take to zero, and the numbers of rows that depend on others."""
    redundant, directions = [], np.zeros((0, rows.shape[1]))
    for number, row in enumerate(rows):
        left = row / (np.linalg.norm(row) or 1.0)
        # Twice, as rounding leaves parts of the others after the first time.
        for _ in range(2):
            left = left - directions.T @ (directions @ left)
        size = np.linalg.norm(left)
        if size > _REDUNDANT:
            directions = np.concatenate([directions, left[None] / size])
        else:
            redundant.append(number)
    return np.linalg.qr(directions.T, mode="complete")[0][:, len(directions) :], redundant


def _softest(stiffness: np.ndarray, free: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Least singular value of the stiffness in free directions, its direction, and the largest."""
    if not free.shape[1]:
        return np.inf, np.zeros(len(stiffness)), np.inf
    _, sizes, directions = np.linalg.svd(free.T @ stiffness @ free)
    return float(sizes[-1]), free @ directions[-1], float(np.abs(stiffness).max())


def _owner(problem: EquilibriumEquations, direction: np.ndarray) -> str:
    return problem.system.owner(int(np.argmax(np.abs(direction))))


def _winding_message(problem: EquilibriumEquations, reached: Search) -> str | None:
    """Sentences on a spring that must be wound beyond half a turn, which q does not tell."""
    wound = windings.largest_winding(problem.system, problem.t, reached.q)
    if wound is None or wound.angle <= np.pi - _NEAR:
        return None
    return (
        f"{wound.spring} is wound by {wound.angle:.4g} rad there. Coordinates of bodies do not "
        "tell whole turns: an equilibrium in them has angles between -π and π. Take "
        f"lie_jax.Minimal(), where the coordinate of a hinge counts turns, or {windings.RECALL}."
    )
