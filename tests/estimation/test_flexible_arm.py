"""Young's modulus and damping of a flexible arm from a mesh are found in a recording of its tip."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem

import lie_jax
from lie_jax.estimation import identify, transforms
from tests.meshes import bar

TRUTH = {"young": 2.1e8, "damping_time": 2e-3}
START = {"young": 1.5e8, "damping_time": 1e-3}
# m, of a laser.
NOISE = 2e-5


def _tip(parameters):
    """Places (101, 3) of the tip of an arm that falls on a hinge, from level."""
    arm = lie_jax.FlexibleBody.from_mesh(
        "arm",
        bar(skfem.MeshHex),
        density=1000.0,
        poisson=0.3,
        interfaces={"hinge": lambda x: x[:, 0] < 1e-9, "tip": lambda x: x[:, 0] > 0.4 - 1e-9},
        modes=6,
        **parameters,
    )
    hinge = lie_jax.RevoluteJoint("ground", "arm.hinge", axis=(0, 1, 0))
    load = lie_jax.Body("load", 0.1, 1e-5 * np.eye(3), position=(0.4, 0.0, 0.0))
    joints = [hinge, lie_jax.RigidJoint("arm.tip", "load")]
    system, state = lie_jax.assemble(lie_jax.Mechanism([arm, load], joints), lie_jax.R3SO3())
    method = lie_jax.GeneralizedAlpha(0.9)
    run = lie_jax.simulate(system, method, state, dt=2e-3, steps=200, save=2, throw=False)
    return jax.vmap(system.poses)(run.q)[1][:, 1]


@pytest.mark.full
def test_stiffness_and_damping_are_found():
    exact = np.asarray(jax.jit(_tip)(TRUTH))
    recorded = exact + NOISE * np.random.default_rng(4).normal(size=exact.shape)
    kinds = dict.fromkeys(TRUTH, transforms.positive)
    fit = identify(
        _tip, START, jnp.asarray(recorded), noise=NOISE, transforms=kinds, progress=False
    )
    for name, value in TRUTH.items():
        error = float(fit.standard_errors[name])
        assert abs(float(fit.estimates[name]) - value) < 2.0 * error < 0.2 * value, name
