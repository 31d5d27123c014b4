"""A small ball that is held and pushed at its centre is a point mass."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import solids
from tests.suites import cases

# Accelerations of some ten m/s², through the solution for the multipliers.
ROUNDING = 1e-12


# One program for all radii.
@jax.jit
def _accelerations(system, q, v):
    return system.twists(q, system.acceleration(0.0, q, v))


@pytest.mark.parametrize(
    "name",
    cases(["R3SO3", "SE3", "TaitBryan", "EulerParameters", "Minimal"], ["Minimal"]),
)
def test_a_small_ball_is_a_point_mass(name):
    """Two balls on massless rods at their centres: points, for every radius, as Newton has it."""
    masses, gravity = (1.5, 0.7), 9.81
    places = np.asarray([[0.6, 0.0, -0.8], [0.6, 0.5, -2.0]])
    # At rest the force in each rod is along it: two equations for the two forces.
    rods = np.asarray([places[0], (places[1] - places[0]) / 1.3])
    inverse = 1.0 / np.asarray(masses)
    cosine = rods[0] @ rods[1]
    matrix = np.asarray(
        [[inverse[0], -inverse[0] * cosine], [-inverse[0] * cosine, inverse[0] + inverse[1]]]
    )
    pulls = np.linalg.solve(matrix, [-gravity * rods[0, 2], 0.0])
    weight = np.asarray([0.0, 0.0, -gravity])
    expected = [
        weight + inverse[0] * (pulls[1] * rods[1] - pulls[0] * rods[0]),
        weight - inverse[1] * pulls[1] * rods[1],
    ]
    for radius in (1e-3, 0.5):
        bodies = [
            lie_jax.Body(n, mass, solids.sphere(mass, radius), position=place)
            for n, mass, place in zip("ab", masses, places, strict=True)
        ]
        joints = [
            lie_jax.DistanceJoint("ground", "a", 1.0),
            lie_jax.DistanceJoint("a", "b", 1.3),
        ]
        system, state = lie_jax.assemble(
            lie_jax.Mechanism(bodies, joints), getattr(lie_jax, name)()
        )
        twists = _accelerations(system, state.q, state.v)
        assert_allclose(twists[:, :3], expected, atol=ROUNDING)
        assert_allclose(twists[:, 3:], 0.0, atol=ROUNDING)
