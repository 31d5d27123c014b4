"""Curved and twisted shells against published deflections, by parts between planes of symmetry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from models import shell_benchmarks
from models.shell_benchmarks import SMALL

pytestmark = pytest.mark.full


def deflections(benchmark):
    end = lie_jax.equilibrium(benchmark.system, benchmark.state)
    return np.asarray(benchmark.deflections(end.q))


@pytest.mark.parametrize("count, error", [(8, 0.015), (16, 0.006)])
def test_a_hemisphere_with_a_hole_under_small_loads(count, error):
    # MacNeal and Harder (1985) print 0.094, Simo, Fox and Rifai (1989) 0.093.
    ways = deflections(shell_benchmarks.hemisphere(count, 2.0 * SMALL))
    assert_allclose(ways / SMALL, shell_benchmarks.HEMISPHERE_SMALL, rtol=error)


@pytest.mark.parametrize("count, error", [(8, 0.06), (16, 0.015)])
def test_a_hemisphere_with_a_hole_under_large_loads(count, error):
    # Published digits are of 16 × 16 elements; here a half of each force acts.
    ways = deflections(shell_benchmarks.hemisphere(count, 400.0))
    assert_allclose(ways, shell_benchmarks.HEMISPHERE, rtol=error)


@pytest.mark.parametrize("count, error", [(8, 0.25), (16, 0.075)])
def test_a_pinched_cylinder_with_diaphragms(count, error):
    # A sharp load, for which four-node elements are too stiff from above alone.
    ratio = -deflections(shell_benchmarks.pinched_cylinder(count))[0] / shell_benchmarks.PINCHED
    assert 1.0 - error < ratio < 1.0


def test_the_pull_out_of_an_open_cylinder():
    load = 0.25 * shell_benchmarks.PULL
    ways = deflections(shell_benchmarks.open_cylinder(24, 16, load))
    # Published digits are of 24 × 36 elements.
    assert_allclose(ways, shell_benchmarks.PULL_OUT_QUARTER, rtol=0.01)


def test_the_pull_out_passes_a_limit_point_on_its_way_to_the_full_load():
    """The cylinder snaps at half of the load, where searches for equilibria end."""
    benchmark = shell_benchmarks.open_cylinder(12, 8, shell_benchmarks.PULL)
    system, state = benchmark.system, benchmark.state
    path = lie_jax.equilibrium_path(system, state, steps=15, length=0.05)
    part = np.asarray(path.part)
    assert np.any(np.diff(part[part < 0.6]) < 0.0)
    nearest = lie_jax.State(path.q[int(np.argmin(np.abs(part - 1.0)))], state.v)
    ways = benchmark.deflections(lie_jax.equilibrium(system, nearest).q)
    # Published digits are of 24 × 36 elements.
    assert_allclose(ways, shell_benchmarks.PULL_OUT, rtol=0.04)


@pytest.mark.parametrize("count, across, error", [(12, 2, 0.01), (24, 4, 0.005)])
def test_a_twisted_strip(count, across, error):
    loads = (0.0, 0.0, SMALL), (0.0, SMALL, 0.0)
    along = [deflections(shell_benchmarks.twisted_strip(count, across, load))[0] for load in loads]
    assert_allclose(np.divide(along, SMALL), shell_benchmarks.TWISTED, rtol=error)
