"""All formulations in absolute coordinates describe one motion."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import calculus, unified_velocity
from lie_jax.system import accelerations_and_multipliers
from models import free_body, heavy_top
from tests import mechanisms

FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "hexahedron": lie_jax.UnifiedVelocity(),
    "tetrahedron": lie_jax.UnifiedVelocity(*unified_velocity.tetrahedron(0.5, 2.0)),
    "angles": lie_jax.TaitBryan(),
    "Euler parameters": lie_jax.EulerParameters(),
}
# Rounding in forces of some hundred newtons, through a mass matrix of condition 1e3.
ROUNDING = 1e-10
T = jnp.asarray(0.4)


def _without_joints(system):
    return dataclasses.replace(system, joints=())


def _measured(formulation):
    """What can be measured of two bodies, and defects of the equations they were computed with."""
    system, state = mechanisms.two_bodies(formulation)
    q, v = state.q, state.v
    n = formulation.nv

    def hybrid(v, acceleration):
        return jnp.concatenate(
            jax.vmap(formulation.hybrid_acceleration)(
                system.poses(q)[0], q.reshape(2, -1), v.reshape(2, n), acceleration.reshape(2, n)
            ),
            axis=1,
        )

    start = accelerations_and_multipliers(system, T, q, v)
    free = _without_joints(system)
    own = free.acceleration(T, q, v)
    rng = np.random.default_rng(2)
    a = jnp.asarray(rng.normal(size=system.nv))
    multipliers = jnp.asarray(rng.normal(size=system.nc))
    b = system.constraint_jacobian(T, q)
    basis = jnp.eye(6)
    frame = jax.vmap(formulation.hybrid_velocity, (None, None, 0), 0)(
        system.poses(q)[0][0], q[: formulation.nq], jnp.eye(n)
    )
    pulled = jax.vmap(formulation.generalized_force, (None, None, 0, 0), 1)(
        system.poses(q)[0][0], q[: formulation.nq], basis[:, :3], basis[:, 3:]
    )
    same = {
        "poses": system.poses(q),
        "twists": system.twists(q, v),
        "accelerations": hybrid(v, start.acceleration),
        "accelerations without joints": hybrid(v, own),
        "multipliers": start.multipliers[:6],
        "kinetic energy": system.kinetic_energy(q, v),
        "potential energy": system.potential_energy(q),
        "momentum": system.momentum(q, v),
        "joints": system.constraint(T, q)[:6],
    }
    zero = {
        "kinetic energy is half v M v": system.kinetic_energy(q, v)
        - 0.5 * v @ system.mass_matrix(q) @ v,
        "Jacobian": b - calculus.jacobian_along(system.space, lambda q: system.constraint(T, q), q),
        "residual": system.residual(T, q, v, a, multipliers)
        - (system.mass_matrix(q) @ a + b.T @ multipliers - system.force(T, q, v)),
        "accelerations without joints": accelerations_and_multipliers(free, T, q, v).acceleration
        - own,
        "pull-back is the transpose": pulled - jnp.concatenate(frame, axis=1),
        "coordinates hold their own constraints": system.constraint(T, q)[6:],
    }
    return same, zero


MEASURE = {name: jax.jit(lambda f=f: _measured(f)) for name, f in FORMULATIONS.items()}


@pytest.fixture(scope="module")
def expected():
    return MEASURE["R3SO3"]()[0]


@pytest.mark.parametrize("name", FORMULATIONS)
def test_formulations_agree_on_what_can_be_measured(name, expected):
    same, zero = MEASURE[name]()
    for key, value in zero.items():
        assert float(jnp.max(jnp.abs(value), initial=0.0)) < ROUNDING, key
    for key, value in same.items():
        jax.tree.map(
            lambda x, y, key=key: assert_allclose(x, y, atol=ROUNDING, err_msg=key),
            value,
            expected[key],
        )
