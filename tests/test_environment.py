"""Runs under JAX's debug flags and over devices, in processes of their own."""

import os
import subprocess
import sys

_SYSTEMS = """
import warnings
import jax
import jax.numpy as jnp
import numpy as np
import lie_jax
from lie_jax import control
from tests import mechanisms

lie_jax.enable_x64()
free = lie_jax.assemble(
    lie_jax.Mechanism([lie_jax.Body("b", 1.0, np.eye(3), omega_body=(1.0, 2.0, 3.0))]),
    lie_jax.R3SO3(),
)
chain = mechanisms.ball_chain(lie_jax.R3SO3(), np.ones((1, 3)))
RK, ALPHA = lie_jax.RKMK("dopri5"), lie_jax.GeneralizedAlpha()

def run(pair, integrator, scale=1.0, **options):
    system, state = pair
    state = lie_jax.State(state.q, scale * state.v)
    options = {"dt": 0.01, "steps": 4, **options}
    return lie_jax.simulate(system, integrator, state, **options)
"""

_DEBUG = """
from tests.test_control import DT, MIDPOINT, START, ZERO, Cart, regulate, settle

run(free, RK)
run(chain, ALPHA)
run(chain, lie_jax.GeneralizedAlpha(newton="modified"))
# Rows beyond the end are NaN on purpose.
adaptive = run(free, RK, steps=20, adaptive=lie_jax.Adaptive(end=0.02))
print(np.isnan(np.asarray(adaptive.t)).any())

def speeds(scale):
    return run(free, RK, scale, throw=False).v

lie_jax.sweep(speeds, jnp.asarray([1.0, 2.0]), progress=False)
seen = np.asarray(speeds(1.0)) + np.random.default_rng(0).normal(size=(5, 6)) * 1e-3
lie_jax.identify(speeds, 1.1, seen, progress=False)
best = control.ilqr(Cart(), MIDPOINT, START, ZERO, dt=DT, running=regulate, final=settle)
print(bool(best.converged))
"""

_MESH = """
from jax.sharding import NamedSharding, PartitionSpec

mesh = jax.make_mesh((8,), ("i",))
scales = np.linspace(1.0, 2.0, 8)
spread = jax.device_put(scales, NamedSharding(mesh, PartitionSpec("i")))
for pair, integrator in ((free, RK), (chain, ALPHA)):
    end = jax.jit(jax.vmap(lambda x: x * run(pair, integrator, x, throw=False).v[-1]))
    got = end(spread)
    print(len(got.sharding.device_set) == 8, np.abs(np.asarray(got) - end(scales)).max() < 1e-14)
"""


def _printed(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", _SYSTEMS + program],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_healthy_runs_pass_debug_nans():
    assert _printed(_DEBUG, JAX_DEBUG_NANS="1") == ["True"] * 2


def test_runs_spread_over_a_mesh_with_explicit_axes():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    assert _printed(_MESH, XLA_FLAGS=flags) == ["True"] * 4
