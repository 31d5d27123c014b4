"""Rates estimated from markers alone agree with the gyro that was withheld."""

import numpy as np
import pytest

from experiments import attitude_estimation
from models import pinned_body
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_attitude_estimation():
    folder, results = numbers_of(attitude_estimation, "estimates.json")
    nis = results["nis"]
    for name in ("known", "with_gyro"):
        ratio, low, high = nis[name]
        assert low < ratio < high, name
    ratio, _, high = nis["wrong_friction"]
    assert ratio > high
    # The gyro's own noise remains, which is stated to one digit.
    assert 0.9 < results["gyro_rms"] / pinned_body.GYRO_NOISE < 1.1
    # 1203 numbers: ± 0.6 %, and the digit of the noise.
    assert 0.92 < results["gyro_inside"] < 0.98
    assert np.max(results["rates_deviation"]["smoother_mean"]) < 0.25 * pinned_body.GYRO_NOISE
    # Nothing is known of biases but that the gyro has none worth a column in its description.
    off = np.abs(np.divide(results["bias"], results["bias_deviation"]))
    assert np.all(off < 3.0)
    assert (folder / "attitude_estimation.png").stat().st_size > 10_000
