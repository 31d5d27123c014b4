"""Heavy top of [S3] 4.1: error against step size, for both models, storages and integrators."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

import lie_jax
from experiments import _plots, _report
from models import heavy_top

# [S3] Fig. 3 takes h = 1e-4 / 2^n; larger steps show where the straight lines begin.
STEP_COUNTS = (2_500, 5_000, 10_000, 20_000, 40_000, 80_000)
CASES = {
    "RKMK4, free": (lie_jax.RKMK("rk4"), False),
    "RKMK DOPRI5, free": (lie_jax.RKMK("dopri5"), False),
    "RKMK RK67, free": (lie_jax.RKMK("rk67"), False),
    "generalized-α, free": (lie_jax.GeneralizedAlpha(0.9), False),
    "generalized-α, constrained": (lie_jax.GeneralizedAlpha(0.9), True),
}
STORAGES = ("quaternion", "rotation_vector")


def end_point(coordinates: str, integrator, constrained: bool, steps: int) -> np.ndarray:
    """Centre of mass after 1 s."""
    system, state = heavy_top.build(lie_jax.R3SO3(coordinates=coordinates), constrained=constrained)
    trajectory = lie_jax.simulate(
        system, integrator, state, dt=1.0 / steps, steps=steps, save=steps
    )
    return np.asarray(heavy_top.center_of_mass(system, trajectory.q[-1]))


def measure() -> dict[str, dict]:
    """Errors, observed orders and differences of storages of all cases; prints them."""
    reference = np.asarray(heavy_top.REFERENCE[1.0])
    results = {}
    print("error of the centre of mass after 1 s (m), observed order, difference of storages (m)")
    for name, (integrator, constrained) in CASES.items():
        ends = {
            coordinates: [end_point(coordinates, integrator, constrained, n) for n in STEP_COUNTS]
            for coordinates in STORAGES
        }
        errors = [float(np.linalg.norm(e - reference)) for e in ends["quaternion"]]
        between = [float(np.linalg.norm(a - b)) for a, b in zip(*ends.values(), strict=True)]
        orders = np.log2(np.asarray(errors[:-1]) / np.asarray(errors[1:])).tolist()
        results[name] = {
            "h": [1.0 / n for n in STEP_COUNTS],
            "error_m": errors,
            "observed_order": orders,
            "quaternion_minus_rotation_vector_m": between,
        }
        print(f"\n{name}")
        for n, error, order, difference in zip(
            STEP_COUNTS, errors, [float("nan"), *orders], between, strict=True
        ):
            print(f"  h = {1.0 / n:9.3e}  {error:9.2e}  {order:5.2f}  {difference:8.1e}")
    return results


def plot(results: dict[str, dict], path: Path) -> None:
    """Errors against step sizes."""
    figure, axis = plt.subplots(figsize=(6.5, 5.2))
    for (name, case), marker in zip(results.items(), "ov^sD", strict=True):
        axis.loglog(case["h"], case["error_m"], marker=marker, label=name)
    for order, level, smallest in ((2, 8e-4, 4e-5), (4, 4e-7, 4e-5), (6, 1.2e-10, 1.2e-4)):
        steps = np.asarray([4e-4, smallest])
        line = level * (steps / steps[0]) ** order
        axis.loglog(steps, line, color=_plots.BLACK, linewidth=0.8, linestyle=":")
        axis.annotate(f"order {order}", (steps[1], line[1]), fontsize=8, va="top")
    axis.set(
        xlabel="step size h (s)", ylabel="error of the centre of mass at 1 s (m)", xlim=(1e-5, 5e-4)
    )
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_title("Heavy top of [S3] Table 3")
    figure.legend(loc="outside lower center", ncols=2)
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Measure, print a table, write numbers and a plot."""
    results = measure()
    plot(results, folder / "convergence.png")
    _report.write_json(folder / "convergence.json", results)
