"""[S3] 4.1, 4.2 by explicit methods: Lie group, angles, Euler parameters (Figs. 3-5, 11-13)."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _report
from experiments._explicit_formulations import plots
from experiments._explicit_formulations.cases import (
    CASES,
    FORMULATIONS,
    METHODS,
    QUATERNION,
    Case,
)
from experiments._loops import run, step_costs
from lie_jax.simulation.march import march
from models import heavy_top, rotor


def measure(case: Case) -> dict[str, dict[str, dict]]:
    """Errors, orders and costs of a step of all methods in all formulations."""
    results: dict[str, dict[str, dict]] = {}
    programs = {}
    for name, build in case.builds.items():
        system, state = build()
        results[name] = {}
        for method, integrator in METHODS.items():
            programs[name, method] = system, integrator, state
            counts = case.step_counts[name]
            ends = [run(system, integrator, state, case.seconds, n) for n in counts]
            error = [_error(case, system, end.state.q) for end in ends]
            results[name][method] = {
                "h": [case.seconds / n for n in counts],
                "error_m": error,
                "observed_order": np.log2(np.asarray(error[:-1]) / np.asarray(error[1:])).tolist(),
                "failed": [
                    {
                        "h": case.seconds / n,
                        "t": int(end.completed) * case.seconds / n,
                        "singular": bool(end.result == lie_jax.Result.singular),
                    }
                    for n, end in zip(counts, ends, strict=True)
                    if int(end.completed) < n
                ],
            }
    # The default formulation costs differently, and errs as `RV` does.
    model = heavy_top if case is CASES["heavy top"] else rotor
    results[QUATERNION] = {}
    for method, integrator in METHODS.items():
        system, state = model.build()
        programs[QUATERNION, method] = system, integrator, state
        results[QUATERNION][method] = {}
    for (name, method), cost in step_costs(programs, 1e-5, 5_000).items():
        results[name][method]["step_us"] = cost
    return results


def _error(case: Case, system, q) -> float:
    return float(np.linalg.norm(np.asarray(case.observe(system, q)) - np.asarray(case.reference)))


def seconds_to_reach(figures: dict, error: float, duration: float) -> float | None:
    """CPU time (s) to reach an error, interpolated between the steps that were measured.

    None if no step was accurate enough, or the largest one already was.
    """
    cost = np.log([duration / h * figures["step_us"] * 1e-6 for h in figures["h"]])
    errors = np.asarray(figures["error_m"])
    below = np.flatnonzero(errors <= error)
    if not below.size or below[0] == 0:
        return None
    i = below[0]
    if not np.isfinite(errors[i - 1]):
        return float(np.exp(cost[i]))
    fraction = np.log(errors[i - 1] / error) / np.log(errors[i - 1] / errors[i])
    return float(np.exp(cost[i - 1] + fraction * (cost[i] - cost[i - 1])))


class _Coasting(lie_jax.extend.AbstractSystem):
    """Nothing but damped motion on a space: what is left of a step are the method's formulas."""

    of: lie_jax.extend.AbstractSpace

    @property
    def space(self) -> lie_jax.extend.AbstractSpace:
        return self.of

    def mass_matrix(self, q):
        return jnp.eye(self.nv, dtype=q.dtype)

    def force(self, t, q, v, u=None):
        return -v

    def acceleration(self, t, q, v, u=None):
        return -v


def formula_costs() -> dict[str, float]:
    """CPU time of a step (µs) of RK44 when the equations of motion cost nothing."""
    spaces = {
        "RV": lie_jax.R3SO3(coordinates="rotation_vector"),
        QUATERNION: lie_jax.R3SO3(),
        "Rxyz": lie_jax.TaitBryan(),
    }
    programs = {}
    for name, space in spaces.items():
        q = space.configuration(jnp.zeros(3), jnp.asarray([1.0, 0.0, 0.0, 0.0]))
        # Its own coordinates only: no test for singular angles, which belongs to the system.
        system, state = _Coasting(space), lie_jax.State(q, 0.1 * jnp.ones(6))
        programs[name] = system, lie_jax.RKMK("rk4"), state
    return step_costs(programs, 1e-4, 20_000)


# Those for which steps and errors of the paper's code are known, and the looser one for ODE23.
TOLERANCES = {"DOPRI5": (1e-8, 1e-12), "ODE23": (1e-8,)}
_PAIRS = {"DOPRI5": lie_jax.RKMK("dopri5"), "ODE23": lie_jax.RKMK("ode23")}


def adaptive() -> dict[str, dict]:
    """Steps and errors of automatic step sizes on the top, as in [S3] Appendix B."""
    case, results = CASES["heavy top"], {}
    for method, tolerances in TOLERANCES.items():
        for name in FORMULATIONS:
            if method == "ODE23" and name == "EP":
                continue
            system, state = case.builds[name]()
            for tolerance in tolerances:
                trajectory = lie_jax.simulate(
                    system,
                    _PAIRS[method],
                    state,
                    dt=1e-4,
                    steps=100_000,
                    throw=False,
                    adaptive=lie_jax.Adaptive(
                        rtol=tolerance,
                        atol=tolerance,
                        controller="integral",
                        max_increase=2.0,
                    ),
                    save=jnp.asarray([case.seconds]),
                )
                results[f"{method}, {name}, {tolerance:g}"] = {
                    "method": method,
                    "formulation": name,
                    "tolerance": tolerance,
                    "steps": int(trajectory.stats.completed_steps),
                    "rejected": int(trajectory.stats.rejected_steps),
                    "end_s": float(trajectory.stats.end_time),
                    "error_m": _error(case, system, trajectory.q[-1]),
                }
    return results


def closest_to_singular() -> dict[str, float]:
    """Where the angles of the top in the paper's axes come closest to β = ±π/2."""
    system, state = CASES["heavy top"].builds["RV"]()
    steps = 20_000
    trajectory = lie_jax.simulate(system, lie_jax.RKMK("rk67"), state, dt=1.0 / steps, steps=steps)
    rotation = np.asarray(jax.vmap(lambda q: system.poses(q)[0][0])(trajectory.q))
    cos_beta = np.hypot(rotation[:, 0, 0], rotation[:, 0, 1])
    nearest = int(np.argmin(cos_beta))
    return {"t": float(trajectory.t[nearest]), "cos_beta": float(cos_beta[nearest])}


_PATH_STEP, _PATH_SAMPLES = 1e-5, 400


def rotor_path() -> dict:
    """Fig. 10: the left axis point over 4 s by RK67 on the Lie group, h = 1e-5 s."""
    case, integrator = CASES["rotor"], METHODS["RK67"]
    system, state = case.builds["RV"]()
    loop = march(system, integrator, state, _PATH_STEP, 0)
    every = round(case.seconds / _PATH_STEP / _PATH_SAMPLES)
    times, points = [], []
    for i in range(_PATH_SAMPLES + 1):
        times.append(i * every * _PATH_STEP)
        points.append(np.asarray(case.observe(system, loop.state.q)))
        loop = march(system, integrator, loop, _PATH_STEP, every)
    x, y, z = np.asarray(points).T
    # The nutation has decayed by 0.1 s; then the point goes round on a circle.
    later = np.asarray(times) > 0.1
    columns = np.stack([y[later], z[later], np.ones(later.sum())], axis=1)
    centre = np.linalg.lstsq(columns, y[later] ** 2 + z[later] ** 2, rcond=None)[0][:2] / 2
    angle = np.unwrap(np.arctan2(z[later] - centre[1], y[later] - centre[0]))
    rate = np.polyfit(np.asarray(times)[later], angle, 1)[0]
    return {
        "t": times,
        "x": x.tolist(),
        "y": y.tolist(),
        "z": z.tolist(),
        "period_s": abs(2.0 * np.pi / float(rate)),
    }


def paper_references() -> dict[str, float]:
    """Errors (m) of the runs that [S3] takes for exact."""
    errors = {}
    for name, formulation, steps in (
        ("heavy top", "RV", 256_000),
        ("rotor", "Rxyz", 4_000_000),
    ):
        case = CASES[name]
        system, state = case.builds[formulation]()
        end = run(system, METHODS["RK67"], state, case.seconds, steps)
        errors[name] = _error(case, system, end.state.q)
    return errors


def report(results: dict) -> None:
    """Print what was measured as tables."""
    for name in CASES:
        print(f"\n{name}: error (m), observed order")
        for formulation, methods in results[name].items():
            for method, figures in methods.items():
                print(f"  {formulation:12} {method:6} {figures['step_us']:6.2f} µs a step")
                if formulation == QUATERNION:
                    continue
                orders = [float("nan"), *figures["observed_order"]]
                for row in zip(figures["h"], figures["error_m"], orders, strict=True):
                    print("      h = {:9.3e}  {:9.2e}  {:5.2f}".format(*row))
                for failure in figures["failed"]:
                    print("     ", failure)
    for key in ("seconds_to_reach", "adaptive", "closest_to_singular", "references", "formulas"):
        print(f"\n{key}")
        for name, value in results[key].items():
            print(f"  {name}: {value}")
    print("\nprecession period (s):", results["path"]["period_s"])


# The paper gives costs of the first for the top, of the second for the rotor (m).
ACCURACIES = (1e-6, 1e-9)


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and plots."""
    results: dict = {}
    for name, case in CASES.items():
        results[name] = measure(case)
    results["path"] = rotor_path()
    results["references"] = paper_references()
    # Compiled programs are of no use for what follows.
    jax.clear_caches()
    results["formulas"] = formula_costs()
    results["adaptive"] = adaptive()
    results["closest_to_singular"] = closest_to_singular()
    results["seconds_to_reach"] = {
        # Quaternions cost their own and err as rotation vectors do.
        f"{name}, {accuracy:g} m, {method}, {formulation}": seconds_to_reach(
            results[name]["RV"][method] | results[name][formulation][method],
            accuracy,
            case.seconds,
        )
        for name, case in CASES.items()
        for accuracy in ACCURACIES
        for method in METHODS
        for formulation in (*case.builds, QUATERNION)
    }
    _report.write_json(folder / "results.json", results)
    report(results)
    for name, case in CASES.items():
        plots.convergence(name, results[name], folder)
        plots.cost(name, results[name], case.seconds, folder)
    plots.path(results["path"], folder / "path.png")
