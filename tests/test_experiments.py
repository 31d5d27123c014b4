"""The experiments run and their numbers hold; `make experiments` runs these."""

import json

import numpy as np
import pytest

from experiments import demo, heavy_top


@pytest.mark.slow
def test_demo(tmp_path):
    demo.main(tmp_path)
    written = json.loads((tmp_path / "estimates.json").read_text())
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
        assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.slow
def test_heavy_top(tmp_path):
    heavy_top.main(tmp_path)
    results = json.loads((tmp_path / "convergence.json").read_text())
    for name, case in results.items():
        expected = 4 if "RKMK" in name else 2
        # From h = 1e-4 on; RKMK4 reaches rounding at the smallest steps.
        orders = np.asarray(case["observed_order"])[2:4]
        assert np.all(np.abs(orders - expected) < 0.05), (name, orders)
        assert max(case["quaternion_minus_rotation_vector_m"]) < 1e-11
    assert (tmp_path / "convergence.png").stat().st_size > 10_000
