"""Shells in a scene."""

import numpy as np
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells
from lie_jax.viz import shells as drawn
from lie_jax.viz import tubes


def test_edges_follow_the_nodes_of_shells():
    nodes = np.asarray([[x, y, 0.0] for x in (0.0, 1.0, 2.0) for y in (0.0, 1.0)])
    quads = np.asarray([[0, 2, 3, 1], [2, 4, 5, 3]])
    sheet = shells.surface("s", (nodes, quads), 0.01, 1e9, 0.3, 1000.0, clamped=[0, 1])
    mechanism = lie_jax.Mechanism(sheet.nodes, forces=sheet.elements)
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    segments = drawn.edges(system, state.q[None])
    assert segments.shape == (1, 8, 2, 3)
    assert_allclose(segments[0, :4, 0], nodes[quads[0]], atol=1e-14)
    assert_allclose(segments[0, :4, 1], nodes[np.roll(quads[0], -1)], atol=1e-14)
    assert tubes.nodes(system) == {0: 2, 1: 2, 2: 1, 3: 1}
