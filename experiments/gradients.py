"""Derivatives by every integrator, in every formulation, with respect to every kind of parameter.

Gradients in both modes and Hessian-vector products against differences; single precision against
double. A run that is cut short goes on where it stopped.
"""

import json
import multiprocessing
import os
from pathlib import Path

import lie_jax
from experiments import _report
from experiments._gradients import tables
from experiments._gradients.cases import CASES
from experiments._gradients.measure import measure
from experiments._gradients.tables import Errors

# Compiled programs of one case are of no use to others: a process that ends frees them.
_CASES_A_PROCESS = 8


def _set_up() -> None:
    lie_jax.configure(fast_loops=False, cache=False)


def main(folder: Path) -> None:
    """Measure, print and write numbers, a table and a plot."""
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    names = {" | ".join(case): case for case in CASES}
    # Most of the time is tracing and compiling, which keeps one core busy; a process that JAX runs
    # in cannot be forked.
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(os.cpu_count(), _set_up, (), _CASES_A_PROCESS) as pool:
        missing = [case for name, case in names.items() if name not in results]
        for name, found in pool.imap_unordered(_measured, missing):
            results[name] = found
            _report.write_json(file, results, indent=1)
            print(tables.line(name, found), flush=True)
    results = {name: results[name] for name in names}
    _report.write_json(file, results, indent=1)
    (folder / "table.md").write_text(tables.markdown(results))
    tables.heat_map(results, folder / "gradients.png")


def _measured(case: tuple[str, str]) -> tuple[str, Errors]:
    return " | ".join(case), measure(CASES[case])
