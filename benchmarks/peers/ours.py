"""The cases by lie_jax, through its public functions only."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import lie_jax
from benchmarks.peers import standing, trees
from benchmarks.peers.cases import (
    PUMA_COMMAND,
    RHO_INF,
    TOLERANCE,
    Missing,
    Program,
    Run,
    link_length,
    run_of,
    spread,
)
from models import chain, heavy_top, loops, puma560, quadruped, rotor, slider_crank

RK4 = lie_jax.RKMK("rk4")
ALPHA = lie_jax.GeneralizedAlpha(RHO_INF)
ITERATIONS, STEPS = "Newton iterations a step", "steps"
# The gradient along the initial velocities against a difference of two runs, relative.
GRADIENT_ERROR = "gradient's distance from a difference of runs"
DIFFERENCE = 1e-6


def version() -> str:
    """Ours and JAX's."""
    return f"lie_jax {metadata.version('lie-jax')}, JAX {jax.__version__}"


def observed(case: str, system: Any, q: jax.Array) -> jax.Array:
    """The point whose motion is compared, m."""
    if case.startswith("top"):
        return heavy_top.center_of_mass(system, q)
    if case == "rotor":
        return rotor.observed_point(system, q)
    if case == "slider-crank":
        return slider_crank.slider_position(system, q)[None]
    if case == "puma":
        return system.poses(q)[1][-1]
    if case in loops.SHAPES:
        return system.poses(q)[1][-1]
    if case.startswith("standing"):
        return q[:3]
    if case.removesuffix(" batch") in trees.SHAPES:
        return trees.observed(system, q)
    return chain.tip(system, q)


def puma_commands() -> list[float]:
    """Angles that the Puma's controllers command from the start on, rad."""
    return [angle + PUMA_COMMAND for angle in puma560.ANGLES]


def model(case: str) -> tuple[Any, lie_jax.State, Any]:
    """System, initial state and integrator."""
    if case.startswith("chain-"):
        links = int(case.removeprefix("chain-"))
        # Rates of rotation that do not grow with the number of links.
        omega = 6 / links * chain.relative_omega(links)
        built = chain.build(n=links, omega_relative=omega, length=link_length(links))
        return *built, ALPHA
    if case in loops.SHAPES:
        return *loops.model(case), ALPHA
    if case.startswith("standing"):
        return *quadruped.build(lift=standing.lift(case)), lie_jax.ConvexContact()
    if case == "top adaptive":
        return *heavy_top.build(), lie_jax.RKMK("dopri5")
    if case.removesuffix(" batch") in trees.SHAPES:
        shape = case.removesuffix(" batch")
        return *trees.model(shape), ALPHA if trees.SHAPES[shape].held else RK4
    builds = {
        "top": (heavy_top.build, {}, RK4),
        "top batch": (heavy_top.build, {}, RK4),
        "top joint": (heavy_top.build, {"constrained": True}, ALPHA),
        "rotor": (rotor.build, {}, ALPHA),
        "slider-crank": (slider_crank.build, {}, ALPHA),
        "puma": (puma560.build, {"commands": puma_commands()}, ALPHA),
        "links": (chain.build, {"formulation": lie_jax.Minimal(), "n": 6}, RK4),
        "links batch": (chain.build, {"formulation": lie_jax.Minimal(), "n": 6}, RK4),
    }
    if case not in builds:
        raise Missing(f"there is no {case}")
    build, options, integrator = builds[case]
    return *build(**options), integrator


def simulated(case: str, run: Run, integrator: Any) -> Callable:
    """`function(system, state)`: the observed point at the end and Newton iterations a step, or
    steps of automatic size.
    """

    def function(system, state):
        if case == "top adaptive":
            adaptive = lie_jax.Adaptive(rtol=TOLERANCE, atol=TOLERANCE)
            trajectory = lie_jax.simulate(
                system,
                integrator,
                state,
                dt=1e-4,
                steps=16_384,
                throw=False,
                adaptive=adaptive,
                save=[run.dt],
            )
            stats = trajectory.stats
            count = stats.completed_steps + stats.rejected_steps
        else:
            trajectory = lie_jax.simulate(
                *(system, integrator, state),
                dt=run.dt, steps=run.steps, save=run.steps, throw=False,
            )  # fmt: skip
            count = jnp.mean(trajectory.stats.newton_iterations.astype(float))
        return observed(case, system, trajectory.q[-1]), count

    return function


def program(case: str, quick: bool) -> Program:
    """A case, or with "gradient of" before it the gradient of the observed point, with respect to
    all physical parameters and the initial state, and as `base` the run alone.
    """
    lie_jax.configure(fast_loops=False, cache=False)
    gradient, name = case.startswith("gradient of "), case.removeprefix("gradient of ")
    run = run_of(name, quick)
    system, state, integrator = model(name)
    function = simulated(name, run, integrator)
    if run.batch > 1:
        change = spread((1.0,) * system.nv, run.batch)
        state = lie_jax.State(
            jnp.broadcast_to(state.q, (run.batch, system.nq)), state.v * jnp.asarray(change)
        )

        # All members have the system in common: as a constant it is faster.
        @eqx.filter_jit
        def forward(_, state):
            return lie_jax.batched(lambda state: function(system, state))(state)

    else:
        forward = eqx.filter_jit(function)
    point, count = jax.block_until_ready(forward(system, state))
    if not bool(jnp.all(jnp.isfinite(point))):
        raise Missing(f"lie_jax fails in {case}")
    end = [float(x) for x in jnp.ravel(point[-1] if run.batch > 1 else point)]
    label = STEPS if name == "top adaptive" else ITERATIONS
    detail = {label: float(jnp.mean(jnp.asarray(count, float)))}

    def once() -> Any:
        return jax.block_until_ready(forward(system, state))

    if not gradient:
        return Program(once, run.units, end, detail)

    @eqx.filter_jit
    @eqx.filter_grad
    def slope(given):
        return jnp.sum(function(*given)[0])

    def reverse() -> Any:
        return jax.block_until_ready(slope((system, state)))

    along = float(jnp.sum(reverse()[1].v * state.v))
    ends = (
        float(jnp.sum(forward(system, lie_jax.State(state.q, (1.0 + change) * state.v))[0]))
        for change in (-DIFFERENCE, DIFFERENCE)
    )
    low, high = ends
    difference = (high - low) / (2.0 * DIFFERENCE)
    detail[GRADIENT_ERROR] = abs(along - difference) / abs(difference)
    return Program(reverse, run.units, end, detail, base=once)
