"""Numbers of the experiment on shells support the claims of their page."""

import numpy as np
import pytest

from experiments import shells
from tests.results import numbers_of

pytestmark = pytest.mark.full

# Percents between the finest mesh and published digits.
BOUNDS = {
    "cantilever under end shear": 0.1,
    "slit annular plate": 0.5,
    "hemisphere, small loads": 0.6,
    "hemisphere, P = 400": 1.5,
    "cylinder pulled by a quarter": 1.0,
    "pinched cylinder": 7.5,
    "twisted strip": 0.5,
}


def test_shells():
    folder, results = numbers_of(shells, "results.json")
    percents = {name: table[-1]["percent"] for name, table in results["statics"].items()}
    assert percents.keys() == BOUNDS.keys()
    for name, bound in BOUNDS.items():
        assert np.abs(percents[name]).max() < bound, name
    assert np.abs(results["cylinder"]["end"][0]["percent"]).max() < 4.0
    for table in results["frequencies"].values():
        assert np.abs(table[-1]["percent"]).max() < 1.5
    for picture in ("curves.png", "stresses.png"):
        assert (folder / picture).stat().st_size > 10_000
