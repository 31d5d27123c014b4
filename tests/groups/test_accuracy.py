"""Exact values and conclusions of the accuracy experiment hold."""

import json

import numpy as np
import pytest

from experiments import accuracy
from experiments._accuracy import truth, verdict
from tests import golden

# The bounds that the golden values have to meet, in machine epsilons: values are sums of a few
# rounded products, derivatives sums of some more.
VALUE_EPS, DERIVATIVE_EPS = 4.0, 8.0
# Golden values are compared as float64 numbers.
ROUNDING = 4e-16
KEYS = {"exp": "exp", "dexp": "dexp", "dexp⁻¹": "dexp_inv"}


def _twists(key: str) -> list[np.ndarray]:
    return [truth.vector(x) for x in golden.stack("se3", key)]


def _assert_close(exact, expected):
    exact, expected = np.asarray(exact, float).ravel(), np.ravel(expected)
    scale = max(1.0, float(np.linalg.norm(expected)))
    assert np.linalg.norm(exact - expected) < ROUNDING * scale


def test_exact_maps_agree_with_the_golden_values():
    rows = [truth.maps(x) for x in _twists("X")]
    for name, key in KEYS.items():
        for row, expected in zip(rows, golden.stack("se3", key), strict=True):
            if key == "exp":
                expected = np.concatenate([expected[:3, :3].ravel(), expected[:3, 3]])
            _assert_close(row[f"SE(3) {name}"], expected)
    for row, expected in zip(rows, golden.stack("se3", "Ad_of_exp"), strict=True):
        _assert_close(row["SE(3) Ad exp"], expected)


@pytest.mark.full
def test_exact_derivatives_agree_with_the_golden_values():
    zero = truth.vector(np.zeros(3))
    directional = {"dexp": "D_dexp_U", "dexp⁻¹": "D_dexp_inv_U"}
    for i, (x, u) in enumerate(zip(_twists("X"), _twists("U"), strict=True)):
        tensors = truth.with_derivatives(truth.maps, x)
        for name, key in directional.items():
            _assert_close(tensors[f"SE(3) {name}"][1] @ u, golden.stack("se3", key)[i])
    for i, (x, u) in enumerate(zip(*(golden.stack("so3", key) for key in "xu"), strict=True)):
        x, u = truth.vector(x), truth.vector(u)
        tensors = truth.with_derivatives(truth.maps, np.concatenate([zero, x]))
        for name, key in KEYS.items():
            second = golden.stack("so3", f"D2_{key}_uu")[i]
            _assert_close(tensors[f"SO(3) {name}"][2] @ u @ u, second)


def test_exact_logarithm_undoes_the_exponential():
    zero = truth.vector(np.zeros(6))
    for x, log in zip(_twists("X"), golden.stack("se3", "log_of_exp"), strict=True):
        pose = truth.maps(x)["SE(3) exp"]
        q = truth.quaternion_of(truth.nearest_rotation(pose[:9].reshape(3, 3)))
        value, jacobian, _ = truth.with_derivatives(truth.log_maps(q, pose[9:], False), zero)[
            "SE(3) log"
        ]
        _assert_close(value, log)
        # d ↦ log(T exp d) has the derivative dexp⁻¹(-log T) at zero.
        _assert_close(jacobian, truth.maps(-value)["SE(3) dexp⁻¹"])


def test_a_worse_cell_is_seen():
    eps = verdict.epsilon("float64")

    def verdicts(ours, other):
        tables = {verdict.OURS: {"0": ours}, "other": {"0": other}}
        results = {"float64": {"relative_errors": {"SO(3) exp": tables}}}
        return [cell.is_best for cell in verdict.cells(results)]

    assert verdicts([3 * eps, 7 * eps, 0.1], [0.0, 0.0, None]) == [True, True, True]
    assert verdicts([5 * eps, 9 * eps, 0.2], [eps, eps, 0.1]) == [False, False, False]
    assert verdicts([5 * eps, float("inf"), 9 * eps], [6 * eps, 1.0, eps]) == [True, False, False]


@pytest.mark.full
def test_no_library_is_more_accurate(tmp_path, monkeypatch):
    # Compiled as users' programs are: without fused products the maps of all libraries lose bits.
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    accuracy.main(tmp_path)
    precisions = json.loads((tmp_path / "accuracy.json").read_text())["precisions"]
    cells = list(verdict.cells(precisions))
    for precision in verdict.PRECISIONS:
        assert {c.order for c in cells if c.precision == precision} == {0, 1, 2}
        assert any(c.others for c in cells if c.precision == precision)
    for cell in cells:
        bound = DERIVATIVE_EPS if cell.order else VALUE_EPS
        error = cell.ours / verdict.epsilon(cell.precision)
        assert error <= bound, cell
        assert cell.ours <= max(cell.best_other, bound * verdict.epsilon(cell.precision)), cell
