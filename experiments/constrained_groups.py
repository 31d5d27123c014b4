"""Open questions of [S3], [S4], [S2]: SE(3) against R³×SO(3) in mechanisms, Cayley, index 2.

All by the generalized-α method: errors, orders, iterations, drift of constraints, energy, and what
a step costs.
"""

from pathlib import Path

import jax

from experiments import _report
from experiments._constrained_groups import long_runs, measure, newton_costs, plots, tables
from experiments._constrained_groups.cases import CASES


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and plots."""
    cases = {}
    for name, case in CASES.items():
        truth, error = measure.reference(case)
        cases[name] = {
            "unit": case.unit,
            "reference_error": error,
            "programs": measure.measure(case, truth),
            "extrapolated": measure.extrapolated(case),
        }
        # Compiled programs are of no use for the next case.
        jax.clear_caches()
    tables.cases(cases)
    tables.summary(cases)
    tables.extrapolations(cases)
    noise = long_runs.noise()
    tables.noise(noise)
    energies = long_runs.energies()
    tables.energies(energies)
    survival = long_runs.survival()
    tables.survival(survival)
    jax.clear_caches()
    newton = newton_costs.measure()
    tables.newton(newton)
    results = {
        "cases": cases,
        "noise": noise,
        "energies": energies,
        "survival": survival,
        "newton": newton,
    }
    _report.write_json(folder / "results.json", results)
    plots.errors(cases, folder / "errors.png")
    plots.noise(noise, folder / "noise.png")
    plots.energy(energies, folder / "energy.png")
