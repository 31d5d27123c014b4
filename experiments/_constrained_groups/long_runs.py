"""The undamped double pendulum over 1e5 steps, and at steps that grow small."""

import equinox as eqx
import jax
import numpy as np

import lie_jax
from experiments._constrained_groups.cases import method
from experiments._constrained_groups.measure import REFERENCE_METHOD
from experiments._constrained_groups.runs import Program, seen
from models import double_pendulum

GROUPS = {"SE(3)": lie_jax.SE3(), "R³×SO(3)": lie_jax.R3SO3()}
DAMPING = (1.0, 0.9, 0.5)
STEP, STEPS, SAMPLES = 1e-3, 100_000, 1000
EXPLICIT = "RKMK4, projection"


def energies() -> dict:
    """Energy over time of each group and method, less its initial value (J), and the drifts."""
    results: dict = {"t": np.linspace(0.0, STEP * STEPS, SAMPLES + 1).tolist(), "runs": {}}
    for group, formulation in GROUPS.items():
        system, state = double_pendulum.build(formulation)
        methods: dict[str, lie_jax.extend.AbstractIntegrator] = {
            f"index {index}, ρ∞ = {rho:g}": method(rho, index=index)
            for index in (3, 2)
            for rho in DAMPING
        }
        methods[EXPLICIT] = lie_jax.RKMK("rk4", stabilization=lie_jax.Projection())
        for name, integrator in methods.items():
            results["runs"][f"{group}, {name}"] = _energy(system, state, integrator)
    return results


def _energy(system, state, integrator) -> dict:
    recording = Program(system, integrator, state, SAMPLES).run(STEP, STEPS, STEPS // SAMPLES)
    energy = np.asarray(_total(system, recording.q, recording.v))
    reached = int(np.sum(np.isfinite(energy)))
    change = energy[:reached] - energy[0]
    t = np.linspace(0.0, STEP * STEPS, SAMPLES + 1)[:reached]
    return {
        "initial_J": float(energy[0]),
        "change_J": change.tolist(),
        # Energy oscillates with the motion; a straight line through it tells what it loses.
        "slope_J_per_s": float(np.polyfit(t, change, 1)[0]),
        "largest_J": float(np.max(np.abs(change))),
        "end_s": float(t[-1]),
        "iterations": int(recording.iterations) / STEPS,
    }


@eqx.filter_jit
def _total(system, q, v):
    def total(q, v):
        return system.kinetic_energy(q, v) + system.potential_energy(q)

    return jax.vmap(total)(q, v)


SURVIVAL_SECONDS = 20.0
SURVIVAL_DAMPING = (1.0, 0.999, 0.99, 0.95, 0.9, 0.5)
SURVIVAL_COUNTS = (1250, 2500, 5000, 10_000, 20_000)
_SURVIVAL_SAMPLES = 250


def survival() -> dict:
    """Durations (s) of runs of 20 s, by index and damping, at steps of several sizes."""
    system, state = double_pendulum.build(lie_jax.R3SO3())
    results: dict = {"h": [SURVIVAL_SECONDS / n for n in SURVIVAL_COUNTS], "end_s": {}}
    for index in (3, 2):
        for rho in SURVIVAL_DAMPING:
            program = Program(system, method(rho, index=index), state, SAMPLES)
            ends = []
            for steps in SURVIVAL_COUNTS:
                every = steps // _SURVIVAL_SAMPLES
                recording = program.run(SURVIVAL_SECONDS / steps, steps, every)
                noted = np.isfinite(np.asarray(recording.q[: _SURVIVAL_SAMPLES + 1, 0]))
                ends.append((int(np.sum(noted)) - 1) * every * SURVIVAL_SECONDS / steps)
            results["end_s"][f"index {index}, ρ∞ = {rho:g}"] = ends
    return results


NOISE_METHODS = ((3, 0.9), (3, 0.5), (2, 0.9))
NOISE_SECONDS = 0.02
_NOISE_SAMPLES = 200
# All beyond the number of samples are multiples of it.
NOISE_COUNTS = (10, 20, 50, 100, 200, 400, 1000, 2000, 5000, 10_000, 20_000)


def noise() -> dict:
    """Largest errors of multipliers (N) and twists at steps from 2e-3 s down to 1e-6 s."""
    system, state = double_pendulum.build(lie_jax.R3SO3())

    def run(integrator, steps):
        every = max(1, steps // _NOISE_SAMPLES)
        program = Program(system, integrator, state, _NOISE_SAMPLES)
        recording = program.run(NOISE_SECONDS / steps, steps, every)
        count = steps // every
        return seen(program, double_pendulum.centers_of_mass, recording, count)

    truth = run(REFERENCE_METHOD, _NOISE_SAMPLES)
    results: dict = {"h": [NOISE_SECONDS / n for n in NOISE_COUNTS], "multipliers": {}}
    for field in ("multipliers", "twists"):
        results[field] = {}
    for index, rho in NOISE_METHODS:
        runs = [run(method(rho, index=index), n) for n in NOISE_COUNTS]
        for field in ("multipliers", "twists"):
            results[field][f"index {index}, ρ∞ = {rho:g}"] = [
                _difference(getattr(r, field), getattr(truth, field)) for r in runs
            ]
    return results


def _difference(values: np.ndarray, truth: np.ndarray) -> float:
    stride = (truth.shape[0] - 1) // (values.shape[0] - 1)
    return float(np.max(np.abs(values - truth[::stride])))
