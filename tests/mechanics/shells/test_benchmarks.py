"""Shells against published deflections and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells
from models import slit_annulus

pytestmark = pytest.mark.full

# Sze, Liu, Lo (2004) print four digits of 16 × 1 elements.
CANTILEVER, SHEARED = 1e-3, (3.286, 6.698)
# Newton's method stops at corrections of 1.5e-8, whose squares are left.
CLOSED = 1e-10


def grid(first, second):
    """Numbers of nodes i (second + 1) + j of the quadrilaterals of a map of i and j."""
    row = second + 1
    start = np.asarray([i * row + j for i in range(first) for j in range(second)])
    return np.stack([start, start + row, start + row + 1, start + 1], axis=1)


def strip(length, width, count):
    nodes = [[length * i / count, j * width, 0.0] for i in range(count + 1) for j in range(2)]
    return np.asarray(nodes), grid(count, 1)


def assembled(surface, forces, joints=(), formulation=None):
    mechanism = lie_jax.Mechanism(
        surface.nodes, joints, forces=[*surface.elements, *forces], gravity=(0, 0, 0)
    )
    return lie_jax.assemble(mechanism, formulation or lie_jax.SE3())


def cantilever(load, count=16, thickness=0.1, young=1.2e6):
    surface = shells.surface(
        "s", strip(10.0, 1.0, count), thickness, young, 0.0, 1.0, clamped=[0, 1]
    )
    up = jnp.asarray([0.0, 0.0, 0.5]) * load
    tips = [lie_jax.PointForce(node.name, up) for node in surface.nodes[-2:]]
    return assembled(surface, tips)


def test_a_cantilever_under_end_shear():
    system, state = cantilever(4.0)
    tip = system.poses(lie_jax.equilibrium(system, state).q)[1][-1]
    assert_allclose((10.0 - tip[0], tip[2]), SHEARED, rtol=CANTILEVER)


@pytest.mark.parametrize("count", [4, 8])
def test_a_moment_rolls_a_strip_up_to_a_circle(count):
    surface = shells.surface("s", strip(12.0, 1.0, count), 0.1, 1.2e6, 0.0, 1.0, clamped=[0, 1])
    moment = 50.0 * np.pi / 3.0
    ends = [
        lie_jax.Torque(node.name, (0.0, -0.5 * moment, 0.0), frame="body")
        for node in surface.nodes[-2:]
    ]
    system, state = assembled(surface, ends)
    places = system.poses(lie_jax.equilibrium(system, state).q)[1]
    assert_allclose(places[-2:], [[0, 0, 0], [0, 1, 0]], atol=CLOSED)


def test_derivatives_of_an_equilibrium_by_thickness_and_load():
    def height(load, thickness):
        system, state = cantilever(load, 4, thickness)
        return system.poses(lie_jax.equilibrium(system, state).q)[1][-1, 2]

    load, thickness, step = 4.0, 0.1, 1e-4
    found = jax.grad(height, (0, 1))(load, thickness)
    moved = [
        (height(load * (1 + step), thickness) - height(load * (1 - step), thickness))
        / (2 * step * load),
        (height(load, thickness * (1 + step)) - height(load, thickness * (1 - step)))
        / (2 * step * thickness),
    ]
    # Differences are off by the square of their step.
    assert_allclose(found, moved, rtol=1e-6)


# Of Sze's 10 × 80 elements; errors are of order 2 in the size of elements.
@pytest.mark.parametrize("mesh, error", [((6, 30), 0.02), ((10, 80), 0.007)])
def test_the_slit_annular_plate(mesh, error):
    system, state = slit_annulus.build(*mesh, 1.0)
    found = slit_annulus.corners(system, lie_jax.equilibrium(system, state).q)
    assert_allclose(found, slit_annulus.REFERENCE[1.0], rtol=error)


def square(side, count, thickness, young, poisson, density, **options):
    along = np.linspace(0.0, side, count + 1)
    nodes = np.asarray([[x, y, 0.0] for x in along for y in along])
    return shells.surface(
        "s", (nodes, grid(count, count)), thickness, young, poisson, density, **options
    )


def frequencies(surface, number):
    system, state = assembled(surface, ())
    bending = lie_jax.modes(system, state, number=number).frequencies
    # √(D / ρ h) with a side of 1 m.
    unit = np.sqrt(1e9 * 0.01**2 / 12.0 / (1.0 - 0.3**2) / 1000.0)
    return np.asarray(bending) / unit


def extrapolated(number):
    """Frequencies from meshes of 4 × 4 and 8 × 8, whose errors are of order 2."""
    coarse, fine = (frequencies(square(1.0, n, 0.01, 1e9, 0.3, 1000.0), number) for n in (4, 8))
    return fine + (fine - coarse) / 3.0


def test_frequencies_of_a_free_plate():
    """Those of a thin plate; inertia is lumped, so coarse meshes are up to 5 % too slow."""
    free = extrapolated(9)
    assert_allclose(free[:6], 0.0, atol=1e-3)
    assert_allclose(free[6:], [13.468, 19.596, 24.270], rtol=0.015)
