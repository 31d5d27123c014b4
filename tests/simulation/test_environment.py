"""Runs under JAX's debug flags and over devices, in processes of their own."""

import os
import subprocess
import sys

import pytest

_START = """
import jax
import jax.numpy as jnp
import numpy as np
import lie_jax
from lie_jax import control
from tests import mechanisms
from tests.cart import DT, MIDPOINT, START, ZERO, Cart, regulate, settle

chain, hanging = mechanisms.ball_chain(lie_jax.R3SO3(), np.ones((1, 3)))

def swung(scale):
    state = lie_jax.State(hanging.q, scale * hanging.v)
    alpha = lie_jax.GeneralizedAlpha()
    return lie_jax.simulate(chain, alpha, state, dt=0.01, steps=3, throw=False).v
"""

_DEBUG = """
swung(1.0)
adaptive = lie_jax.Adaptive()
run = lie_jax.simulate(
    Cart(), lie_jax.RKMK("dopri5"), START, dt=0.01, steps=20, adaptive=adaptive, t_end=0.02
)
# Rows beyond the end are NaN on purpose.
print(np.isnan(np.asarray(run.t)).any())

def driven(stiffness):
    return lie_jax.simulate(Cart(stiffness=stiffness), MIDPOINT, START, dt=0.1, steps=9).q

lie_jax.sweep(lambda s: {"q": driven(s)}, jnp.asarray([1.0, 2.0]), progress=False)
seen = np.asarray(driven(1.0)) + np.random.default_rng(0).normal(size=(10, 1)) * 1e-3
lie_jax.estimation.identify(driven, 1.1, seen, progress=False)
best = control.ilqr(Cart(), MIDPOINT, START, ZERO, dt=DT, running=regulate, final=settle)
print(bool(best.converged))
"""

_MESH = """
from jax.sharding import NamedSharding, PartitionSpec

mesh = jax.make_mesh((8,), ("i",))
scales = np.linspace(1.0, 2.0, 8)
spread = jax.device_put(scales, NamedSharding(mesh, PartitionSpec("i")))
end = jax.jit(jax.vmap(lambda x: x * swung(x)[-1]))
got = end(spread)
print(len(got.sharding.device_set) == 8, np.abs(np.asarray(got) - end(scales)).max() < 1e-14)
"""


def _printed(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", _START + program],
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_ENABLE_X64": "1"} | environment,
    )
    assert not done.returncode, done.stderr
    return done.stdout.split()


@pytest.mark.full
def test_healthy_runs_pass_debug_nans():
    assert _printed(_DEBUG, JAX_DEBUG_NANS="1") == ["True"] * 2


@pytest.mark.full
def test_runs_spread_over_a_mesh_with_explicit_axes():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    assert _printed(_MESH, XLA_FLAGS=flags) == ["True"] * 2
