"""The gaits of the simplest walker are those that are published."""

import numpy as np
import pytest

from experiments import simplest_walker
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_gaits_of_the_simplest_walker():
    folder, results = numbers_of(simplest_walker, "gaits.json")
    # Twelve published digits.
    assert results["error"] < 1e-12
    # Published to four digits, of feet without mass.
    assert round(results["steepest_massless"], 4) == 0.0151
    assert 0.0149 < results["steepest"] < results["steepest_massless"]
    gaits = results["gaits"]
    assert [g["slope"] for g in gaits] == list(simplest_walker.SLOPES)
    for gait in gaits:
        assert gait["residual"] < 1e-12
        assert gait["stable"] == (gait["slope"] < results["steepest"])
    gentle = gaits[0]
    angle = 0.970956 * gentle["slope"] ** (1.0 / 3.0) - 0.270837 * gentle["slope"]
    # Feet of a thousandth of the hip, and terms of higher order.
    np.testing.assert_allclose(gentle["q"][0], angle, rtol=2e-3)
    np.testing.assert_allclose(gentle["period"], 3.812092, rtol=5e-3)
    assert (folder / "simplest_walker.png").stat().st_size > 10_000
