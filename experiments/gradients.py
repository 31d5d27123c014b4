"""Derivatives by every integrator, in every formulation, with respect to every kind of parameter.

Gradients in both modes and Hessian-vector products against differences; single precision against
double. A run that is cut short goes on where it stopped.
"""

import json
from pathlib import Path

import jax

from experiments._gradients import tables
from experiments._gradients.cases import CASES
from experiments._gradients.measure import measure


def main(folder: Path) -> None:
    """Measure, print and write numbers, a table and a plot."""
    file = folder / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for (integrator, formulation), case in CASES.items():
        name = f"{integrator} | {formulation}"
        if name not in results:
            results[name] = measure(case)
            file.write_text(json.dumps(results, indent=1) + "\n")
            if len(results) % 8 == 0:
                # Compiled programs are of no use for the next cases.
                jax.clear_caches()
        print(tables.line(name, results[name]), flush=True)
    results = {" | ".join(name): results[" | ".join(name)] for name in CASES}
    file.write_text(json.dumps(results, indent=1) + "\n")
    (folder / "table.md").write_text(tables.markdown(results))
    tables.heat_map(results, folder / "gradients.png")
