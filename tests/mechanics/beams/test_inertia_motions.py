"""Motions of lines of order 4: methods agree, and errors are of the fourth order."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams

pytestmark = pytest.mark.full

LENGTH = 4.0
RKMK4, ALPHA = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)
# m and rad; errors of Runge-Kutta's method in steps of 5 ms, and of the others after extrapolation.
METHODS = 1e-6
# Of derivatives against differences of fourth order.
DIFFERENCES = 1e-6


def flying(elements, order=4, stiff=1.0, mass=1.0):
    """A free soft beam whose ends move apart across it, and which turns about two axes."""
    stiffness = stiff * jnp.asarray([1e2, 8e1, 9e1, 50.0, 60.0, 70.0])
    section = beams.Section(stiffness, mass, (10.0, 7.0, 5.0))
    line = beams.line("beam", section, LENGTH, elements, order=order)
    mechanism = lie_jax.Mechanism(
        line.nodes, forces=line.elements, gravity=(0, 0, 0), inertias=line.inertias
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    along = np.linspace(-1.0, 1.0, elements + 1)[:, None]
    linear = np.asarray([0.0, 0.2, 0.1]) + np.sin(along) * np.asarray([0.2, 0.4, -1.0])
    angular = np.asarray([0.3, 0.2, 0.1]) + along**2 * np.asarray([0.3, 0.2, 0.4])
    return system, lie_jax.State(state.q, np.concatenate([linear, angular], axis=1).ravel())


def end(integrator, dt, elements=2, seconds=1.0, **more):
    """Place and rotation (12,) of the last node after a flight, and the run."""
    system, state = flying(elements, **more)
    run = lie_jax.simulate(system, integrator, state, dt=dt, steps=round(seconds / dt))
    rotation, position = system.poses(run.q[-1])
    return np.concatenate([position[-1], np.ravel(rotation[-1])]), run


@functools.cache
def by_rkmk4():
    return end(RKMK4, 5e-3)


@pytest.mark.parametrize("method", [lie_jax.RATTLie(), ALPHA], ids=["RATTLie", "generalized-α"])
def test_methods_agree(method):
    coarse, fine = (end(method, dt)[0] for dt in (0.01, 0.005))
    expected, _ = by_rkmk4()
    assert np.abs(coarse - expected).max() > 10.0 * METHODS
    assert_allclose(fine + (fine - coarse) / 3.0, expected, atol=METHODS)


# Second bending mode of a clamped and free beam: root of cos x cosh x = -1.
ROOT = 4.694091132974175


def tip_of_strip(elements, speed):
    """Place (2,) of the end of a slender strip that swings in its second mode for 0.3 s."""
    section = beams.Section((1e6, 1e6, 1e6, 1.0, 1.0, 1.0), 1.0, (2e-8, 1e-8, 1e-8))
    line = beams.line("strip", section, 1.0, elements, start="ground", order=4)
    mechanism = lie_jax.Mechanism(
        line.nodes, forces=line.elements, gravity=(0, 0, 0), inertias=line.inertias
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    x = ROOT * np.arange(1, elements + 1) / elements
    part = (np.cosh(ROOT) + np.cos(ROOT)) / (np.sinh(ROOT) + np.sin(ROOT))
    shape = np.cosh(x) - np.cos(x) - part * (np.sinh(x) - np.sin(x))
    slope = ROOT * (np.sinh(x) + np.sin(x) - part * (np.cosh(x) - np.cos(x)))
    v = np.zeros((elements, 6))
    v[:, 2], v[:, 4] = speed * shape, -speed * slope
    start = lie_jax.State(state.q, v.ravel())
    run = lie_jax.simulate(system, ALPHA, start, dt=1e-3, steps=300, save=300)
    return np.asarray(system.poses(run.q[-1])[1][-1])[[0, 2]]


def test_ends_of_slender_lines_converge_with_the_fourth_order():
    # At this speed (m/s) the tip turns by some 0.1 rad.
    coarse, middle, fine = (tip_of_strip(elements, 0.25) for elements in (4, 8, 16))
    # Against the finest one the ratio of errors is 16 + 1.
    ratio = np.linalg.norm(coarse - fine) / np.linalg.norm(middle - fine)
    assert_allclose(np.log2(ratio), np.log2(17.0), atol=0.3)
    # Of small motions the closed form; errors of the method are (ωh)²/12 of the phase.
    small, speed = 2.0 * 1e-3 / ROOT**2, 1e-3
    expected = -small * np.sin(0.3 * ROOT**2)
    assert_allclose(tip_of_strip(16, speed)[1], expected, atol=1e-3 * small)


def moved(x):
    system, state = flying(2, stiff=x[0], mass=x[1])
    run = lie_jax.simulate(system, ALPHA, state, dt=0.01, steps=50, save=50, throw=False)
    return system.poses(run.q[-1])[1][-1] @ jnp.asarray([1.0, 2.0, 3.0])


def test_gradients_of_runs_are_those_of_differences():
    ones, run, step = jnp.ones(2), jax.jit(moved), 1e-3
    gradient = jax.jit(jax.grad(moved))(ones)

    def difference(i):
        near, far = (run(ones.at[i].add(h)) - run(ones.at[i].add(-h)) for h in (step, 2.0 * step))
        return (8.0 * near - far) / (12.0 * step)

    assert_allclose(gradient, [difference(i) for i in range(2)], rtol=DIFFERENCES)


def test_single_precision_stays_finite_and_near():
    system, state = jax.tree.map(
        lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, flying(2)
    )
    run = lie_jax.simulate(system, ALPHA, state, dt=0.01, steps=50)
    assert run.q.dtype == jnp.float32
    double, _ = end(ALPHA, 0.01, seconds=0.5)
    position = system.poses(run.q[-1])[1][-1]
    assert_allclose(position, double[:3], atol=1e-4)
