"""Numbers of the experiment on gradients through contact support the claims of its page."""

import numpy as np
import pytest

from experiments import contact_gradients
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_contact_gradients():
    folder, results = numbers_of(contact_gradients, "results.json")
    fixed, stopped = results["fixed"], results["stopped at touch"]
    counts = [f"{n}" for n in contact_gradients.STEPS_IN_CONTACT]
    for law, found in fixed.items():
        speeds = [found[n]["speed"] for n in counts]
        # Of second order, but for the scatter of the worst.
        assert speeds[0] / speeds[-1] > 30.0, law
    # A linear spring is off by more than a tenth with 40 steps, smoother laws by less and less.
    square, cube = fixed["p = 2, a = 0.3 s/m"], fixed["p = 3, a = 0.3 s/m"]
    assert fixed["p = 1"]["40"]["derivative"] > 0.1
    assert square["40"]["derivative"] < 0.02
    assert cube["40"]["derivative"] < 2e-3
    # Steps that end at the touch mend it.
    assert stopped["p = 1"]["40"]["derivative"] < 1e-3
    for law in stopped:
        small = results["automatic"]["radau5"][law]
        assert small["1e-12"]["derivative"] < 1e-4 < small["1e-06"]["derivative"]
    known = results["balls"]["this spring, exact"]
    mended = results["balls"]["lie_jax, steps that end at the touch"]
    assert np.abs(np.subtract(mended["slope"], known["slope"])).max() < 1e-3
    assert abs(mended["end"] - known["end"]) < 1e-5
    assert (folder / "gradients.png").stat().st_size > 10_000
