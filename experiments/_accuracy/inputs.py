"""Where the maps are evaluated: angles in intervals, several axes, short and long translations."""

from typing import NamedTuple

import numpy as np

from experiments._accuracy import truth

PI = np.pi
# Among them are angles next to which implementations switch formulas, where errors are largest.
INTERVALS = {
    "0": (0.0,),
    "(0, 1e-6]": (1e-12, 1e-8, 1e-6),
    "(1e-6, 1e-3]": (9.9e-6, 1.03e-5, 1.23e-4, 1.74e-4, 1e-3),
    "(1e-3, 0.1]": (2.8e-3, 3.29e-3, 1e-2, 0.04, 0.1),
    "(0.1, 2]": (0.3, 0.52, 0.9, 1.4, 1.99),
    "(2, π - 0.01)": (2.2, 2.5, 2.8, 3.1),
    "[π - 0.01, π)": (PI - 5e-3, PI - 1e-3, PI - 1e-5, PI - 1e-7, PI - 1e-10),
    "(π, 4.5]": (3.16, 3.3, 3.45, 3.7, 3.9, 3.99, 4.02, 4.15, 4.3, 4.45),
}
BEYOND = "(π, 4.5]"


class Inputs(NamedTuple):
    """Floating-point numbers given to the libraries, one row for each angle and axis."""

    interval: list[str]
    twist: np.ndarray
    matrix: np.ndarray
    quaternion: np.ndarray
    position: np.ndarray


def _directions() -> tuple[np.ndarray, np.ndarray]:
    """Axes of rotation and the translations that go with them, of length 1 and, twice, 10."""
    rng = np.random.default_rng(3)
    axes = np.concatenate([np.eye(3)[:2], rng.normal(size=(6, 3))])
    translations = rng.normal(size=axes.shape)
    lengths = np.asarray([1.0] * 6 + [10.0] * 2)[:, None]
    return _unit(axes), lengths * _unit(translations)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make(dtype: type) -> Inputs:
    """Twists, and poses of the same rotations and translations, rounded to the precision."""
    axes, translations = _directions()
    intervals, twists, matrices, quaternions = [], [], [], []
    for interval, angles in INTERVALS.items():
        for angle, axis, translation in (
            (angle, *direction)
            for angle in angles
            for direction in zip(axes, translations, strict=True)
        ):
            rotation = truth.rotation_of(truth.vector(angle * axis))
            intervals.append(interval)
            twists.append(np.concatenate([translation, angle * axis]))
            matrices.append(rotation.astype(float))
            quaternions.append(truth.quaternion_of(rotation).astype(float))
    twist, matrix, quaternion = (
        np.asarray(rows).astype(dtype) for rows in (twists, matrices, quaternions)
    )
    return Inputs(intervals, twist, matrix, quaternion, twist[:, :3])
