"""The papers' rule of Newton's method ends where the method's own does."""

import numpy as np
import pytest

import lie_jax
from experiments import newton_rule

# Of a move of 5e-4 m in ten steps of 1 ms: the starts differ by the square of the step.
SAME = 1e-6


@pytest.mark.full
def test_the_rule_of_the_papers_ends_where_ours_does():
    top = lie_jax.Body("top", 15.0, np.diag([0.24, 0.47, 0.24]), position=(0, 1, 0))
    joint = lie_jax.SphericalJoint("ground", "top", child_point=(0, -1, 0))
    spring = lie_jax.LinearSpringDamper(
        "ground", "top", stiffness=500.0, damping=3.0, length=0.5, parent_point=(1, 1, 1)
    )
    mechanism = lie_jax.Mechanism([top], [joint], [spring])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    ends = []
    for method in (newton_rule.GeneralizedAlpha(0.9), lie_jax.GeneralizedAlpha(0.9)):
        run = lie_jax.simulate(system, method, state, dt=1e-3, steps=10)
        ends.append(np.asarray(run.q[-1]))
    assert np.abs(ends[1] - state.q).max() > 1e-4
    np.testing.assert_allclose(*ends, atol=SAME)
