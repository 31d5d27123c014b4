"""Runs of any length by one compiled loop, and what a step costs."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

import lie_jax


class Loop(NamedTuple):
    """A state with the integrator's own carry, and how it came there.

    `completed` counts the steps before the state became infinite or NaN; `singular` tells whether
    the coordinates then had reached a singularity of the formulation.
    """

    state: lie_jax.State
    carry: Any
    completed: Array
    singular: Array


def start(system, integrator, state: lie_jax.State, dt: Array) -> Loop:
    """Where `march` begins with steps of size dt (s)."""
    zero = jnp.zeros((), state.q.dtype)
    carry = eqx.filter_jit(integrator.init)(system, zero, dt, state, None)
    return Loop(state, carry, jnp.zeros((), jnp.int32), jnp.zeros((), bool))


@eqx.filter_jit
def march(system, integrator, loop: Loop, t: Array, dt: Array, steps: Array) -> Loop:
    """The loop after `steps` steps of size dt (s) from time t, compiled once for any number.

    Explicit methods without projection integrate a system with joints in its index-1 form:
    accelerations fulfil the twice differentiated constraints, and nothing holds the constraints
    themselves.
    """

    def body(i, loop):
        now = t + i.astype(dt.dtype) * dt
        step = integrator.step(system, now, dt, loop.state, loop.carry, None)
        finite = jnp.isfinite(jnp.sum(step.state.q) + jnp.sum(step.state.v))
        regular = jnp.asarray(system.regular(step.state.q))
        state = jax.tree.map(lambda x: jnp.where(regular, x, jnp.nan), step.state)
        completed = loop.completed + (finite & regular).astype(jnp.int32)
        return Loop(state, step.carry, completed, loop.singular | (finite & ~regular))

    return jax.lax.fori_loop(0, steps, body, loop)


def run(system, integrator, state: lie_jax.State, seconds: float, steps: int) -> Loop:
    """The loop after some seconds in that many steps."""
    dt = jnp.asarray(seconds / steps)
    loop = start(system, integrator, state, dt)
    return march(system, integrator, loop, jnp.zeros(()), dt, jnp.asarray(steps))


# System, integrator and initial state.
Program = tuple[Any, Any, lie_jax.State]

_TURNS = 15


def step_costs(programs: Mapping[Any, Program], dt: float, steps: int) -> dict[Any, float]:
    """CPU time of a step (µs) of each program.

    They take turns, and the smallest time of each counts: what disturbs a measurement only adds to
    it. `steps` of size dt (s) make one measurement.
    """
    best = dict.fromkeys(programs, float("inf"))
    for program in programs.values():
        jax.block_until_ready(run(*program, dt, 1))
    for _ in range(_TURNS):
        for key, program in programs.items():
            begin = time.process_time()
            jax.block_until_ready(run(*program, steps * dt, steps))
            best[key] = min(best[key], (time.process_time() - begin) / steps * 1e6)
    return best
