"""Beams in a scene."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from lie_jax.viz import tubes


@pytest.mark.parametrize("order", [2, 4])
def test_tubes_follow_the_lines_of_beams(order):
    radius, length = 0.02, 1.0
    section = beams.circle(radius, 1e9, 4e8, 1000.0)
    weight = lie_jax.Body("weight", 1.0, np.eye(3), position=(length, 0.3, 0.0))
    line = beams.line("beam", section, length, 3, start="ground", end=weight, order=order)
    mechanism = lie_jax.Mechanism(
        [*line.nodes, weight], forces=line.elements, inertias=line.inertias
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    segments = tubes.lines(system, state.q[None])[0]
    assert_allclose(segments[0, 0], np.zeros(3), atol=1e-12)
    assert_allclose(segments[-1, 1], [length, 0.0, 0.0], atol=1e-12)
    assert_allclose(segments[1:, 0], segments[:-1, 1], atol=1e-12)
    assert_allclose(tubes.thickness(system), 2.0 * radius, rtol=1e-12)
    # The weight carries the beam beside its frame: it is no node, and drawn as a body.
    assert tubes.nodes(system) == {0: 2, 1: 2}
