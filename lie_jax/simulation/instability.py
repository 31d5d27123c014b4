"""Modes that an explicit method lets grow, told from the stages of its steps."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.stability import Estimate
from lie_jax.user_functions import libraries

# An unstable mode grows in each step, a stop, a contact or dry friction that is met makes
# differences of stages grow in one or two: growth counts to this factor (of squares) a step.
_MOST_A_STEP = 4.0
# Growth of differences by a factor of 100 is an instability, as is a smaller one, which one step
# does not explain, in so many steps beyond the limit in a row.
_GROWN, _GROWING, PATIENCE = 1e4, 5.0, 20
# Steps beyond the limit count from here, above rounding and loads that change in a step; what one
# of them shows depends on the phase of an oscillation, so that runs count the mean of theirs.
_BEYOND = 1.02
# A short run has grown if differences have, by more than their phase explains in so many steps.
_SHORTLY, _FEW = 2.0, 5
# Impacts, and friction where bodies come to rest, take a few steps beyond the limit: fewer than
# this part of a run.
_PART = 0.05


class Growth(NamedTuple):
    """Growth of the differences of stages up to a step.

    `size`: their square in the last step; `growth`: its factor since it began to grow, at least 1,
    in steps in which the method may let modes grow; `peak`: largest size before. `beyond`: number
    of last steps beyond the limit of stability, `passed` that of all. Of the first `PATIENCE`
    steps, `steps`: their number, `above`: how many of them were beyond the limit, `certain`: how
    many of them no mode has that decays, `gain`: product of their gains.
    """

    size: Float[Array, ""]
    growth: Float[Array, ""]
    peak: Float[Array, ""]
    beyond: Int[Array, ""]
    passed: Int[Array, ""]
    steps: Int[Array, ""]
    above: Int[Array, ""]
    certain: Int[Array, ""]
    gain: Float[Array, ""]

    @classmethod
    def begin(cls, alike: Array) -> "Growth":
        """Growth before the first step, with numbers in the precision of an array."""
        none, number = jnp.zeros((), alike.dtype), jnp.zeros((), jnp.int32)
        return cls(none, none + 1.0, none, number, number, number, number, number, none + 1.0)

    def after(self, step: Estimate) -> "Growth":
        """Growth after one more step."""
        tiny = jnp.finfo(step.size.dtype).tiny
        factor = step.size / jnp.maximum(self.size, tiny)
        factor = jnp.clip(factor, 1.0 / _MOST_A_STEP, _MOST_A_STEP)
        # Differences of the first step have nothing to be compared with.
        factor = jnp.where(self.size > 0.0, factor, 1.0)
        growth = self.growth * jnp.where(step.fast, factor, jnp.minimum(factor, 1.0))
        growth = jnp.maximum(growth, 1.0)
        peak = jnp.where(growth > 1.0, self.peak, jnp.maximum(self.peak, step.size))
        first = self.steps < PATIENCE
        gain = jnp.clip(step.gain / _BEYOND, 1.0 / _MOST_A_STEP, _MOST_A_STEP)
        return Growth(
            size=step.size,
            growth=growth,
            peak=peak,
            beyond=jnp.where(step.rate > 1.0, self.beyond + 1, 0),
            passed=self.passed + _is_beyond(step).astype(jnp.int32),
            steps=self.steps + first.astype(jnp.int32),
            above=self.above + (first & (step.rate > 1.0)).astype(jnp.int32),
            certain=self.certain + (first & step.certain).astype(jnp.int32),
            gain=self.gain * jnp.where(first, gain, 1.0),
        )

    def unstable(self) -> Bool[Array, ""]:
        """Whether a mode has grown to more than there was before."""
        lasting = (self.beyond >= PATIENCE) & (self.growth >= _GROWING)
        return ((self.growth >= _GROWN) | lasting) & (self.size >= self.peak)

    def explains(self, step: Estimate, before: "Growth", overflow: Array) -> Bool[Array, ""]:
        """Whether this growth, after a step that failed, is the reason; `before` that step.

        One step beyond the limit explains any failure, modes that have grown explain an overflow.
        """
        beyond = _is_beyond(step) | (before.beyond > 0)
        return beyond | overflow & ((step.rate > 1.0) | (before.growth > 1.0))

    def shortly_unstable(self) -> Bool[Array, ""]:
        """Whether a run is too short for `unstable`, and most of its steps were beyond the limit.

        Differences have then grown, except in a single step, which shows no growth. In so few steps
        that their phase explains growth, one of them at least is no step of a mode that decays.
        """
        most = (4 * self.above >= 3 * self.steps) & (self.gain > 1.0)
        grown = (self.steps == 1) | (self.growth >= _SHORTLY)
        explained = (self.steps < _FEW) & (self.certain == 0)
        return (self.steps > 0) & (self.steps < PATIENCE) & most & grown & ~explained


def _is_beyond(step: Estimate) -> Bool[Array, ""]:
    """Whether one step alone shows that it was beyond the limit."""
    return (step.rate > 1.0) & (step.gain > _BEYOND)


def warn_of_steps_beyond(growth: Growth | None, taken: Any, stability: Any, dt: Any) -> None:
    """Warn of a successful run with many steps beyond the limit, in which something bounds modes.

    `taken`: number of steps that `growth` has seen; `stability`: h |λ| relative to the limit; `dt`:
    size of the steps, s.
    """
    passed = 0 if growth is None else int(growth.passed)
    if passed >= max(PATIENCE, _PART * int(taken)):
        libraries.warn(
            f"lie_jax.simulate: {passed} of {int(taken)} steps were beyond the limit of stability "
            f"of the explicit method, up to {float(stability):.3g} times by an estimate that may "
            "be too small. Friction, a stop or another bound let no mode grow, but the speeds and "
            "forces that it bounds, and their derivatives, alternate from step to step: take a dt "
            f"(it is {float(dt):.6g} s) with which trajectory.stats.stability is below 1, a law "
            "that rises more slowly, such as Coulomb(velocity=) with a larger speed, or an "
            "implicit method."
        )
