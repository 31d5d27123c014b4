"""Runs and derivatives of random mechanisms agree between formulations, integrators and modes.

Each test prints the seed of its structure; `random_mechanisms.structure(seed)` builds it again.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.simulation import checks
from tests.multibody import random_mechanisms
from tests.multibody.random_parts import Drawn, Size
from tests.multibody.random_ways import NUMBERS, close, partner, way_of

pytestmark = pytest.mark.full

# Structures of which whole runs and derivatives are compared.
RUNS = 26
# Steps of the coarsest of three runs, which halve the step, and what they last in units of time.
STEPS, DURATION = 8, 0.1
# What is left of an error that halving a step should divide by 2 to the power of the order: twice
# as much, for steps of this length are not small for every mechanism.
ORDER_SLACK = 3.0
# Rounding of forty steps, in the units of the mechanism.
RUN_ROUNDING = 1e-9


class Run(NamedTuple):
    """The end of a run: poses and energy (J); energy at its start, steps and how it ended."""

    rotations: Any
    positions: Any
    energy: Any
    start: Any
    completed: Any


@eqx.filter_jit
def runs(system, integrator, state, dts, inputs) -> Run:
    """To one time with each of three step sizes, of which the last one is STEPS * 4 times taken."""
    steps = 4 * STEPS

    def run(dt, last):
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=dt, steps=steps, inputs=inputs, throw=False
        )

        def energy(k):
            q, v, memory = jax.tree.map(
                lambda x: x[k], (trajectory.q, trajectory.v, trajectory.memory)
            )
            recalling = system.with_memory(memory)
            return recalling.kinetic_energy(q, v) + recalling.potential_energy(q)

        poses = system.poses(trajectory.q[last])
        return Run(*poses, energy(last), energy(0), trajectory.stats.completed_steps)

    return jax.vmap(run)(dts, jnp.asarray([STEPS, 2 * STEPS, 4 * STEPS]))


def three_runs(drawn: Drawn, formulation, integrator) -> tuple[np.ndarray, np.ndarray]:
    """Poses (3, n, 4, 3) without dimension, bodies by number, and relative errors in energy."""
    system, state = lie_jax.assemble(drawn.mechanism, formulation)
    length, mass, time = drawn.size
    inputs = np.tile(drawn.inputs[: system.nu], (4 * STEPS, 1))
    dts = np.asarray([1.0, 0.5, 0.25]) * DURATION * time / STEPS
    checks.check(system, integrator, state, dts[0], 4 * STEPS, inputs)
    run = jax.tree.map(np.asarray, runs(system, integrator, state, dts, inputs))
    assert np.all(run.completed >= STEPS * np.asarray([1, 2, 4])), f"stopped: {run.completed}"
    places = (run.positions - drawn.positions[drawn.order]) / length
    poses = np.concatenate([run.rotations, places[:, :, None, :]], axis=2)
    unit = mass * length**2 / time**2
    return poses[:, np.argsort(drawn.order)], (run.energy - run.start) / unit


def check_runs(seed):
    """One motion whatever the way to compute it; energy without friction; errors fall by order."""
    structure = random_mechanisms.structure(seed)
    if seed % 2:
        structure = structure.conservative()
    drawn = random_mechanisms.draw(structure, seed % NUMBERS)
    formulation, integrator, order = way_of(structure)
    print(f"structure {seed}: {structure}, {formulation}, {integrator}")
    poses, energy = three_runs(drawn, formulation, integrator)
    reference, of_reference = three_runs(drawn, lie_jax.R3SO3(), lie_jax.RKMK("rk4"))

    def falling(what, poses, order):
        first, second = (np.max(np.abs(poses[k + 1] - poses[k])) for k in range(2))
        least = ORDER_SLACK * 0.5**order * first + RUN_ROUNDING
        assert second <= least, f"{what} falls from {first:.3g} to {second:.3g}"
        return second

    error = falling("error", poses, order) + falling("error of reference", reference, 4)
    off = np.max(np.abs(poses[-1] - reference[-1]))
    assert off <= 2.0 * error + RUN_ROUNDING, f"motions are {off:.3g} apart, errors are {error:.3g}"
    if not structure.damped and not structure.rheonomic:
        for e, p, name in ((energy, order, "energy"), (of_reference, 4, "energy of reference")):
            least = ORDER_SLACK * 0.5**p * np.max(np.abs(e[:2])) + 100 * RUN_ROUNDING
            assert abs(e[2]) <= least, f"error of {name} {e}"


def check_derivatives(seed):
    """Forward mode, reverse mode and differences of accelerations by parameters; vmap and loop."""
    structure = random_mechanisms.structure(seed)
    drawn = random_mechanisms.draw(structure, 0, size=Size())
    formulation = partner(structure) if seed % 2 else lie_jax.R3SO3()
    print(f"structure {seed}: {structure}, {formulation}")
    rng = np.random.default_rng([seed, 4])
    system, state = lie_jax.assemble(drawn.mechanism, formulation)
    parts = system.bodies, system.forces, system.gravity
    parameters, rest = eqx.partition(parts, eqx.is_inexact_array)
    directions = jax.tree.map(lambda x: np.asarray(rng.normal()), parameters)
    weights = rng.normal(size=(structure.bodies, 6))

    @eqx.filter_jit
    def value(x, system, parameters, state):
        changed = jax.tree.map(lambda p, d: p * (1.0 + x * d), parameters, directions)
        own = eqx.tree_at(
            lambda s: (s.bodies, s.forces, s.gravity), system, eqx.combine(changed, rest)
        )
        q, v = state.q, state.v
        acceleration = own.acceleration(0.0, q, v, jnp.asarray(drawn.inputs[: own.nu]))
        rates = (own.space.lift(q, v), acceleration)
        return jnp.sum(weights * jax.jvp(own.twists, (q, v), rates)[1])

    @eqx.filter_jit
    def derivatives(x, *rest):
        forward = jax.jvp(lambda x: value(x, *rest), (x,), (jnp.ones(()),))
        return *forward, jax.grad(value)(x, *rest)

    args = system, parameters, state
    one, forward, reverse = (float(x) for x in derivatives(jnp.zeros(()), *args))
    step = 1e-3
    places = np.asarray([0.0, step, -step, 2 * step, -2 * step])
    batch = np.asarray(eqx.filter_vmap(value, in_axes=(0, None, None, None))(places, *args))
    difference = (8.0 * (batch[1] - batch[2]) - (batch[3] - batch[4])) / (12.0 * step)
    scale = 1.0 + abs(one) + abs(forward) + np.max(np.abs(batch))
    close("vmap", one, batch[0], scale)
    close("reverse mode", reverse, forward, scale)
    # The fourth power of the step is 1e-12, times how unlike a parabola the value is.
    close("differences", difference, forward, scale, 1e-6)


@pytest.mark.parametrize("seed", range(RUNS))
def test_runs(seed):
    check_runs(seed)


@pytest.mark.parametrize("seed", range(RUNS))
def test_derivatives(seed):
    check_derivatives(seed)
