"""The numbers of the experiments with optimal control hold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments import satellite_least_time, satellite_reorientation, spring_design
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


# Steps of RK4 inside a piece of constant torque, of the digits by CasADi and IPOPT.
LEAST_TIME, OF_STEPS = 3.2430832769, 1e-8


def test_satellite_least_time():
    folder, results = numbers_of(satellite_least_time, "results.json")
    assert results["converged"]
    assert_allclose(results["least"], LEAST_TIME, rtol=OF_STEPS)
    assert abs(results["least"] - results["published"]) < 1e-4
    # Five switches of one torque at a time, the first half as the second.
    torques = np.asarray(results["torques"])
    assert_allclose(np.sum(np.abs(np.diff(torques, axis=0)), axis=1), 2.0)
    assert_allclose(results["pieces"][:3], results["pieces"][3:], rtol=1e-5)
    assert results["least"] < results["held"] < results["about_one_axis"]
    assert (folder / "least_time.png").stat().st_size > 10_000


# N m/rad: terms of third order over the grid.
LOWEST = (2e-3, 2e-3)


def test_spring_design():
    folder, results = numbers_of(spring_design, "results.json")
    assert results["converged"]
    assert results["lost_in_scans"] == 0
    # Optima with given springs, of other searches, are no better.
    assert results["lowest_cost_of_scans"] >= results["cost"] * (1.0 - 1e-9)
    apart = np.abs(np.subtract(results["lowest_of_scan_N_m_rad"], results["stiffness_N_m_rad"]))
    assert np.all(apart < LOWEST)
    assert results["cost"] < 0.6 * results["without_springs"]
    assert (folder / "springs.png").stat().st_size > 10_000
