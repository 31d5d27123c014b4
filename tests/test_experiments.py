"""The numbers that `make experiments` has just written hold; run alone, they are made here."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import demo, heavy_top, park_chung

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


# Rounding of energies of 17 J and momenta of up to 61 in SI units over as many as 1000 steps.
DRIFT_ROUNDING = 5e-13


@pytest.mark.slow
def test_park_chung():
    folder, results = _written(park_chung, "results.json")
    drifts = results["drifts"]
    assert drifts["entries"] == 108
    differing = {(e["table"], e["method"], e["h"]): e for e in drifts["differing"]}
    # The paper's rounding in this entry is larger than in all others.
    outlier = differing.pop(("VIII", "CG4", 0.001))
    assert abs(outlier["ours"]) < DRIFT_ROUNDING < outlier["paper"] < 3e-12
    assert len(differing) <= 21
    for place, entry in differing.items():
        assert place[2] <= 0.01 and entry["paper"] < 1e-9, place
        exact = entry["extended_precision"] or 0.0
        assert abs(entry["ours"] - exact) < DRIFT_ROUNDING, place
        assert abs(entry["paper"] - exact) < DRIFT_ROUNDING, place
    operations = results["operations"]
    assert operations["table_v_follows_from_table_x"]
    assert operations["table_ix_follows_from_table_v"]
    for name, entry in operations["methods"].items():
        assert entry["calls"] == entry["calls_paper"], name
    for name, work in results["work"].items():
        errors = np.asarray(work["error_m"])
        orders = np.log2(errors[:-1] / errors[1:])[errors[1:] > 1e-13]
        assert abs(orders[-1] - int(name[2])) < 0.1, (name, orders)
    final = {name: run["angular"][-1] for name, run in results["long_run"].items()}
    assert final["CG4"] > 1.5 * max(final["CF4"], final["MK4"])
    assert final["CG3"] > 1.5 * max(final["CF3"], final["MK3"])
    for name in ("drift.png", "long_drift.png", "work.png"):
        assert (folder / name).stat().st_size > 10_000
