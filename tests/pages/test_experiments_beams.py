"""Numbers of the experiment on beams support the claims of their page."""

import numpy as np
import pytest

from experiments import beams
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_beams():
    folder, results = numbers_of(beams, "results.json")
    for name, found in results["statics"].items():
        orders = np.log2(np.divide(found["error"][:-1], found["error"][1:]))
        assert np.abs(orders - 2.0).max() < 0.02, name
        assert found["extrapolated"][-1] < 1e-7, name
        fine = np.divide(found["linear strains"][1:-1], found["linear strains"][2:])
        assert np.abs(np.log2(fine) - 4.0).max() < 0.1, name
    flights = results["flight"]["errors"]
    meshes = [flights[f"{n} elements, 5 ms"] for n in (8, 16, 32)]
    # Its reference has an error of 3e-4.
    assert meshes[0] > 3.0 * meshes[1] > 9.0 * meshes[2]
    invariants = results["flight"]["invariants"]
    for name, found in invariants.items():
        if "RATTLie" in name:
            assert max(found["momentum"], found["angular momentum"]) < 1e-12
        assert found["energy"] < 1e-4
    angles = results["right angle"]
    slow, fast = (angles[f"16 elements a leg, {dt} ms"]["energy"] for dt in ("25", "12.5"))
    assert 3.0 < slow / fast < 5.0
    bows = list(results["slider-crank"].values())
    assert bows[0] < bows[1] < bows[2] and bows[2] - bows[1] < 0.4 * (bows[1] - bows[0])
    # Rigid bars would lock; these lean.
    assert results["four-bar"]["4 elements a bar, 2.5 ms"]["rocker's lean"] > 0.05
    for picture in ("statics.png", "flight.png", "mechanisms.png"):
        assert (folder / picture).stat().st_size > 10_000
