"""Numbers of the experiments on identification support their claims."""

import numpy as np
import pytest

from experiments import satellite_identification
from models import satellite
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_satellite_identification():
    folder, results = numbers_of(satellite_identification, "identification.json")
    assert results["converged"]
    # 453 - 15 degrees of freedom: a standard deviation of 0.068.
    assert abs(results["reduced_chi_squared"] - 1.0) < 3 * 0.068
    for name, row in results["numbers"].items():
        assert abs(row["estimate"] - row["truth"]) < 4 * row["error"], name
    assert results["numbers"]["inertia[0, 0]"]["error"] < 0.02
    assert results["runs_converged"] == satellite_identification.RUNS
    assert 0.93 < results["pooled_coverage"] < 0.97
    for name in ("fit.png", "coverage.png", "correlation.png"):
        assert (folder / name).stat().st_size > 10_000


def test_what_the_gyro_does_not_tell_is_found():
    """The directions follow from the equation of a gyrostat, in `models/satellite.py`."""
    _, results = numbers_of(satellite_identification, "identification.json")
    # Torques, momenta and the inertia J may all be a percent larger: J, which holds the wheels'
    # masses, is more than the parameter.
    scale = results["scale_ambiguity"]
    assert scale["undetermined"] == 1
    change, value = scale["direction"], scale["values"]
    unit = change["gain"] / value["gain"]
    for i in range(3):
        assert abs(change[f"wheels[{i}]"] / value[f"wheels[{i}]"] / unit - 1) < 1e-4
        assert abs(change[f"omega[{i}]"] / unit) < 1e-5
        assert abs(change[f"bias[{i}]"] / unit) < 1e-5
    axes, mass, radius = np.eye(3), satellite.WHEEL_MASS, satellite.WHEEL_RADIUS
    center = mass * radius * axes.sum(axis=0)
    added = 2.0 * (satellite.WHEEL_TRANSVERSE_INERTIA + mass * radius**2) * np.eye(3)
    added -= (center @ center * np.eye(3) - np.outer(center, center)) / (satellite.MASS + 3 * mass)
    for i, j in zip(*np.triu_indices(3), strict=True):
        whole = value[f"inertia[{i}, {j}]"] + added[i, j]
        assert abs(change[f"inertia[{i}, {j}]"] / unit - whole) < 1e-4
    assert 0.009 < results["scale_with_prior"] < 0.012
    # Four wheels: only the sum of their initial momenta a I (Ω + aᵀω) turns the satellite.
    four = results["four_wheels"]
    assert four["undetermined"] == 1
    assert results["four_wheels_inertia_known"]
    axes = np.asarray(satellite.PYRAMID)
    omega = np.asarray([four["values"][f"omega[{i}]"] for i in range(3)])
    change = np.asarray([four["direction"][f"wheels[{i}]"] for i in range(4)])
    momenta = change * (np.asarray(satellite_identification.PYRAMID_SPEEDS) + axes @ omega)
    assert np.linalg.norm(momenta @ axes) < 1e-4 * np.linalg.norm(momenta)
    others = {k: v for k, v in four["direction"].items() if not k.startswith("wheels")}
    assert max(map(abs, others.values())) < 1e-3
