"""The fifteen systems of [S3] Table 1: all formulations and integrators against digits."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _report
from experiments._command.choices import FORMULATIONS
from experiments._fifteen_systems import plots, tables
from experiments._fifteen_systems.cases import CASES, Case
from experiments._loops import failure
from lie_jax.simulation.march import march


class Method(NamedTuple):
    """An integrator, its order, and the formulations that run with it, besides R3SO3."""

    integrator: lie_jax.extend.AbstractIntegrator
    order: int
    others: tuple[str, ...] = ()


_OTHERS = tuple(FORMULATIONS)[1:]
METHODS = {
    "RKMK rk4": Method(lie_jax.RKMK("rk4"), 4, _OTHERS),
    "generalized-α": Method(lie_jax.GeneralizedAlpha(0.9), 2, _OTHERS),
    "RKMK rk67": Method(lie_jax.RKMK("rk67"), 6, ("Minimal",)),
    "Crouch-Grossman 3": Method(lie_jax.CrouchGrossman(3), 3),
    "commutator-free 4": Method(lie_jax.CommutatorFree(4), 4),
    "RATTLie": Method(lie_jax.RATTLie(), 2),
    "BDF 2": Method(lie_jax.BDF(2), 2),
    "Gauss 4": Method(lie_jax.ImplicitRKMK("gauss4"), 4),
}
# Steps of the case times these.
REFINEMENTS = (1, 2, 4)
# Errors below are rounding for orders.
_ROUNDING = 1e-11
# Runs whose error is to fall below 1e-10 are refined up to so many steps.
_FINEST = 32
# Calls of a run, of which the fastest counts, unless they take this long (s).
_CALLS = 5
_LONG = 2.0
# Step of the differences, and of the parameters, which are factors of 1.
_DIFFERENCE = 2e-3


class Run(NamedTuple):
    """Steps, error, CPU time (s), Newton iterations a step, drifts, and why it failed or None."""

    steps: int
    error: float | None
    cpu_s: float
    iterations: float
    constraint: float
    energy: float
    failure: str | None


def run(case: Case, built: tuple, method: Method, steps: int) -> Run:
    """A run to the end of the case; its time is the least of a few calls after the first."""
    system, state = built

    def call(count: int):
        return jax.block_until_ready(
            march(system, method.integrator, state, case.duration / steps, count)
        )

    # One program serves all numbers of steps.
    call(1)
    times: list[float] = []
    end = None
    # Other work on the machine disturbs short runs most, and long ones are not worth a repeat.
    while end is None or (len(times) < _CALLS and sum(times) < _LONG):
        begin = time.process_time()
        end = call(steps)
        times.append(time.process_time() - begin)
    cpu = min(times)
    reason = failure(end.result)
    if reason:
        return Run(steps, None, cpu, 0.0, 0.0, 0.0, reason)
    q, v = end.state.q, end.state.v
    error = float(np.max(np.abs(np.asarray(case.read(system, q, v)) - case.truth)))
    energies = [
        float(system.kinetic_energy(*at) + system.potential_energy(at[0]))
        for at in ((state.q, state.v), (q, v))
    ]
    drift = abs(energies[1] - energies[0]) / max(map(abs, energies))
    gap = float(jnp.max(jnp.abs(system.constraint(case.duration, q)), initial=0.0))
    return Run(steps, error, cpu, float(end.iterations) / steps, gap, drift, None)


def measure(case: Case) -> dict[str, dict[str, Any]]:
    """Runs by formulation and method; of a pair that is refused the reason."""
    results: dict[str, dict[str, Any]] = {}
    for name, formulation in FORMULATIONS.items():
        results[name] = {}
        built = case.build(formulation(), 1.0)
        for label, method in METHODS.items():
            if name not in ("R3SO3", *method.others):
                continue
            try:
                # `march` does not ask the integrator, as `simulate` does.
                method.integrator.check(built[0])
            except ValueError as refusal:
                results[name][label] = str(refusal)
                continue
            runs = [run(case, built, method, case.steps * n) for n in REFINEMENTS]
            while label == "RKMK rk67" and _goes_on(case, runs):
                runs.append(run(case, built, method, 2 * runs[-1].steps))
            results[name][label] = [r._asdict() | {"order": o} for r, o in _with_orders(runs)]
    return results


def _goes_on(case: Case, runs: list[Run]) -> bool:
    last = runs[-1]
    unsolved = last.error is None or last.error > 0.5e-10
    return unsolved and last.steps < _FINEST * case.steps


def _with_orders(runs: list[Run]) -> list[tuple[Run, float | None]]:
    """All runs with the order by which the error is smaller than that of the run before."""
    pairs: list[tuple[Run, float | None]] = []
    before = None
    for entry in runs:
        order = None
        if before is not None and entry.error is not None and entry.error > _ROUNDING:
            order = float(np.log2(before / entry.error))
        pairs.append((entry, order))
        before = entry.error
    return pairs


def gradient(case: Case) -> float:
    """Largest difference of a derivative by the parameter, in reverse mode, and by differences.

    Both are those of the run with the fewest steps in the model's own formulation, relative to the
    value.
    """
    method = METHODS[case.differentiable].integrator

    def end(x: jax.Array) -> jax.Array:
        system, state = case.build(None, x)
        trajectory = lie_jax.simulate(
            system, method, state, dt=case.duration / case.steps, steps=case.steps,
            save=case.steps,
        )  # fmt: skip
        return case.read(system, trajectory.q[-1], trajectory.v[-1])

    one = jnp.ones(())
    weights = jnp.linspace(1.0, 2.0, case.truth.size)
    value, slope = jax.jit(lambda x: (end(x) @ weights, jax.grad(lambda x: end(x) @ weights)(x)))(
        one
    )
    forward = jax.jit(lambda x: end(x) @ weights)
    step = _DIFFERENCE
    near, far = (forward(one + h) - forward(one - h) for h in (step, 2.0 * step))
    double = forward(one + 4.0 * step) - forward(one - 4.0 * step)
    # Differences of order 6, from three steps.
    first, second = (8.0 * near - far) / (12.0 * step), (8.0 * far - double) / (24.0 * step)
    difference = (16.0 * first - second) / 15.0
    scale = max(abs(float(slope)), abs(float(value)))
    return abs(float(slope - difference)) / scale


def drift() -> dict[str, dict[str, float | None]]:
    """Open constraints at the end of runs that hold them in accelerations only, by formulation;
    None of runs that end early.
    """
    method = Method(lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(0.0)), 4)
    gaps: dict[str, dict[str, float | None]] = {}
    for name in ("heavy top, constrained", "floating bodies, ball joint", "floating bodies, hinge"):
        case, gaps[name] = CASES[name], {}
        for label, formulation in FORMULATIONS.items():
            if label != "Minimal":
                end = run(case, case.build(formulation(), 1.0), method, case.steps)
                gaps[name][label] = None if end.failure else end.constraint
    return gaps


def main(folder: Path) -> None:
    """Measure all systems, print the tables, write numbers and pictures."""
    lie_jax.configure()
    results: dict[str, Any] = {"systems": {}}
    for name, case in CASES.items():
        begin = time.perf_counter()
        results["systems"][name] = {"runs": measure(case), "gradient": gradient(case)}
        _report.write_json(folder / "results.json", results, ascii=False)
        print(f"{case.number} {name}: {time.perf_counter() - begin:.0f} s", flush=True)
        # Compiled programs are of no use for the next case.
        jax.clear_caches()
    results["drift"] = drift()
    _report.write_json(folder / "results.json", results, ascii=False)
    print(*tables.lines(results), sep="\n")
    plots.integrators(results["systems"], folder / "integrators.png")
    plots.formulations(results["systems"], folder / "formulations.png")
