"""[S3] 4.1-4.4 by generalized-α: Lie group, Euler parameters, angles (Figs. 2-8, 11-21)."""

import itertools
from pathlib import Path

import jax
import numpy as np

import lie_jax
from experiments import _report
from experiments._implicit_formulations import histories, plots, tables
from experiments._implicit_formulations.cases import CASES, RULES, Case
from experiments._loops import step_costs
from lie_jax.simulation.march import Loop, march

# A run is made in so many parts: after a part in which it failed it is over.
_PARTS = 25
# Steps of one measurement of CPU time.
_TIMED = {
    "heavy top": 1000,
    "constrained heavy top": 500,
    "rotor": 1000,
    "slider-crank": 100,
    "Puma 560": 20,
}


def _run(program, seconds: float, steps: int) -> Loop:
    """The loop after some seconds in that many steps, or after a part with a failed step."""
    system, integrator, state = program
    dt = seconds / steps
    loop = march(system, integrator, state, dt, 0)
    done = 0
    while done < steps:
        part = min(-(-steps // _PARTS), steps - done)
        loop = march(system, integrator, loop, dt, part)
        done += part
        if int(loop.completed) < done:
            break
    return loop


def measure(name: str) -> dict[str, dict[str, dict]]:
    """Errors, orders, Newton iterations and costs of a step in all formulations of a case."""
    case = CASES[name]
    programs, results, timed = {}, {}, {}
    for formulation in case.counts:
        system, state = case.build(case.formulations[formulation])
        results[formulation] = {}
        for rule in case.rules_of(formulation):
            program = programs[formulation, rule] = system, RULES[rule], state
            figures = _series(case, program, case.step_counts(formulation))
            results[formulation][rule] = figures
            for steps, error in zip(case.step_counts(formulation), figures["error"], strict=True):
                if error is not None:
                    timed.setdefault(steps, {})[formulation, rule] = program
    for steps, of_step in timed.items():
        dt = case.seconds / steps
        costs = step_costs(of_step, dt, min(steps, _TIMED[name]))
        for (formulation, rule), cost in costs.items():
            figures = results[formulation][rule]
            figures["step_us"][figures["h"].index(dt)] = cost
    # Compiled programs are of no use for what follows.
    jax.clear_caches()
    return results


def _series(case: Case, program, step_counts: list[int]) -> dict:
    """Results of one method at all step sizes: None where it fails."""
    system = program[0]
    figures: dict[str, list] = {
        key: [] for key in ("h", "error", "iterations", "step_us", "failed")
    }
    for steps in step_counts:
        h = case.seconds / steps
        loop = _run(program, case.seconds, steps)
        completed = int(loop.completed)
        fine = completed == steps
        seen = np.asarray(case.observe(system, loop.state.q))
        error = float(np.linalg.norm(seen - np.asarray(case.reference)))
        figures["h"].append(h)
        figures["error"].append(error if fine else None)
        figures["iterations"].append(int(loop.iterations) / steps if fine else None)
        figures["step_us"].append(None)
        if not fine:
            singular = bool(loop.result == lie_jax.Result.singular)
            figures["failed"].append({"h": h, "t": completed * h, "singular": singular})
    figures["observed_order"] = _orders(figures["error"])
    return figures


def _orders(errors: list[float | None]) -> list[float | None]:
    """log₂ of what halving the step divides the error by; None beside failures."""
    return [
        None if before is None or after is None else float(np.log2(before / after))
        for before, after in itertools.pairwise(errors)
    ]


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and plots."""
    results: dict = {"cases": {}}
    pages = []
    for name in CASES:
        figures = results["cases"][name] = measure(name)
        pages.append(tables.of_case(name, figures))
        print(pages[-1], flush=True)
        plots.convergence(name, figures, folder)
        plots.cost(name, figures, folder)
    results["work"] = tables.work(results["cases"])
    results["heavy_top_motion"] = histories.heavy_top_motion()
    results["slider_crank_motion"] = histories.slider_crank_motion()
    results["puma_motion"] = histories.puma_motion()
    _report.write_json(folder / "results.json", results, indent=1)
    pages += [tables.of_work(results["work"]), tables.of_motions(results)]
    print(*pages[-2:], sep="\n")
    (folder / "tables.md").write_text("\n".join(pages) + "\n")
    plots.heavy_top(results["heavy_top_motion"], folder / "heavy_top.png")
    plots.slider_crank(results["slider_crank_motion"], folder / "slider_crank.png")
    plots.puma(results["puma_motion"], folder / "puma_560.png")
