"""Golden values as arrays, translation first."""

import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
MAPS = json.loads((DATA / "golden_maps.json").read_text())
SIMULATORS = json.loads((DATA / "simulators.json").read_text())
_ORDER = [3, 4, 5, 0, 1, 2]


def array(value) -> np.ndarray:
    """Nested lists of numbers or digit strings as float64."""
    return np.vectorize(float, otypes=[float])(np.asarray(value, dtype=object))


def stack(group: str, key: str) -> np.ndarray:
    """All entries of one kind, stacked; twists and 6x6 matrices are permuted."""
    values = np.stack([array(entry[key]) for entry in MAPS[group]])
    if group == "se3" and values.shape[-1] == 6:
        values = values[..., _ORDER]
        if values.ndim == 3:
            values = values[:, _ORDER, :]
    return values


def angles() -> np.ndarray:
    """Rotation angle of each entry; the two groups share them."""
    return np.asarray([float(entry["theta"]) for entry in MAPS["so3"]])


def distance_in_eps(got, expected, eps: float) -> np.ndarray:
    """Normwise relative distance of each entry, in units of the machine epsilon."""
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    axes = tuple(range(1, expected.ndim))
    size = np.sqrt(np.sum(expected**2, axis=axes))
    error = np.sqrt(np.sum((got - expected) ** 2, axis=axes))
    return error / np.where(size > 0, size, 1.0) / eps


def assert_close(actual, desired, atol=0.0, rtol=0.0, err_msg=""):
    """NumPy's check without its hidden relative tolerance, and without passing NaN."""
    np.testing.assert_allclose(
        actual, desired, atol=atol, rtol=rtol, equal_nan=False, err_msg=err_msg
    )
