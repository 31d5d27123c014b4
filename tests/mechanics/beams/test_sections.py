"""Sections of beams against closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax import beams

# Saint-Venant's constant of a square of side one, by its series in extended precision.
SQUARE = 0.140577014955
YOUNG, SHEAR, DENSITY = 7.0, 3.0, 2.0


def diagonal(section):
    assert_allclose(section.stiffness, np.diag(np.diagonal(section.stiffness)))
    return np.diagonal(section.stiffness)


def test_rectangles():
    square = beams.rectangle(1.0, 1.0, YOUNG, SHEAR, DENSITY)
    expected = [YOUNG, SHEAR * 5 / 6, SHEAR * 5 / 6, SHEAR * SQUARE, YOUNG / 12, YOUNG / 12]
    assert_allclose(diagonal(square), expected, rtol=1e-11)
    thin = diagonal(beams.rectangle(2.0, 1e-4, YOUNG, SHEAR, DENSITY))
    # A thin strip: a third of its width and of its thickness cubed, 0.63 thicknesses less wide.
    assert_allclose(thin[3], SHEAR * (2.0 - 0.63e-4) * 1e-12 / 3.0, rtol=1e-6)
    # Bent about y it is as thick as it is high.
    assert_allclose(thin[4:], [YOUNG * 2e-12 / 12, YOUNG * 8e-4 / 12], rtol=1e-12)


def test_rings_and_circles():
    ring = beams.tube(2.0, 1.0, YOUNG, SHEAR, DENSITY, damping_time=0.1)
    moment = np.pi * 15.0 / 4.0
    assert_allclose(diagonal(ring)[3:], [2 * SHEAR * moment, YOUNG * moment, YOUNG * moment])
    assert_allclose(ring.mass, DENSITY * 3.0 * np.pi)
    assert_allclose(ring.inertia, DENSITY * moment * np.asarray([2.0, 1.0, 1.0]))
    assert_allclose(ring.damping, 0.1 * ring.stiffness)
    circle = beams.circle(1.0, YOUNG, SHEAR, DENSITY)
    assert_allclose(diagonal(circle)[0], YOUNG * np.pi)


def test_sections_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="inner"):
        beams.tube(1.0, 2.0, YOUNG, SHEAR, DENSITY)
    with pytest.raises(ValueError, match="young"):
        beams.rectangle(1.0, 1.0, -YOUNG, SHEAR, DENSITY)
    with pytest.raises(ValueError, match="definite"):
        beams.Section((1.0, 1.0, 1.0, 1.0, 1.0, 0.0), 1.0, (1.0, 1.0, 1.0))
