"""Batches of maps, gradients through runs, sweeps and a fit: first to break with a new JAX.

`make smoke` runs this on the newest interpreter, with the newest JAX that it can have.
"""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from experiments import demo
from lie_jax import groups
from lie_jax.numerics import jax_internals
from models import heavy_top, pinned_body
from tests import golden

pytestmark = pytest.mark.smoke

# Batches and single evaluations are compiled apart and round differently.
ROUNDING = 1e-13
# Forward and reverse mode sum in another order along 100 steps of 0.15 rad.
AGREEMENT_OF_MODES = 1e-10
# Golden maps: next to 2π the inverses lose digits with their condition number, elsewhere none.
MAP_EPS = 64

TIME, STEPS = 0.1, 100
# Integrator, whether the joint is a constraint, formulation, and the error at 0.1 s (m) that its
# order allows: 0.15 rad a step, to the power of the order, along a path of 1 m.
RUNS = {
    "RKMK4": (lie_jax.RKMK("rk4"), False, lie_jax.R3SO3(), 1e-3),
    "CG3": (lie_jax.CrouchGrossman(3), False, lie_jax.SE3(), 1e-2),
    "CF4": (lie_jax.CommutatorFree(4), False, lie_jax.R3SO3("rotation_vector"), 1e-3),
    "RK4": (lie_jax.RungeKutta("rk4"), False, lie_jax.EulerParameters(), 1e-3),
    "Gauss4": (lie_jax.ImplicitRKMK("gauss4"), False, lie_jax.R3SO3(), 1e-3),
    "generalized-α": (lie_jax.GeneralizedAlpha(0.9), True, lie_jax.R3SO3(), 0.1),
}


_SUMS = """
import lie_jax
{setting}
import jax, jax.numpy as jnp
sums = jax.jit(lambda a, b: jnp.sum(a[:, :, :, None] * b[:, None], axis=2))
a = jnp.ones((512, 3, 3))
print("ynn" in sums.lower(a, a).compile().as_text())
"""


@pytest.mark.skipif(jax.__version__.startswith("0.10."), reason="this JAX has no such library")
@pytest.mark.parametrize("setting", ["", "lie_jax.configure(cache=False)"])
def test_configure_keeps_sums_out_of_a_library(setting):
    """A call keeps loops from being one function; without the setting there is one."""
    words = [sys.executable, "-c", _SUMS.format(setting=setting)]
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(not setting)]


_LOOP = """
import jax
from lie_jax.numerics import programs
loop = programs.time_loop(lambda a: jax.lax.fori_loop(
    0, 3, lambda k, x: (a[:, :, :, None] * x[:, None]).sum(2) + k, a))
loop(jax.numpy.ones((512, 3, 3)))
"""


@pytest.mark.skipif(jax.__version__.startswith("0.10."), reason="this JAX has no such library")
def test_loops_outside_of_transformations_keep_sums_too(tmp_path):
    environment = os.environ | {"XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", _LOOP], check=True, env=environment)
    (dump,) = tmp_path.glob("*lambda*cpu_after_optimizations.txt")
    assert "ynn" not in dump.read_text()


def test_maps_in_batches_have_their_golden_values():
    for group in ("so3", "se3"):
        module = getattr(groups, group)
        x = jnp.asarray(golden.stack(group, "x" if group == "so3" else "X"))
        below = golden.angles() < 6.0
        for name in ("exp", "dexp", "dexp_inv", "cay"):
            found = jax.vmap(getattr(module, name))(x)
            far = golden.distance_in_eps(found, golden.stack(group, name), np.finfo(float).eps)
            assert np.max(far[below]) < MAP_EPS, (group, name)


@pytest.mark.parametrize("name", RUNS)
def test_runs_and_their_gradients(name):
    integrator, constrained, formulation, error = RUNS[name]

    def end(mass):
        system, state = heavy_top.build(formulation, constrained=constrained, mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=TIME / STEPS, steps=STEPS, save=STEPS, throw=False
        )
        return heavy_top.center_of_mass(system, trajectory.q[-1]), trajectory.result

    masses = jnp.asarray([heavy_top.MASS, 14.0])
    places, results = jax.vmap(end)(masses)
    assert bool(jnp.all(results == lie_jax.Result.successful))
    assert_allclose(places[0], heavy_top.REFERENCE[TIME], atol=error)
    # The mass of a free top acts through its weight: gradients are of order one.
    first = jax.jit(jax.grad(lambda mass: end(mass)[0][2]))(masses[1])
    forward = jax.jit(jax.jacfwd(lambda mass: end(mass)[0]))(masses[1])
    assert_allclose(first, forward[2], rtol=AGREEMENT_OF_MODES, atol=AGREEMENT_OF_MODES)
    assert_allclose(places[1], jax.jit(end)(masses[1])[0], rtol=ROUNDING, atol=ROUNDING)


def test_sweep():
    def kinetic_energy(mass):
        system, state = heavy_top.build(mass=mass)
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=2, throw=False
        )
        return {"energy": system.kinetic_energy(trajectory.q[-1], trajectory.v[-1])}

    found = lie_jax.sweep(kinetic_energy, np.linspace(10.0, 20.0, 5), batch=2, progress=False)
    single = [kinetic_energy(jnp.asarray(mass))["energy"] for mass in np.linspace(10.0, 20.0, 5)]
    assert_allclose(found.results["energy"], single, rtol=ROUNDING)


def test_first_second_of_the_demo():
    recording = pinned_body.read_recording()
    samples = int(np.sum(recording.t <= 1.0))
    known = jax.tree.map(lambda x: x[:samples], recording.observations)
    dt = pinned_body.sample_interval(recording.t) / demo.STEPS_PER_SAMPLE
    fit = demo.fit(demo.start_values(known), known, dt, progress=False)
    assert bool(fit.converged)
    # Residuals of a model that explains the recording are noise: one in units of their variance.
    assert_allclose(fit.statistics.reduced_chi_squared, 1.0, atol=0.2)


def test_what_is_used_of_jax_without_promise_is_there():
    assert jax_internals.has_computed() in (True, False)
    assert not jax_internals.is_traced(jnp.ones(1))
    assert jax_internals.traces_nothing()
    assert jax.jit(lambda x: 3.0 * x if jax_internals.traces_nothing() else x)(1.0) == 1.0
    assert jax.jit(lambda x: 2.0 * x if jax_internals.is_traced(x) else x)(1.0) == 2.0

    def batch(arguments, axes, *, factor):
        return [arguments[0] * factor], [axes[0]]

    def jvp(primals, tangents, *, factor):
        return [primals[0]], [None if tangents[0] is None else factor * tangents[0]]

    first = jax_internals.pass_through("first", lambda x, y, *, factor: [x], batch, jvp)
    x, y = jnp.arange(3.0), jnp.ones(3)
    assert_allclose(first(x, y, factor=2.0)[0], x)
    assert_allclose(jax.jit(lambda x: first(x, y, factor=2.0)[0])(x), x)
    assert_allclose(jax.vmap(lambda x: first(x, y, factor=2.0)[0])(x), 2.0 * x)
    assert_allclose(jax.jacfwd(lambda x: first(x, y, factor=2.0)[0])(x), 2.0 * np.eye(3))
    assert_allclose(jax.grad(lambda y: jnp.sum(first(x, y, factor=2.0)[0]))(y), np.zeros(3))
