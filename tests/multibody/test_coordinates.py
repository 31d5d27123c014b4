"""Closed forms of formulations are the derivatives of the pose that they replace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.suites import cases

FORMULATIONS = {
    "TaitBryan": lie_jax.TaitBryan(),
    "EulerParameters": lie_jax.EulerParameters(),
    "R3SO3": lie_jax.R3SO3(),
    "R3SO3, rotation vector": lie_jax.R3SO3(coordinates="rotation_vector"),
    "SE3": lie_jax.SE3(),
    "SE3, angles": lie_jax.SE3(coordinates="tait_bryan"),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
}
# Rounding of products and of one elimination of numbers of the order one.
ROUNDING = 1e-14


# `make test` has closed forms of motions in the others.
QUICK = ["R3SO3", "R3SO3, rotation vector", "SE3, angles", "UnifiedVelocity"]


@pytest.mark.parametrize("name", cases(FORMULATIONS, QUICK))
def test_kinematics_follow_from_the_pose(name):
    formulation, inherited = FORMULATIONS[name], lie_jax.extend.AbstractCoordinates
    rng = np.random.default_rng(5)
    position, turn, linear, omega, dlinear, domega = jnp.asarray(rng.normal(size=(6, 3)))
    dv = jnp.asarray(rng.normal(size=formulation.nv))
    multipliers = jnp.asarray(rng.normal(size=formulation.rows))

    @jax.jit
    def evaluated():
        q = formulation.configuration(position, lie_jax.groups.quaternion.exp(turn))
        rotation, _ = formulation.pose(q)
        v = formulation.velocity(rotation, q, linear, omega)
        arguments = {
            "hybrid_velocity": (rotation, q, v),
            "hybrid_acceleration": (rotation, q, v, dv),
            "generalized_force": (rotation, q, dlinear, domega),
            "velocity": (rotation, q, linear, omega),
            "acceleration": (rotation, q, v, dlinear, domega),
            "reaction": (q, multipliers),
        }
        return {
            method: (getattr(formulation, method)(*a), getattr(inherited, method)(formulation, *a))
            for method, a in arguments.items()
        }

    for method, (closed, derived) in evaluated().items():
        for a, b in zip(jax.tree.leaves(closed), jax.tree.leaves(derived), strict=True):
            assert_allclose(a, b, atol=ROUNDING, err_msg=method)


class _Angles(lie_jax.extend.AbstractVectorSpace, lie_jax.extend.AbstractCoordinates):
    """Tait-Bryan angles from the three members that coordinates of one's own need."""

    @property
    def nq(self):
        """Six."""
        return 6

    def pose(self, q):
        """Of position and angles."""
        return lie_jax.groups.tait_bryan.to_matrix(q[3:]), q[:3]

    def configuration(self, position, orientation):
        """Position and angles."""
        rotation = lie_jax.groups.quaternion.to_matrix(orientation)
        return jnp.concatenate([position, lie_jax.groups.tait_bryan.from_matrix(rotation)])


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_second_derivatives_of_inherited_kinematics_are_finite_at_rest(dtype):
    """Of an acceleration by the configuration, at the identity, against the closed form."""
    direction = jnp.asarray([0.4, -0.7, 0.2, 0.9, -0.3, 0.6], dtype)
    linear, angular = jnp.asarray([[0.3, -0.2, 0.5], [0.7, 0.1, -0.4]], dtype)

    def product(formulation):
        def square(q):
            rotation, _ = formulation.pose(q)
            rate = formulation.acceleration(rotation, q, 0.0 * q, linear, angular)
            return jnp.sum(rate**2)

        return jax.jvp(jax.grad(square), (jnp.zeros(6, dtype),), (direction,))[1]

    inherited, closed = jax.jit(lambda: (product(_Angles()), product(lie_jax.TaitBryan())))()
    assert inherited.dtype == dtype
    # Rounding of some ten operations on numbers of the order one.
    assert_allclose(inherited, closed, atol=100 * jnp.finfo(dtype).eps)
