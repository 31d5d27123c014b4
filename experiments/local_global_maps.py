"""The question that [S0] leaves open: accuracy and cost of all eight local-global transition maps.

Besides, [S0] 6.3: a Runge-Kutta method on absolute coordinates against the same method in local
coordinates that start at zero in every step.
"""

from pathlib import Path

import jax
import numpy as np

import lie_jax
from experiments import _report
from experiments._local_global_maps import plots
from experiments._local_global_maps.cases import (
    BASE,
    CASES,
    COMBINATIONS,
    NAMES,
    UNHELD_RK4,
    UNHELD_RKMK4,
    Case,
)
from experiments._loops import run, step_costs
from lie_jax.simulation.march import march
from models import heavy_top


def reference(case: Case) -> tuple[np.ndarray, float]:
    """Where the observed point is at the end (3,), and the uncertainty of that (m).

    The chain's is a converged solution by another method than those compared, Fehlberg's of order
    8, and its uncertainty the change when the steps are halved.
    """
    if case.reference is not None:
        return np.asarray(case.reference), 0.0
    system, state = case.build(lie_jax.R3SO3())
    ends = [run(system, lie_jax.RKMK("rkf78"), state, case.seconds, n).state.q for n in (500, 1000)]
    ends = [np.asarray(case.observe(system, q)) for q in ends]
    return ends[1], float(np.linalg.norm(ends[1] - ends[0]))


def measure(case: Case) -> tuple[dict[str, dict], float]:
    """Errors, observed orders, violations of the constraints and costs of all combinations.

    Also returns the uncertainty of the reference (m).
    """
    expected, uncertainty = reference(case)
    results, models = {}, {}
    for key, formulation in COMBINATIONS.items():
        system, state = models[key] = case.build(formulation)
        ends = [
            run(system, case.integrator, state, case.seconds, n).state for n in case.step_counts
        ]
        error = [
            float(np.linalg.norm(np.asarray(case.observe(system, end.q)) - expected))
            for end in ends
        ]
        results[key] = {
            "h": [case.seconds / n for n in case.step_counts],
            "error_m": error,
            "observed_order": np.log2(np.asarray(error[:-1]) / np.asarray(error[1:])).tolist(),
            "joint_drift_m": [_each_joint(system.constraint(0.0, end.q)) for end in ends],
            "joint_drift_m_per_s": [
                _each_joint(system.constraint_jacobian(0.0, end.q) @ end.v) for end in ends
            ],
        }
    programs = {key: (system, case.integrator, state) for key, (system, state) in models.items()}
    # As short as the shortest steps whose error was measured, and tens of milliseconds in all: long
    # against the start of a program.
    shortest = case.seconds / case.step_counts[-1]
    for key, cost in step_costs(programs, shortest, 10_000 if case.reference else 500).items():
        results[key]["step_us"] = cost
    return results, uncertainty


def _each_joint(violation) -> list[float]:
    return np.linalg.norm(np.asarray(violation).reshape(-1, 3), axis=1).tolist()


# [S0] 6.3: the heavy top with a joint, in index-1 form, with quaternions and positions. The
# velocities of the first two methods differ, their coordinates do not.
COORDINATE_METHODS = {
    "coordinates, twists": (UNHELD_RK4, lie_jax.SE3()),
    "coordinates, (ṙ, ω)": (UNHELD_RK4, lie_jax.R3SO3()),
    "local, R³×SO(3)": (UNHELD_RKMK4, lie_jax.R3SO3()),
    "local, SE(3)": (UNHELD_RKMK4, lie_jax.SE3()),
}
DRIFT_STEP = 1e-3
DRIFT_SECONDS = 10
_SAMPLES_A_SECOND = 20


def coordinate_drift() -> dict[str, dict]:
    """Distance from the group, and of the held point from its place, over ten seconds."""
    results = {}
    for name, (integrator, formulation) in COORDINATE_METHODS.items():
        system, state = heavy_top.build(formulation, constrained=True)
        loop = march(system, integrator, state, DRIFT_STEP, 0)
        samples: dict[str, list[float]] = {"t": [], "norm_defect": [], "joint_drift_m": []}
        errors = {}
        steps = round(1.0 / DRIFT_STEP / _SAMPLES_A_SECOND)
        for i in range(DRIFT_SECONDS * _SAMPLES_A_SECOND + 1):
            t = i / _SAMPLES_A_SECOND
            q = loop.state.q
            samples["t"].append(t)
            samples["norm_defect"].append(abs(float(np.linalg.norm(np.asarray(q[3:]))) - 1.0))
            samples["joint_drift_m"].append(_each_joint(system.constraint(t, q))[0])
            if t in heavy_top.REFERENCE:
                point = np.asarray(heavy_top.center_of_mass(system, q))
                expected = np.asarray(heavy_top.REFERENCE[t])
                errors[str(t)] = float(np.linalg.norm(point - expected))
            loop = march(system, integrator, loop, DRIFT_STEP, steps)
        results[name] = samples | {"error_m": errors}
    return results


def report(results: dict) -> None:
    """Print what was measured as tables."""
    for name, case in results["errors"].items():
        steps = case[BASE]["h"]
        print(f"\n{name}: error (m) at h = {', '.join(f'{h:.3g}' for h in steps)} s")
        for key, figures in case.items():
            row = " ".join(f"{e:9.2e}" for e in figures["error_m"])
            orders = " ".join(f"{p:5.2f}" for p in figures["observed_order"])
            print(f"  {key} {NAMES[key[1]]:13} {row}   order {orders}")
            for field in ("joint_drift_m", "joint_drift_m_per_s"):
                worst = np.asarray(figures[field][2])
                if worst.size:
                    print(f"       {field:20}", " ".join(f"{d:8.1e}" for d in worst))
        row = "  ".join(f"{k} {f['step_us'] / case[BASE]['step_us']:5.2f}" for k, f in case.items())
        print(f"  cost of a step: {row}   ({BASE}: {case[BASE]['step_us']:.3g} µs)")
    print("\nuncertainty of the chain's reference (m):", results["chain_reference_uncertainty_m"])
    print(f"\nRunge-Kutta of order 4 at h = {DRIFT_STEP} s on the heavy top with a joint")
    for name, figures in results["coordinates"].items():
        norm, joint = figures["norm_defect"], figures["joint_drift_m"]
        error = " ".join(f"{e:8.1e}" for e in figures["error_m"].values())
        print(
            f"  {name:22} |p| - 1 {max(norm):8.1e}  joint {max(joint):8.1e} m after 10 s, error "
            f"{error} m at 0.1, 0.5, 1 s"
        )


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and plots."""
    results: dict = {"errors": {}, "chain_reference_uncertainty_m": 0.0}
    for name, case in CASES.items():
        results["errors"][name], uncertainty = measure(case)
        if case.reference is None:
            results["chain_reference_uncertainty_m"] = uncertainty
        # Compiled programs are of no use for the next case.
        jax.clear_caches()
    results["coordinates"] = coordinate_drift()
    report(results)
    _report.write_json(folder / "local_global_maps.json", results)
    plots.errors(results["errors"], folder / "errors.png")
    plots.work(results["errors"], folder / "work.png")
    plots.joints(results, folder / "joints.png")
