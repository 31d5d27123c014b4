"""Numbers of the experiment on gradients support its claims."""

import numpy as np
import pytest

from experiments import gradients
from experiments._gradients.cases import CASES
from tests.results import numbers_of

pytestmark = pytest.mark.full

# Differences of sixth order leave 1e-9 of the largest derivative of a kind. Constrained
# generalized-α solves its derivatives with a matrix that is regularised by 2e-12 times a condition,
# and modified Newton stops at 2e-12 of a step, which differences magnify by 1e3.
GRADIENT = 1e-7
# Both modes are sums of the same numbers in another order.
MODES = 1e-12
HESSIAN = 1e-6
# The stopping rule of the papers leaves up to 1e-8 of the first residual in each step: differences
# are those of such values, derivatives those of the solution nearby.
PAPERS_RULE = 1e-4


def test_gradients():
    folder, results = numbers_of(gradients, "results.json")
    assert len(results) == len(CASES)
    for key, case in CASES.items():
        name = " | ".join(key)
        found = results[name]
        bounds = {"gradient": GRADIENT, "modes": MODES, "hessian": HESSIAN}
        if "holzinger2024" in name:
            bounds["gradient"] = PAPERS_RULE
        for measure, bound in bounds.items():
            for kind, error in found[measure].items():
                assert (error is None) == (kind in case.without_effect), (name, measure, kind)
                if error is not None:
                    assert error < bound, (name, measure, kind, error)
        for kind, error in found.get("single", {}).items():
            assert error is None or np.isfinite(error), (name, kind)
    assert (folder / "gradients.png").stat().st_size > 10_000
