"""Projection onto the constraints, on the right side of each joint, from far starts too."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import rules, waits
from lie_jax.systems.index1 import project_onto_constraints
from lie_jax.systems.system import AbstractSystem, State, Time
from lie_jax.user_functions import snapshots

_ITERATIONS = 20
# Sizes (rad, and m or parts of the distance from the origin) of the random changes of a start from
# which the constraints are not reached, one after the other.
_CHANGES = (0.1, 0.1, 0.3, 0.3, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0)


class Closure(NamedTuple):
    """State after a search, violations (positions,) of its position constraints, and its sides."""

    state: State
    gaps: Float[Array, " positions"]
    sides: Float[Array, " joints"]

    @property
    def wrong_side_joint(self) -> int | None:
        """Number of a joint on its wrong side, None without one."""
        wrong = ~(np.asarray(self.sides) > 0.0)
        return int(np.argmax(wrong)) if wrong.any() else None

    @property
    def worst(self) -> tuple[int, float] | None:
        """Number and size of the largest violation, None where the constraints hold."""
        eps = float(jnp.finfo(self.gaps.dtype).eps)
        limit = eps**0.5 * (1.0 + float(jnp.max(jnp.abs(self.state.q), initial=0.0)))
        finite = np.where(np.isfinite(self.gaps), self.gaps, np.inf)
        if np.all(finite <= limit):
            return None
        return int(np.argmax(finite)), float(np.max(finite))

    @property
    def holds(self) -> bool:
        """Whether all constraints hold, on the right side of each joint."""
        return self.worst is None and self.wrong_side_joint is None


def close(system: AbstractSystem, t: Array, state: State, iterations: int) -> Closure:
    """Search for a state on the constraints, on the right side of each joint.

    Gauss-Newton steps move positions along M⁻¹Bᵀ on the group, with rotations measured as angles;
    the velocity then changes least. Where that fails, random changes of the start are tried, always
    the same ones; not inside JAX transformations that compile.
    """
    closure = _close_from(system, t, state, iterations, jnp.zeros_like(state.v))
    held, start = rules.stop_gradient(system), rules.stop_gradient(state)
    known = rules.stop_gradient(closure)
    if checks.has_tracers(known) or known.holds or not system.nv:
        return closure
    draw = np.random.default_rng(0)
    magnitude = np.maximum(np.asarray(held.space.magnitude(start.q)), 1.0)
    for size in _CHANGES:
        change = size * magnitude * draw.standard_normal(system.nv)
        change = jnp.asarray(change, state.q.dtype)
        if _close_from(held, rules.stop_gradient(t), start, iterations, change).holds:
            return _close_from(system, t, state, iterations, change)
    return closure


@eqx.filter_jit
def _close_from(
    system: AbstractSystem, t: Array, state: State, iterations: int, change: Array
) -> Closure:
    if system.nv:
        state = State(system.space.flow(state.q, change), state.v)
        state, gaps = project_onto_constraints(system, t, state, iterations, system.closing())
    else:
        gaps = jnp.abs(system.constraint(t, state.q))
    return Closure(state, gaps, system.validity.branch_signs(t, state.q))


@waits.announce("the projection")
def project(system: AbstractSystem, state: State, t: Time = 0.0) -> State:
    """A state nearby that satisfies the position and velocity constraints, redundant ones too.

    Positions move along M⁻¹Bᵀ by twenty Gauss-Newton steps, with rotations measured as angles, so
    that no joint is met turned over; where this fails, starts around the given one are tried. The
    velocity then gets the smallest change in the kinetic-energy norm. `t` is the time in seconds.
    Returns a `State`; differentiable. Raises `ValueError`, with the joint, if the constraints do
    not hold after it, because they contradict each other or cannot be reached from there (not
    inside JAX transformations, where there is one start and the result then violates them), and for
    anything else than a system and a state.
    """
    if not isinstance(system, AbstractSystem) or not isinstance(state, State):
        raise ValueError(
            "lie_jax.project takes a system and a State, and was given values of the types "
            f"{type(system).__name__} and {type(state).__name__}: pass both as lie_jax.assemble "
            "returns them."
        )
    if not system.nc:
        return state
    system, t = snapshots.freeze(system), jnp.asarray(t, state.q.dtype)
    closure = close(system, t, state, _ITERATIONS)
    known = rules.stop_gradient(closure)
    if not checks.has_tracers(known) and not known.holds:
        starts = f"also from {len(_CHANGES)} starts around the given one"
        if known.worst is None:
            joint = system.validity.joint_name(known.wrong_side_joint or 0)
            raise ValueError(
                f"lie_jax.project ends with {joint} turned over, half a turn from where it "
                f"belongs, {starts}; its constraints hold there, but no motion leads there: start "
                "from poses that nearly fit, such as those of lie_jax.place(mechanism)."
            )
        number, gap = known.worst
        raise ValueError(
            f"lie_jax.project leaves a violation of {gap:.3g} (m or rad) at "
            f"{system.owner(system.nv + number)}, {starts}; the constraints must not contradict "
            "each other and be within reach: remove a joint, or start from poses that nearly fit, "
            "such as those of lie_jax.place(mechanism)."
        )
    return closure.state
