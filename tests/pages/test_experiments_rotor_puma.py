"""Models for identification, and the numbers of the experiments on rotor and Puma."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from experiments import puma_identification, rotor_identification
from models import puma560, rotor
from tests.results import numbers_of

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("given", "left", "right"),
    [
        (2.0, (2.0, 2.0, 2.0), (0.0, 2.0, 2.0)),
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (0.0, 2.0, 3.0)),
        (((2.0,), (3.0,)), (2.0, 2.0, 2.0), (0.0, 3.0, 3.0)),
        (((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), (1.0, 2.0, 3.0), (0.0, 5.0, 6.0)),
    ],
)
def test_supports_of_the_rotor_may_differ(given, left, right):
    system, _ = rotor.build(stiffness=given, damping=given)
    supports = system.forces[0].element
    assert_allclose(supports.stiffness, [left, right])
    assert_allclose(supports.damping, [left, right])


def test_supports_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"rotor.build\(damping=\) has the shape \(4,\)"):
        rotor.build(damping=(1.0, 2.0, 3.0, 4.0))


def test_motor_torques_are_what_the_motion_needs():
    t = jnp.asarray(0.3)
    state = lie_jax.State(
        jnp.asarray(puma560.ANGLES) + 0.01, jnp.asarray(puma560.INVERSE_DYNAMICS["rates"])
    )
    none = (0.0,) * 6

    @jax.jit
    def both(q, v):
        system, _ = puma560.build(lie_jax.Minimal())
        free, _ = puma560.build(lie_jax.Minimal(), proportional=none, derivative=none)
        acceleration = system.acceleration(t, q, v)
        needed = free.residual(t, q, v, acceleration, jnp.zeros(0))
        return puma560.motor_torques(system, t, q, v), needed

    exerted, needed = both(state.q, state.v)
    assert np.all(np.abs(exerted) > 0.01)
    # Accelerations of 1e4 rad/s² amplify the rounding of what is balanced here.
    assert_allclose(exerted, needed, rtol=1e-9, atol=1e-9)


def test_motor_torques_are_refused_in_absolute_coordinates():
    system, state = puma560.build()
    with pytest.raises(ValueError, match=r"lie_jax.Minimal\(\)"):
        puma560.motor_torques(system, jnp.asarray(0.0), state.q, state.v)


def _check_fit(results, most_shift):
    assert results["converged"]
    # Chi-squared over its degrees of freedom: 0.1 is three standard deviations of it or more.
    assert abs(results["reduced_chi_squared"] - 1.0) < 0.1
    assert results["integration_error"]["largest_shift_in_standard_errors"] < most_shift
    for row in results["numbers"]:
        # Wrong once in 15 000 for each number.
        assert abs(row["estimate"] - row["truth"]) < 4.0 * row["standard_error"], row["name"]
    total = results["pooled"]
    assert total["runs"] == total["converged"] == 200
    assert 0.93 <= total["coverage"] <= 0.97
    deviation = np.sqrt(0.95 * 0.05 / 200)
    for row in results["numbers"]:
        # Four binomial deviations of one number, and standard deviations of 200 spreads.
        assert abs(row["coverage"] - 0.95) < 4.0 * deviation, row["name"]
        assert abs(row["spread"] - 1.0) < 4.0 / np.sqrt(2 * 200), row["name"]
        assert abs(row["mean_error"]) < 4.0 / np.sqrt(200), row["name"]


def _check_pictures(folder, names):
    for name in names:
        assert (folder / name).stat().st_size > 10_000


def test_supports_are_identified_from_the_orbit():
    folder, results = numbers_of(rotor_identification, "results.json")
    _check_fit(results, 0.5)
    _check_pictures(folder, ("orbit.png", "deviations.png"))
    # Both supports together are known better than each of them, damping by far.
    errors = {row["name"]: row["standard_error"] for row in results["numbers"]}
    for axis in "yz":
        assert 5 * results["sums"][f"damping left + right {axis} (N s/m)"][1] < min(
            errors[f"damping {side} {axis}"] for side in ("left", "right")
        )


def test_links_are_identified_from_torques():
    folder, results = numbers_of(puma_identification, "results.json")
    _check_fit(results, 0.5)
    _check_pictures(folder, ("torques.png", "deviations.png"))
    masses = results["all_masses"]
    assert masses["standard_error_kg"][0] is None and None not in masses["standard_error_kg"][1:]
    # Links 4 and 5 are seen together: 3 g for their sum, far more for each.
    assert masses["correlation_4_5"] < -0.99
    together = next(row for row in results["numbers"] if row["name"] == "mass 4 + 5")
    assert 10 * together["standard_error"] < masses["standard_error_kg"][3]
    for i in range(1, 6):
        truth, error = masses["truth_kg"][i], masses["standard_error_kg"][i]
        assert abs(masses["estimate_kg"][i] - truth) < 4.0 * error
        # The regression takes smoothed angles for exact: it agrees, but its own errors are not
        # to be trusted to better than a factor of two.
        own = results["regression"]["standard_error_kg"][i - 1]
        assert abs(results["regression"]["kg"][i - 1] - truth) < 8.0 * own
