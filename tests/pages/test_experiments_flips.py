"""Numbers of the flip, the robot's motion and the swing-up support their claims."""

import numpy as np
import pytest

from experiments import pendulum_swing_up, puma_energy, quadrotor_flip
from tests.results import numbers_of

pytestmark = pytest.mark.full

# Largest entry of the relative gradient and of the end values: what the methods aim at.
OPTIMAL = 1e-6
# Two searches for one local optimum: costs are flat there, so that inputs agree less than costs.
SAME_COST = 1e-6
SAME_INPUTS = 1e-2
# J: some ten N m times the end's error in angle, and its rate.
WORK = 1e-2


def _check_optimum(found):
    for method, numbers in found["methods"].items():
        assert numbers["converged"], method
        assert numbers["gradient_norm"] < OPTIMAL, method
        assert numbers["violation"] < OPTIMAL, method
    assert found["cost_difference"] < SAME_COST
    assert found["input_difference"] < SAME_INPUTS


def _check_pictures(folder, name):
    for ending in ("png", "gif"):
        assert 10_000 < (folder / f"{name}.{ending}").stat().st_size < 1_500_000


def test_quadrotor_flip():
    folder, found = numbers_of(quadrotor_flip, "results.json")
    _check_optimum(found)
    _check_pictures(folder, "flip")
    # One turn, and the other sign of the quaternion; hovering would keep it.
    np.testing.assert_allclose(found["quaternion_at_the_end"], [-1.0, 0.0, 0.0, 0.0], atol=OPTIMAL)
    assert abs(abs(found["turn_rad"]) - 2.0 * np.pi) < 0.05
    # The limits act, and are kept.
    assert found["at_a_limit"] > 0
    assert found["smallest_thrust"] >= 0.0
    assert found["largest_thrust"] <= quadrotor_flip.LARGEST * (1.0 + 1e-12)


def test_puma_energy():
    folder, found = numbers_of(puma_energy, "results.json")
    _check_optimum(found)
    _check_pictures(folder, "puma")
    least, controlled = (found["motions"][name] for name in ("least effort", "PD"))
    assert least["effort_s"] < 0.7 * controlled["effort_s"]
    # Integrated on its own with a twentieth of the step.
    assert least["end_angle_error_rad"] < 1e-4
    # From rest to rest without friction: the motors' work is what the weights gain.
    gained = found["potential_gained_J"]
    np.testing.assert_allclose(least["work_J"], gained, rtol=0, atol=WORK)
    largest = np.asarray(controlled["largest_torques_N_m"])
    assert np.all(np.asarray(least["largest_torques_N_m"]) <= largest * (1.0 + 1e-12))


def test_pendulum_swing_up():
    folder, found = numbers_of(pendulum_swing_up, "results.json")
    _check_optimum(found)
    _check_pictures(folder, "swing_up")
    np.testing.assert_allclose(found["end"], 0.0, rtol=0, atol=OPTIMAL)
    # The swing comes from one plane and ends in another.
    assert found["out_of_plane"] > 0.1
