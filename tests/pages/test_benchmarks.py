"""Benchmarks compare codes that compute the same motion."""

import shutil

import numpy as np
import pytest

import lie_jax
from benchmarks.peers import c_programs
from models import heavy_top

pytestmark = pytest.mark.full

DT, STEPS = 1e-4, 1_000
# Of the same method: rounding over the steps, amplified by the motion.
ROUNDING = 1e-10


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_programs_compute_the_same_heavy_top():
    system, state = heavy_top.build()
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, save=STEPS
    )
    ours = heavy_top.center_of_mass(system, trajectory.q[-1])
    # The second lane turns faster, so that lanes cannot be mixed up unnoticed.
    omega = np.tile(heavy_top.OMEGA_BODY, (c_programs.LANES, 1))
    omega[1] *= 1.1
    start = c_programs.states(omega)
    scalar = c_programs.compiled(1)(np.ascontiguousarray(start), STEPS, DT)
    lanes = c_programs.compiled(c_programs.LANES)(start, STEPS, DT)
    np.testing.assert_allclose(
        c_programs.center_of_mass(scalar[:, 0]), np.asarray(ours), rtol=0, atol=ROUNDING
    )
    np.testing.assert_allclose(lanes, scalar, rtol=ROUNDING, atol=ROUNDING)
    assert np.max(np.abs(scalar[:, 1] - scalar[:, 0])) > 1e-2
    # The motion went somewhere.
    assert np.linalg.norm(np.asarray(ours) - heavy_top.CENTER_OF_MASS) > 0.1
