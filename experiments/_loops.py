"""Runs of any length by one compiled loop, and what a step costs."""

import time
from collections.abc import Mapping
from typing import Any

import jax

import lie_jax
from lie_jax.simulation.march import Loop, march


def run(system, integrator, state: lie_jax.State, seconds: float, steps: int) -> Loop:
    """The loop after some seconds in that many steps, compiled once for any number of them.

    Explicit methods without projection integrate a system with joints in its index-1 form:
    accelerations fulfil the twice differentiated constraints, and nothing holds the constraints
    themselves.
    """
    return march(system, integrator, state, seconds / steps, steps)


# Ends of runs that do not count as a success.
_FAILURES = (
    *("newton_failed", "non_finite", "singular", "minimum_step", "step_bound", "out_of_chart"),
    *("departed", "turned_over", "unstable", "acceleration_not_finite"),
)


def failure(result: lie_jax.Result) -> str | None:
    """Name of the reason why a run ended early; None if it did not."""
    return next((name for name in _FAILURES if bool(result == getattr(lie_jax.Result, name))), None)


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
