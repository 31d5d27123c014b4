"""Linear equations of motion about an equilibrium or a steady motion.

A steady motion has velocities v that are constant in the coordinates of the space. Near it, with
q∘x the configuration reached from q along x, δv = ẋ + [v, x] and δv̇ = ẍ + [v, ẋ]. With the
derivatives K, C and M of the residual the equations are therefore

    M ẍ + (C + M ad) ẋ + (K + C ad) x + Bᵀδλ = 0,    B x = 0,    ad x = [v, x].

Their coefficients are constant if M, C, K and the null space of B are constant along the motion.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from lie_jax import checks
from lie_jax.multibody import arguments
from lie_jax.numerics import lapack, rules, waits
from lie_jax.statics import rotation, windings
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import snapshots

# Unbalanced force in parts of the largest one; open constraint in parts of the mechanism's size.
_BALANCE, _CLOSED = 1e-7, 1e-6
# Unbalanced force in units of a stiffness times the mechanism's size times the rounding unit.
_ROUNDING = 1e3
# Rows of constraints that the rows before leave less than this part of are redundant.
_REDUNDANT = 1e-8
# Changes along a motion, in units of the square root of the rounding unit.
_STEADY = 10.0


class _Flaw(IntEnum):
    NONE, OPEN, RATE, FORCE, UNSTEADY = range(5)


class LinearMotion(eqx.Module):
    """Equations M ẍ + C ẋ + K x + Bᵀδλ = 0, B x = 0 near an equilibrium or a steady motion.

    x (nv,) are increments of the configuration, with components of velocities: q = flow(q₀, x).
    Gyroscopic terms are in C, those of inertia, loads and multipliers in K.

    `mass`, `damping`, `stiffness`: M, C and K (nv, nv); `constraints`: B (nc, nv); `multipliers`:
    λ (nc,) of the equilibrium, zero for redundant constraints; `basis`: orthonormal columns (nv, n)
    that span the null space of B; its directions are arbitrary there. Motions are x = `basis` y.
    """

    mass: Float[Array, "nv nv"]
    damping: Float[Array, "nv nv"]
    stiffness: Float[Array, "nv nv"]
    constraints: Float[Array, "nc nv"]
    multipliers: Float[Array, " nc"]
    basis: Float[Array, "nv n"]

    @property
    def reduced_mass(self) -> Float[Array, "n n"]:
        """Mass matrix of y."""
        return self.basis.T @ self.mass @ self.basis

    @property
    def reduced_damping(self) -> Float[Array, "n n"]:
        """Damping and gyroscopic matrix of y."""
        return self.basis.T @ self.damping @ self.basis

    @property
    def reduced_stiffness(self) -> Float[Array, "n n"]:
        """Stiffness matrix of y."""
        return self.basis.T @ self.stiffness @ self.basis


@waits.announce("the linearization")
def linearize(
    system: AbstractSystem,
    state: State,
    *,
    t: ArrayLike = 0.0,
    inputs: ArrayLike | None = None,
) -> LinearMotion:
    """Linear equations of motion about an equilibrium or a steady motion.

    **Arguments:** `state`: an equilibrium, as `lie_jax.equilibrium` computes it, or an instant of a
    steady motion; `t`: the instant (s) of loads and drivers that are functions of time; `inputs`:
    (nu,), held.

    A motion is steady if the velocities v do not change and the equations near it do not either.
    Examples are rotations of a mechanism in `lie_jax.SE3()` about an axis, whose hub a driver or a
    hinge holds, a sleeping top, and spinning flywheels in joint coordinates. Loads must turn along.

    A spring that a run in absolute coordinates has wound by whole turns has them in the system of
    that instant alone, `system.with_memory(jax.tree.map(lambda x: x[k], run.memory))`, with
    `t=run.t[k]`. In `lie_jax.Minimal()` the coordinates of hinges count turns. A spring that is
    wound at the start has its angle at rest in `angle=`, as -4π for two turns.

    The result is differentiable by all parameters, and by the state: pass the state of an
    `equilibrium` that depends on them. Redundant constraints are left out; where JAX traces values
    they make the result NaN.

    Raises `ValueError` for a state in which forces do not balance, constraints are open or the
    motion is not steady, and for systems with velocity constraints. Under `jax.jit` and other
    transformations the result is NaN then.
    """
    t, u = arguments.instant("linearize", system, state, t, inputs)
    checks.instant("linearize(state=): v", state.v, system.nv)
    if system.velocity_rows:
        raise ValueError(
            f"linearize(system=) has {system.velocity_rows} constraints on velocities, which have "
            "no free coordinates: leave rolling bodies out, or hold them by joints."
        )
    system = snapshots.freeze(system)
    result, findings = _linear(system, t, state, u, independent_constraints(system, t, state.q))
    if not checks.has_tracers(findings.flaw) and int(findings.flaw) != _Flaw.NONE:
        raise ValueError(_message(system, t, state, findings))
    sound = findings.flaw == _Flaw.NONE
    return jax.tree.map(lambda x: jnp.where(sound, x, jnp.nan), result)


class _Findings(NamedTuple):
    """First flaw of a state, the equation that has it and its size."""

    flaw: Int[Array, ""]
    equation: Int[Array, ""]
    size: Float[Array, ""]


class _Instant(NamedTuple):
    """Matrices and multipliers at an instant; forces (nv,) that are left, and the part of them that
    is tolerated.
    """

    mass: Array
    damping: Array
    stiffness: Array
    constraints: Array
    multipliers: Array
    unbalanced: Array
    tolerated: Array


def independent_constraints(system: AbstractSystem, t: Array, q: Array) -> tuple[int, ...]:
    """Numbers of constraints of which none depends on those before; all where JAX traces values."""
    everything = tuple(range(system.nc))
    rows = _jacobian(system, t, q) if system.nc else jnp.zeros((0, system.nv))
    if checks.has_tracers(rows):
        return everything
    chosen, directions = [], np.zeros((0, system.nv))
    for number, row in enumerate(np.asarray(rows, float)):
        left = row / (np.linalg.norm(row) or 1.0)
        for _ in range(2):
            left = left - directions.T @ (directions @ left)
        size = np.linalg.norm(left)
        if size > _REDUNDANT:
            chosen.append(number)
            directions = np.concatenate([directions, left[None] / size])
    return tuple(chosen)


@eqx.filter_jit
def _jacobian(system: AbstractSystem, t: Array, q: Array) -> Array:
    return system.constraint_jacobian(t, q)


@eqx.filter_jit
def _linear(
    system: AbstractSystem, t: Array, state: State, u: Array | None, rows: tuple[int, ...]
) -> tuple[LinearMotion, _Findings]:
    q, v, space = state.q, state.v, system.space
    size = _size(system, q)
    speed = jnp.max(jnp.abs(v))
    # A moment in which the motion covers a small part of the mechanism's size; none at rest.
    moving = speed > 0.0
    moment = jnp.where(moving, size / jnp.where(moving, speed, 1.0), 0.0)
    moment = rules.stop_gradient(moment * jnp.finfo(q.dtype).eps ** 0.25)

    def at(time: Array, q: Array) -> _Instant:
        return _instant(system, time, q, v, u, rows)

    times, later = jnp.stack([t, t + moment]), space.flow(q, moment * v)
    both = jax.vmap(at)(times, jnp.stack([q, rules.stop_gradient(later)]))
    now, after = (jax.tree.map(lambda x, i=i: x[i], both) for i in (0, 1))
    turning = rotation.bracket(space, v)
    basis = null_space(now.constraints[jnp.asarray(rows, int)])
    result = LinearMotion(
        mass=now.mass,
        damping=now.damping + now.mass @ turning,
        stiffness=now.stiffness + now.damping @ turning,
        constraints=now.constraints,
        multipliers=now.multipliers,
        basis=basis,
    )
    findings = _findings(system, (t, q, v), moving, now, after, rules.stop_gradient(basis))
    return result, rules.stop_gradient(findings)


def _instant(
    system: AbstractSystem, t: Array, q: Array, v: Array, u: Array | None, rows: tuple[int, ...]
) -> _Instant:
    still, identity = jnp.zeros_like(v), jnp.eye(system.nv, dtype=q.dtype)
    jacobian = system.constraint_jacobian(t, q)
    multipliers = jnp.zeros(system.nc, q.dtype)
    unheld = system.residual(t, q, v, still, multipliers, u)
    if rows:
        chosen = np.asarray(rows, int)
        solved = -_inverse(jacobian[chosen]).T @ unheld
        multipliers = multipliers.at[chosen].set(solved)
    linear = system.linearization(t, q, v, still, multipliers, u).dense()
    stiffness = linear.combined(identity, 1.0, 0.0, 0.0)
    inner = system.under_loads(jnp.zeros((), q.dtype)).force(t, q, v, u)
    sizes = jnp.abs(inner) + jnp.abs(unheld + inner) + jnp.abs(jacobian.T) @ jnp.abs(multipliers)
    eps, size = jnp.finfo(q.dtype).eps, _size(system, q)
    return _Instant(
        mass=linear.combined(identity, 0.0, 0.0, 1.0),
        damping=linear.combined(identity, 0.0, 1.0, 0.0),
        stiffness=stiffness,
        constraints=jacobian,
        multipliers=multipliers,
        unbalanced=unheld + jacobian.T @ multipliers,
        tolerated=jnp.maximum(_BALANCE, 100.0 * eps) * jnp.max(sizes)
        + _ROUNDING * eps * size * jnp.sum(jnp.abs(stiffness), axis=1),
    )


def _findings(
    system: AbstractSystem, instant: tuple, moving: Bool[Array, ""], now: _Instant, after, basis
) -> _Findings:
    t, q, v = instant
    size, nv = _size(system, q), system.nv
    closed = jnp.maximum(_CLOSED, 100.0 * jnp.finfo(q.dtype).eps)
    lengths = closed * jnp.sum(jnp.abs(now.constraints), axis=1)
    speed = jnp.max(jnp.abs(v))
    rates = jnp.where(moving, system.constraint_rate(t, q, v), 0.0)
    scale = jnp.max(jnp.abs(now.constraints), axis=1, keepdims=True)
    slack = _STEADY * jnp.sqrt(jnp.finfo(q.dtype).eps)
    turned = jnp.abs(after.constraints @ basis) / jnp.where(scale > 0.0, scale, 1.0)
    changes = [
        _change(basis, getattr(now, name), getattr(after, name))
        for name in ("mass", "damping", "stiffness")
    ]
    # Changes on the null space belong to the equation that their direction moves most.
    unsteady = jnp.max(jnp.stack([jnp.max(c, axis=1, initial=0.0) for c in changes]), axis=0)
    unsteady = jnp.abs(basis) @ unsteady / slack
    lost = _ratio(after.unbalanced, after.tolerated)

    def worst(part: Array, offset: int, amount: Array) -> tuple[Array, Array, Array]:
        # Largest part of what is tolerated; NaN counts as larger.
        if not part.size:
            return jnp.zeros((), bool), jnp.zeros((), jnp.int32), jnp.zeros((), q.dtype)
        k = jnp.argmax(jnp.where(jnp.isnan(part), jnp.inf, part))
        return ~(part[k] <= 1.0), (k + offset).astype(jnp.int32), amount[k]

    gap, slip = system.constraint(t, q), jnp.max(turned, axis=1, initial=0.0) / slack
    # A row of B or of a force that is zero has no scale: anything is too much for it.
    tests = [
        (_Flaw.OPEN, worst(_ratio(gap, lengths * size), nv, gap)),
        (_Flaw.RATE, worst(_ratio(rates, lengths * speed), nv, rates)),
        (_Flaw.FORCE, worst(_ratio(now.unbalanced, now.tolerated), 0, now.unbalanced)),
        (_Flaw.UNSTEADY, worst(jnp.where(moving, slip, 0.0), nv, slip)),
        (_Flaw.UNSTEADY, worst(jnp.where(moving, unsteady, 0.0), 0, unsteady)),
        (_Flaw.UNSTEADY, worst(jnp.where(moving, lost, 0.0), 0, lost)),
    ]
    findings = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), jnp.zeros((), q.dtype)
    for flaw, (broken, equation, amount) in reversed(tests):
        mine = jnp.full((), int(flaw), jnp.int32), equation, amount
        findings = tuple(jnp.where(broken, a, b) for a, b in zip(mine, findings, strict=True))
    return _Findings(*findings)


def _size(system: AbstractSystem, q: Array) -> Float[Array, ""]:
    """Size of a configuration; one where all coordinates are small, as angles are."""
    return jnp.maximum(jnp.max(system.space.magnitude(q)), 1.0)


def _ratio(value: Array, allowed: Array) -> Array:
    """Sizes of values in units of what is allowed; zero where both are zero."""
    none = (value == 0.0) & (allowed == 0.0)
    return jnp.where(none, 0.0, jnp.abs(value) / jnp.where(none, 1.0, allowed))


def _change(basis: Array, now: Array, after: Array) -> Array:
    """Changes of a matrix on the null space relative to the sizes of its rows and columns."""
    extent = jnp.abs(basis)
    size = jnp.max(extent.T @ jnp.abs(now) @ extent, axis=1, initial=0.0)
    # Entries that vanish are rounding errors of the others.
    rounding = jnp.sqrt(jnp.finfo(now.dtype).eps)
    size = jnp.sqrt(jnp.maximum(size, rounding * jnp.max(jnp.abs(now), initial=0.0)))
    return _ratio(basis.T @ (after - now) @ basis, size[:, None] * size[None])


def _inverse(rows: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """Right inverse of independent rows."""
    return lapack.pseudoinverse(rows, float(jnp.finfo(rows.dtype).eps))


def null_space(rows: Float[Array, "m n"]) -> Float[Array, "n free"]:
    """Orthonormal columns that independent rows take to zero.

    A change of the rows moves the columns across their span only: what does not depend on the
    directions in the span has right derivatives. Householder's reflections keep directions apart
    that no row has: those of stiff and of soft motions do not mix.
    """
    count, n = rows.shape
    if not count:
        return jnp.eye(n, dtype=rows.dtype)
    columns = lapack.orthogonal(rules.stop_gradient(rows).T)[:, count:]

    def move(columns: Array, rows: Array, change: Any) -> Array:
        return -_inverse(rows) @ (change @ columns)

    return rules.value_with_rule(columns, move, rows)


def _message(system: AbstractSystem, t: Array, state: State, findings: _Findings) -> str:
    owner, size = system.owner(int(findings.equation)), float(findings.size)
    match int(findings.flaw):
        case _Flaw.OPEN:
            return (
                f"linearize(state=): {owner} is open by {abs(size):.3g}: close it by "
                "lie_jax.project(system, state) or lie_jax.equilibrium(system, state)."
            )
        case _Flaw.RATE:
            return (
                f"linearize(state=): the velocities break {owner} at a rate of {abs(size):.3g}: a "
                "driver must turn at the rate of the motion."
            )
        case _Flaw.FORCE:
            return (
                f"linearize(state=): forces do not balance; the largest one that is left, "
                f"{abs(size):.3g}, acts on {owner}. Start from lie_jax.equilibrium(system, state), "
                f"for a steady rotation with its rate.{windings.doubt(system, t, state.q)}"
            )
    return (
        f"linearize(state=): the motion is not steady; the equations at {owner} change along it. "
        "Velocities must be constant in the coordinates of the system: describe rotations with "
        "lie_jax.SE3(), and let all loads turn along, or set the velocities, of which the largest "
        f"is {float(jnp.max(jnp.abs(state.v))):.3g}, to zero: lie_jax.State(state.q, 0 * state.v)."
    )
