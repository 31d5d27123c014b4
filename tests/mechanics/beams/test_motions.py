"""Motions of beams: invariants, derivatives through a thousand steps, identification."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from lie_jax.estimation import transforms
from models import flexible_four_bar, flexible_slider_crank, right_angle_cantilever

pytestmark = pytest.mark.full

# Of momenta, in parts of their size: rounding of a thousand steps.
ROUNDING = 1e-11
# Of derivatives against differences of sixth order.
DIFFERENCES = 1e-7
ALPHA = lie_jax.GeneralizedAlpha(0.9)


@functools.cache
def floating(elements=4):
    """A curved beam that turns, bends and moves on without loads."""
    section = beams.Section([1e4] * 3 + [500.0] * 3, 1.0, (10.0, 10.0, 10.0))
    line = beams.line("beam", section, 10.0, elements, rest_strain=(1.0, 0.0, 0.0, 0.05, 0.1, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, forces=line.elements, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    along = np.linspace(-1.0, 1.0, elements + 1)[:, None]
    linear = np.asarray([1.0, 2.0, 3.0]) + along * np.asarray([0.0, 1.0, 2.0])
    angular = np.asarray([0.5, 0.2, 0.3]) + along**2 * np.asarray([0.3, 0.2, 0.5])
    return system, lie_jax.State(state.q, np.concatenate([linear, angular], axis=1).ravel())


def flown(integrator, dt, steps):
    """Momenta and energies along a flight."""
    system, state = floating()
    run = lie_jax.simulate(system, integrator, state, dt=dt, steps=steps)
    linear, angular = jax.vmap(system.momentum)(run.q, run.v)
    energy = jax.vmap(lambda q, v: system.kinetic_energy(q, v) + system.potential_energy(q))(
        run.q, run.v
    )
    return tuple(np.asarray(x) for x in (linear, angular, energy))


def test_rattlie_keeps_momenta_and_its_energy_returns():
    linear, angular, energy = flown(lie_jax.RATTLie(), 0.01, 1000)
    for momentum in (linear, angular):
        drift = np.abs(momentum - momentum[0]).max()
        assert drift <= ROUNDING * np.abs(momentum).max()
    # The energy swings, and does not drift: means of both halves are nearer than its swing.
    first, second = energy[:500].mean(), energy[500:].mean()
    assert abs(second - first) < 0.1 * np.ptp(energy)
    assert np.ptp(energy) < 0.02 * energy[0]


def test_generalized_alpha_loses_energy_and_momenta_by_the_square_of_the_step():
    coarse, fine = flown(ALPHA, 0.01, 500), flown(ALPHA, 0.005, 1000)
    assert coarse[2][-1] < coarse[2][0] and fine[2][-1] < fine[2][0]
    for slow, fast in zip(coarse[:2], fine[:2], strict=True):
        ratio = np.abs(slow - slow[0]).max() / np.abs(fast - fast[0]).max()
        assert 3.0 < ratio < 5.0


def pulled(x, integrator=ALPHA):
    """A place of the end after 1000 steps by factors of EA, EI, GJ, density, damping, load, curve.

    Every array that a beam is made of depends on one of them.
    """
    axial, bending, torsion, density, damping, load, curve = x
    stiffness = jnp.stack([1e4 * axial] * 3 + [500.0 * torsion] + [500.0 * bending] * 2)
    section = beams.Section(
        stiffness, density, 10.0 * density * jnp.ones(3), 0.01 * damping * stiffness
    )
    none = 0.0 * curve
    rest_strain = jnp.stack([1.0 + none, none, none, none, none, 0.05 * curve])
    line = beams.line("beam", section, 10.0, 4, rest_strain=rest_strain)
    end = line.nodes[0].name
    force = lie_jax.PointForce(end, load * jnp.asarray([8.0, 0.0, 3.0]))
    moment = lie_jax.Torque(end, load * jnp.asarray([10.0, 20.0, -80.0]), frame="body")
    mechanism = lie_jax.Mechanism(
        line.nodes, forces=[*line.elements, force, moment], gravity=(0, 0, 0)
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    run = lie_jax.simulate(system, integrator, state, dt=2.5e-3, steps=1000, save=1000, throw=False)
    return system.poses(run.q[-1])[1][-1] @ jnp.asarray([1.0, 2.0, 3.0])


def test_derivatives_through_a_thousand_steps_are_those_of_differences():
    # With kept matrices each step leaves 1e-12 of its increment, which differences of a small
    # derivative show as 2e-7 of it.
    full = lie_jax.GeneralizedAlpha(0.9, newton="full")
    ones, run = jnp.ones(7), jax.jit(lambda x: pulled(x, full))
    gradient = np.asarray(jax.jit(jax.grad(pulled))(ones))

    def difference(i, step=2e-3):
        def central(h):
            return (run(ones.at[i].add(h)) - run(ones.at[i].add(-h))) / (2.0 * h)

        return 1.5 * central(step) - 0.6 * central(2.0 * step) + 0.1 * central(3.0 * step)

    assert_allclose(gradient, [difference(i) for i in range(7)], rtol=DIFFERENCES)


def film(x):
    """Two markers on a lump beside the end of a strip that is let go."""
    stiff = jnp.asarray([2.8e6, 1e6, 1e6, 0.0, 0.0, 36.0])
    stiffness = stiff.at[3].set(x["torsion"]).at[4].set(x["bending"])
    section = beams.Section(stiffness, 0.107, (1.46e-6, 0.09e-6, 1.37e-6), x["time"] * stiffness)
    lump = lie_jax.Body("lump", 0.05, np.diag([2e-5, 2e-5, 3e-5]), position=(0.5, 0.1, 0.0))
    strip = beams.line("strip", section, 0.5, 4, start="ground", end=lump)
    mechanism = lie_jax.Mechanism([*strip.nodes, lump], forces=strip.elements)
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    run = lie_jax.simulate(system, ALPHA, state, dt=2e-3, steps=250, throw=False)
    rotation, position = jax.vmap(system.poses)(run.q)
    marker = position[:, -1] + rotation[:, -1] @ jnp.asarray([0.0, 0.05, 0.0])
    return jnp.concatenate([position[:, -1], marker], axis=1)


def test_stiffness_and_damping_are_identified_from_a_noisy_recording():
    truth = {"bending": jnp.asarray(2.4), "torsion": jnp.asarray(2.9), "time": jnp.asarray(2e-3)}
    start = {"bending": jnp.asarray(2.0), "torsion": jnp.asarray(2.0), "time": jnp.asarray(1e-3)}
    noise, clean = 5e-5, np.asarray(jax.jit(film)(truth))
    filmed = clean + noise * np.random.default_rng(2).normal(size=clean.shape)
    fit = lie_jax.estimation.identify(
        film, start, filmed, noise=noise, transforms=transforms.positive, progress=False
    )
    assert bool(fit.converged)
    for name, value in truth.items():
        error = float(fit.standard_errors[name])
        assert abs(float(fit.estimates[name]) - float(value)) < 2.0 * error, name
        assert error < 0.01 * float(value), name


@pytest.mark.parametrize(
    ("model", "dt"),
    [(right_angle_cantilever, 0.05), (flexible_slider_crank, 1e-4), (flexible_four_bar, 1e-3)],
    ids=lambda x: x.__name__.split(".")[-1] if hasattr(x, "__name__") else None,
)
def test_flexible_mechanisms_start_at_rest_in_their_constraints(model, dt):
    system, state = model.build(2)
    assert_allclose(system.constraint(0.0, state.q), 0.0, atol=1e-12)
    assert float(system.potential_energy(state.q)) < 1e-20
    run = lie_jax.simulate(system, ALPHA, state, dt=dt, steps=40)
    assert_allclose(system.constraint(run.t[-1], run.q[-1]), 0.0, atol=1e-9)
    # Drivers and loads have begun to move it.
    assert np.abs(np.asarray(run.v[-1])).max() > 1e-4
