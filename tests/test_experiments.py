"""The numbers that `make experiments` has just written hold; run alone, they are made here."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import demo, heavy_top, unified_velocity

OUT = Path(__file__).parent.parent / "out"


def _written(module, file: str) -> tuple[Path, dict]:
    folder = OUT / module.__name__.split(".")[-1]
    if not (folder / file).exists():
        folder.mkdir(parents=True, exist_ok=True)
        module.main(folder)
    return folder, json.loads((folder / file).read_text())


@pytest.mark.slow
def test_demo():
    folder, written = _written(demo, "estimates.json")
    assert written["converged"]
    assert np.shape(written["center_of_mass"]) == (3,)
    inertia = np.asarray(written["inertia_about_pivot"])
    assert np.all(np.linalg.eigvalsh(inertia) > 0)
    assert written["friction"] > 0
    for name, error in written["standard_errors"].items():
        assert np.all(np.asarray(error) > 0)
        assert np.shape(error) == np.shape(written[name])
    assert written["heldout_rms_mm"] < 0.6
    assert written["heavy_top_error_m"]["RKMK4, free"] < 3e-8
    for name in ("markers.png", "residuals.png", "convergence.png"):
        assert (folder / name).stat().st_size > 10_000


@pytest.mark.slow
def test_heavy_top():
    folder, results = _written(heavy_top, "convergence.json")
    # Orders from h = 1e-4 on; DOPRI5 reaches rounding there, so that larger steps show its order.
    expected = {"RKMK4": (4, 2), "RKMK DOPRI5": (5, 0)}
    # Between rounding and the largest step there is no straight line left for order 6.
    sixth = results.pop("RKMK RK67, free")
    assert sixth["error_m"][2] < 1e-12
    assert max(sixth["quaternion_minus_rotation_vector_m"]) < 1e-11
    for name, case in results.items():
        order, first = expected.get(name.split(",")[0], (2, 2))
        orders = np.asarray(case["observed_order"])[first : first + 2]
        assert np.all(np.abs(orders - order) < 0.05), (name, orders)
        assert max(case["quaternion_minus_rotation_vector_m"]) < 1e-11
    assert (folder / "convergence.png").stat().st_size > 10_000


@pytest.mark.slow
def test_unified_velocity():
    folder, results = _written(unified_velocity, "results.json")
    methods = results["methods"]
    for name, case in methods.items():
        # From h = 1e-3 s to 1e-4 s; smaller steps are at the level of rounding.
        h, errors = (
            np.asarray(results["h"][3:7]),
            np.asarray(case["omega_error_after_one_turn"][3:7]),
        )
        assert np.polyfit(np.log(h), np.log(errors), 1)[0] > 4.0, name
        # After 1 s rounding has been amplified to 1e-5 rad/s of 100 rad/s.
        assert case["omega_error"][6] < 1e-4
        assert case["point_error_m"]["0.25"] < 1e-9
        assert max(case["largest_determinant_error"]["stored"]) < 1e-14
        assert results["point_minus_quaternions_m"][name]["after one turn"] < 1e-11
    for name in ("path", "point", "omega", "determinant", "determinant_steps", "convergence"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
