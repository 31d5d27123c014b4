"""All formulations and integrators on one model: error against cost."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

import lie_jax
from experiments import _plots, _report
from experiments._command.choices import FORMULATIONS, INTEGRATORS, built
from lie_jax import viz

# Numbers of steps of each method, and how many times finer the reference solution is.
_STEPS = (50, 100, 200, 400)
_FINER = 4


def compared(model: str, t_end: float, folder: Path) -> None:
    """Print and write a table and a plot; a pair that does not fit the model is left out."""
    reference = _reference(model, t_end)
    errors: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    pairs = [(f, i) for f in FORMULATIONS for i in INTEGRATORS]
    left_out = {}
    try:
        for formulation, integrator in tqdm(pairs, unit="pair", desc=model):
            name = f"{formulation}, {integrator}"
            try:
                rows = [
                    _end(model, formulation, INTEGRATORS[integrator](), t_end, n) for n in _STEPS
                ]
            except (SystemExit, ValueError, lie_jax.SimulationError) as error:
                left_out[name] = str(error).splitlines()[0]
                continue
            errors[name] = [float(np.max(np.abs(x - reference))) for x, _ in rows]
            costs[name] = [seconds for _, seconds in rows]
    except KeyboardInterrupt:
        print("interrupted: what was computed is kept")
    if not errors:
        raise SystemExit(f"no formulation and integrator fits {model}")
    rows = [
        (name, *(f"{error:.1e}" for error in errors[name]), f"{costs[name][-1]:.2g}")
        for name in sorted(errors, key=lambda name: errors[name][-1])
    ]
    lines = [
        f"Error of rotation matrices and positions (m) after {t_end} s with {_STEPS[0]} to "
        f"{_STEPS[-1]} steps, and seconds of computing for the last",
        "",
        *_report.table(("formulation, integrator", *map(str, _STEPS), "s"), rows),
        *("", "Left out:", *(f"- {name}: {why}" for name, why in left_out.items())),
    ]
    table = "\n".join(lines)
    print(table)
    (folder / "table.md").write_text(table + "\n")
    _report.write_json(folder / "numbers.json", {"errors": errors, "costs": costs}, indent=1)
    _plots.save(viz.work_precision(costs, errors), folder / "work_precision.png")


def _end(
    model: str, formulation: str | None, integrator: Any, t_end: float, steps: int
) -> tuple[np.ndarray, float]:
    """Rotation matrices and positions at the end, and processor time of a run that is compiled."""
    system, state = built(model, formulation)

    def run():
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=t_end / steps, steps=steps,
            save=steps,
        )  # fmt: skip
        return jax.block_until_ready(trajectory)

    run()
    begin = time.process_time()
    trajectory = run()
    seconds = time.process_time() - begin
    poses = system.poses(trajectory.q[-1])
    return np.concatenate([np.ravel(part) for part in poses]), seconds


def _reference(model: str, t_end: float) -> np.ndarray:
    steps = _FINER * _STEPS[-1]
    if not built(model, None)[0].nc:
        return _end(model, None, lie_jax.RKMK("rk67"), t_end, steps)[0]
    alpha = lie_jax.GeneralizedAlpha(0.9)
    coarse, fine = (_end(model, None, alpha, t_end, n)[0] for n in (steps, 2 * steps))
    # Richardson's extrapolation of a method of second order.
    return fine + (fine - coarse) / 3.0
