"""The numbers of the experiments with optimal control hold."""

import pytest
from numpy.testing import assert_allclose

from experiments import satellite_reorientation
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_satellite_reorientation():
    folder, results = numbers_of(satellite_reorientation, "optimum.json")
    for table in ("principal", "general", "limited"):
        for best in results[table].values():
            assert best["converged"]
            assert best["gradient_norm"] < 1e-8
            assert best["violation"] < 1e-9
    known = results["known_cost"]
    principal = results["principal"]
    assert principal["iLQR"]["iterations"] < 20
    for best in principal.values():
        assert_allclose(best["cost"], known["held"], rtol=1e-8)
    general = [best["cost"] for best in results["general"].values()]
    limited = [best["cost"] for best in results["limited"].values()]
    # Gradients of 1e-8 and ends within 1e-9 of the target.
    assert_allclose(general, general[0], rtol=1e-8)
    assert_allclose(limited, limited[0], rtol=1e-8)
    assert general[0] < limited[0] < results["fixed_axis_bound"]
    for name in ("reorientation.png", "reorientation.gif"):
        assert (folder / name).stat().st_size > 10_000
