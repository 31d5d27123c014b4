"""Shells against published deflections and closed forms."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells
from models import shell_benchmarks, slit_annulus

pytestmark = pytest.mark.full

# Sze, Liu, Lo (2004) print four digits of 16 × 1 elements.
CANTILEVER = 1e-3
# Newton's method stops at corrections of 1.5e-8, whose squares are left.
CLOSED = 1e-10


def test_a_cantilever_under_end_shear():
    benchmark = shell_benchmarks.cantilever()
    ways = benchmark.deflections(lie_jax.equilibrium(benchmark.system, benchmark.state).q)
    assert_allclose(ways, shell_benchmarks.CANTILEVER, rtol=CANTILEVER)


@pytest.mark.parametrize("count", [4, 8])
def test_a_moment_rolls_a_strip_up_to_a_circle(count):
    mesh = shell_benchmarks.strip(12.0, 1.0, count)
    surface = shells.surface("s", mesh, 0.1, 1.2e6, 0.0, 1.0, clamped=[0, 1])
    moment = 50.0 * np.pi / 3.0
    ends = [
        lie_jax.Torque(node.name, (0.0, -0.5 * moment, 0.0), frame="body")
        for node in surface.nodes[-2:]
    ]
    system, state = shell_benchmarks.assemble(surface, ends)
    places = system.poses(lie_jax.equilibrium(system, state).q)[1]
    assert_allclose(places[-2:], [[0, 0, 0], [0, 1, 0]], atol=CLOSED)


def test_derivatives_of_an_equilibrium_by_thickness_and_load():
    def height(load, thickness):
        benchmark = shell_benchmarks.cantilever(load, 4, thickness)
        return benchmark.deflections(lie_jax.equilibrium(benchmark.system, benchmark.state).q)[1]

    load, thickness, step = 4.0, 0.1, 1e-4
    gradient = jax.grad(height, (0, 1))(load, thickness)
    differences = [
        (height(load * (1 + step), thickness) - height(load * (1 - step), thickness))
        / (2 * step * load),
        (height(load, thickness * (1 + step)) - height(load, thickness * (1 - step)))
        / (2 * step * thickness),
    ]
    # Differences are off by the square of their step.
    assert_allclose(gradient, differences, rtol=1e-6)


# Published digits are of 10 × 80 elements S4R; those here extrapolate to 0.4 % below them.
@pytest.mark.parametrize("mesh, error", [((6, 30), 0.02), ((10, 80), 0.007), ((14, 112), 0.005)])
def test_the_slit_annular_plate(mesh, error):
    system, state = slit_annulus.build(*mesh, 1.0)
    ways = slit_annulus.corners(system, lie_jax.equilibrium(system, state).q)
    assert_allclose(ways, slit_annulus.REFERENCE[1.0], rtol=error)


@pytest.mark.parametrize("clamped", [False, True])
def test_frequencies_of_thin_plates(clamped):
    """Extrapolated: inertia is lumped, so coarse meshes are up to 5 % too slow, of order 2."""
    coarse, fine = (shell_benchmarks.plate_frequencies(n, clamped) for n in (4, 8))
    published = shell_benchmarks.CLAMPED_PLATE if clamped else shell_benchmarks.FREE_PLATE
    assert_allclose(fine + (fine - coarse) / 3.0, published, rtol=0.015)
