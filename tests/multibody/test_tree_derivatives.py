"""Derivatives of trees in joint coordinates, against those of other ways to the same values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests import mechanisms

# Rounding through mass matrices whose condition is some thousand.
ROUNDING = 1e-10


@pytest.mark.full
@pytest.mark.parametrize("mechanism", [mechanisms.forest, mechanisms.compound_forest])
def test_derivatives_of_accelerations_are_those_of_a_dense_solution(mechanism):
    """First and second ones, in both modes, by coordinates, velocities and armatures."""
    system, state = lie_jax.assemble(mechanism(), lie_jax.Minimal())
    nv, rng = system.nv, np.random.default_rng(5)
    sizes = nv, nv, len(system.joints.kinds)
    place = np.concatenate([0.4 * rng.normal(size=2 * nv), rng.uniform(0.2, 2.0, sizes[2])])
    weights, along = rng.normal(size=nv), rng.normal(size=sum(sizes))

    def derivatives(accelerations):
        def of(point):
            x, v, armature = jnp.split(point, np.cumsum(sizes)[:2])
            joints = dataclasses.replace(system.joints, armature=armature)
            own = dataclasses.replace(system, joints=joints)
            return jnp.dot(accelerations(own, own.space.retract(state.q, x), v), weights)

        def at(point):
            gradient, second = jax.jvp(jax.grad(of), (point,), (along,))
            return gradient, jax.jvp(of, (point,), (along,))[1], second

        return at

    def dense(system, q, v):
        return jnp.linalg.solve(system.mass_matrix(q), system.force(0.4, q, v))

    def recursive(system, q, v):
        return system.acceleration(0.4, q, v)

    both = derivatives(recursive), derivatives(dense)
    got, expected = jax.jit(lambda point: [of(point) for of in both])(place)
    for a, b in zip(got, expected, strict=True):
        assert_allclose(a, b, atol=ROUNDING * np.max(np.abs(b)), rtol=0)
