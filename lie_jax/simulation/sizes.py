"""Sizes of automatic steps: what is tried next, and whether a step is accurate enough."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.integrators import step_size
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.step_size import Adaptive
from lie_jax.simulation.trajectory import Control
from lie_jax.simulation.watching import Move, StepStart

# A step that would end this close before a stop, relative to its size, is extended to the stop.
_REACH = 1.01


class Tried(NamedTuple):
    """Step of a size (s) that was tried, and its error in units of the tolerance.

    `valid`: the limits of the system hold at its end; `fine`: it counts. An event may have
    shortened the `move`.
    """

    size: Float[Array, ""]
    error: Float[Array, ""]
    valid: Bool[Array, ""]
    fine: Bool[Array, ""]
    move: Move


class Sizes(NamedTuple):
    """Rules of a run for its step sizes, and the smallest size, s."""

    adaptive: Adaptive
    smallest: Float[Array, ""]

    @classmethod
    def of(cls, adaptive: Adaptive, times: Float[Array, " n"]) -> "Sizes":
        """Sizes of a run between times, s."""
        smallest = adaptive.dt_min
        if smallest is None:
            latest = jnp.maximum(jnp.abs(times[0]), jnp.abs(times[-1]))
            smallest = 10.0 * jnp.finfo(latest.dtype).eps * latest
        return cls(adaptive, smallest)

    def begin(self, dt: Float[Array, ""]) -> Control:
        """Control before the first step, which is to have a size dt, s."""
        planned = jnp.clip(dt, self.smallest, self.adaptive.dt_max)
        return Control(planned, jnp.ones_like(dt), jnp.zeros((), bool))

    def propose(self, planned: Array, remaining: Array) -> tuple[Array, Array]:
        """Size of a step, with the time that remains to the next stop (s), and whether it lands."""
        lands = remaining <= _REACH * planned
        return jnp.where(lands, remaining, jnp.minimum(planned, 0.5 * remaining)), lands

    def error(self, problem: StepStart, step: Step) -> Float[Array, ""]:
        """Estimated error of a step in units of the tolerance."""
        assert step.error is not None
        ends = problem.state, step.state
        error = step_size.error(self.adaptive, problem.system.space, *ends, step.error)
        return jnp.where(jnp.isnan(error), jnp.inf, error)

    def after(
        self, control: Control, integrator: AbstractIntegrator, tried: Tried
    ) -> tuple[Control, Bool[Array, ""]]:
        """Control after a step that was tried, and whether there is no smaller size."""
        adaptive, order = self.adaptive, integrator.embedded_order
        assert order is not None
        size, error, valid, fine, move = tried
        planned = control.planned
        too_small = ~fine & (jnp.minimum(size, planned) <= self.smallest)
        # A step shortened to hit a stop says nothing about the planned size: keep that size and the
        # previous error.
        shortened = size < planned
        judged = jnp.where(valid | move.happens, error, jnp.inf)
        growth = step_size.factor(adaptive, order, judged, control.error, control.after_rejection)
        # A search that failed says less about the next size than an error does.
        converged = jnp.asarray(move.step.converged) | move.happens
        growth = jnp.where(converged, growth, 0.5)
        following = jnp.where(growth >= 1.0, jnp.maximum(growth * size, planned), growth * size)
        following = jnp.clip(following, self.smallest, adaptive.dt_max)
        # The step to the event may fail though the whole one has not.
        following = jnp.where(move.happens & ~fine, 0.5 * following, following)
        error = jnp.where(fine & ~shortened, error, control.error)
        return Control(following, error, ~fine), too_small
