"""Runs that note instants, by one compiled program for every step size, and what they tell."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.systems import index1


class Recording(NamedTuple):
    """Noted instants, the initial one first: t (n,), q, v, multipliers, and Newton iterations."""

    t: Array
    q: Array
    v: Array
    multipliers: Array
    iterations: Array


@eqx.filter_jit
def _record(system, integrator, state, dt, every, samples, rows: int) -> Recording:
    zero, none = jnp.zeros((), state.q.dtype), jnp.zeros((), jnp.int32)
    carry = integrator.init(system, zero, dt, state, None)

    def noted(notes: Recording, k, loop, accelerations=integrator.accelerations) -> Recording:
        state, carry, iterations = loop
        t = (k * every).astype(dt.dtype) * dt
        multipliers = accelerations(system, t, state, carry, None).multipliers
        new = (t, state.q, state.v, multipliers)
        t, q, v, multipliers = (
            jax.lax.dynamic_update_index_in_dim(*pair, k, 0)
            for pair in zip(notes[:4], new, strict=True)
        )
        return Recording(t, q, v, multipliers, iterations)

    def step(i, loop):
        state, carry, iterations = loop
        step = integrator.step(system, i.astype(dt.dtype) * dt, dt, state, carry, None)
        return step.state, step.carry, iterations + step.newton_iterations

    def until_noted(k, both):
        loop, notes = both
        loop = jax.lax.fori_loop(k * every, (k + 1) * every, step, loop)
        return loop, noted(notes, k + 1, loop)

    def nothing(*size):
        return jnp.full((rows + 1, *size), jnp.nan)

    empty = Recording(nothing(), nothing(system.nq), nothing(system.nv), nothing(system.nc), none)
    loop = state, carry, none
    first = noted(empty, none, loop, integrator.first_accelerations)
    return jax.lax.fori_loop(0, samples, until_noted, (loop, first))[1]


class Program(NamedTuple):
    """System, integrator, initial state, and room for so many instants after the first."""

    system: Any
    integrator: Any
    state: Any
    rows: int

    def run(self, dt: float, steps: int, every: int = 1) -> Recording:
        """That many steps of size dt (s), every so many of them noted; the rest is NaN."""
        samples = steps // every
        numbers = jnp.asarray(dt), jnp.asarray(every), jnp.asarray(samples)
        recording = _record(self.system, self.integrator, self.state, *numbers, self.rows)
        return jax.block_until_ready(recording)


class Seen(NamedTuple):
    """Of each noted instant (n,): observed numbers, twists, multipliers and the largest violations
    of the constraints and of their rates.
    """

    observed: np.ndarray
    twists: np.ndarray
    multipliers: np.ndarray
    drift: np.ndarray
    rate_drift: np.ndarray


@eqx.filter_jit
def _seen(system, observe: Callable, redundant: bool, recording: Recording):
    def at(now):
        t, q, v, multipliers = now
        if redundant:
            multipliers = index1.smallest_multipliers(system, t, q, multipliers)
        return (
            observe(system, q),
            jnp.ravel(system.twists(q, v)),
            multipliers,
            jnp.max(jnp.abs(system.constraint(t, q)), initial=0.0),
            jnp.max(jnp.abs(system.constraint_rate(t, q, v)), initial=0.0),
        )

    return jax.lax.map(at, recording[:4])


def seen(program: Program, observe: Callable, recording: Recording, instants: int) -> Seen:
    """Observations at the first instant and this many instants after it."""
    system, state = program.system, program.state
    redundant = bool(system.nc and index1.redundant(system, jnp.zeros(()), state.q))
    everything = _seen(system, observe, redundant, recording)
    return Seen._make(np.asarray(x)[: instants + 1] for x in everything)


_TURNS = 7


def step_costs(programs: Mapping[Any, Program], dt: float, steps: int) -> dict[Any, float]:
    """CPU time of a step (µs) of each program, the smallest of some turns taken in rotation.

    What a run costs without any step is taken off.
    """
    with_steps, without = (dict.fromkeys(programs, float("inf")) for _ in range(2))
    for _ in range(_TURNS):
        for key, program in programs.items():
            for best, count in ((with_steps, steps), (without, 0)):
                begin = time.process_time()
                program.run(dt, count, max(count, 1))
                best[key] = min(best[key], time.process_time() - begin)
    return {key: (with_steps[key] - without[key]) / steps * 1e6 for key in programs}
