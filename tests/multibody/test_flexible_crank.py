"""The flexible slider-crank of the test set for initial value problems."""

import jax
import numpy as np
import pytest

import lie_jax
from models import flexible_crank

# Two methods of other authors agree to as many digits.
PUBLISHED = 1e-11


@pytest.mark.full
def test_the_end_is_that_of_the_test_set():
    system, state = flexible_crank.build()
    assert np.abs(system.constraint(0.0, state.q)).max() < 1e-15
    run = lie_jax.simulate(system, lie_jax.RKMK("rk67"), state, dt=1e-5, steps=10_000, save=10_000)
    readings = jax.jit(flexible_crank.readings)(system, run.q[-1])
    np.testing.assert_allclose(readings, flexible_crank.REFERENCE[:4], rtol=0, atol=PUBLISHED)
    amplitudes = system.amplitudes(run.q[-1])["rod"]
    np.testing.assert_allclose(amplitudes, flexible_crank.REFERENCE[3:], rtol=0, atol=PUBLISHED)
