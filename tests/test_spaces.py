import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax import R3SO3, SE3, quaternion, se3, so3
from lie_jax.spaces import Power, Rn
from tests import golden

ROUNDING = 2e-14

SPACES = {
    "R3SO3 quaternion": R3SO3(),
    "R3SO3 rotation vector": R3SO3(coordinates="rotation_vector"),
    "SE3 quaternion": SE3(),
    "SE3 rotation vector": SE3(coordinates="rotation_vector"),
    "three bodies": Power(SE3(), 3),
    "R4": Rn(4),
}


def _configuration(space, rng):
    if isinstance(space, Power):
        return jnp.concatenate([_configuration(space.factor, rng) for _ in range(space.n)])
    if isinstance(space, Rn):
        return jnp.asarray(rng.normal(size=space.n))
    return space.configuration(
        jnp.asarray(rng.normal(size=3)), quaternion.exp(jnp.asarray(rng.normal(size=3)))
    )


@pytest.mark.parametrize("name", SPACES)
def test_the_maps_of_a_space_belong_together(name):
    space = SPACES[name]
    rng = np.random.default_rng(3)
    # The scale of the local coordinates runs from exactly zero to over a radian.
    scales = np.asarray([0.0, 1e-9, 1e-4, 1e-2, 0.3, 1.2])
    q = jnp.stack([_configuration(space, rng) for _ in scales])
    x = jnp.asarray(rng.normal(size=(len(scales), space.nv)) * scales[:, None] / 2)
    dx = jnp.asarray(rng.normal(size=x.shape))

    @jax.jit
    @jax.vmap
    def residuals(q, x, dx):
        end = space.retract(q, x)
        _, rate = jax.jvp(lambda x: space.retract(q, x), (x,), (dx,))
        v = space.tangent_operator(x, dx)
        zero = jnp.zeros_like(x)
        return {
            "zero stays": space.retract(q, zero) - q,
            "inverse": space.inverse_retract(q, end) - x,
            "T is the velocity of a retraction": space.lift(end, v) - rate,
            "T inverse inverts": space.tangent_operator_inv(x, v) - dx,
            "T(0) is the identity": space.tangent_operator(zero, dx) - dx,
        }

    for rule, value in residuals(q, x, dx).items():
        assert float(jnp.max(jnp.abs(value))) < ROUNDING, rule


@pytest.mark.parametrize("key", ["1a", "1b", "2a", "2b"])
def test_local_global_transition_maps_have_their_golden_values(key):
    """1: quaternions, 2: rotation vectors; a: SE(3), b: R3 x SO(3) ([S0] Table 1)."""
    group = {"a": SE3, "b": R3SO3}[key[1]]
    stored = {"1": "quaternion", "2": "rotation_vector"}[key[0]]
    space = group(coordinates=stored)
    entries = [e for e in golden.MAPS["lgt"] if e["map"] == key]
    assert entries
    for entry in entries:
        local = golden.array(entry["local"])
        x = jnp.asarray(np.concatenate([local[3:], local[:3]]))
        start = golden.array(entry["Q"])
        if stored == "rotation_vector":
            q = jnp.asarray(np.concatenate([entry["r"], entry["rho"]]))
        else:
            q = jnp.asarray(np.concatenate([entry["r"], start]))
        rotation, position = space.pose(space.retract(q, x))
        if stored == "rotation_vector":
            expected = so3.exp(jnp.asarray(golden.array(entry["rho_out"])))
        else:
            expected = quaternion.to_matrix(jnp.asarray(golden.array(entry["Q_out"])))
        # Errors of both factors, relative to positions of a few metres.
        assert_allclose(rotation, expected, atol=ROUNDING)
        assert_allclose(position, golden.array(entry["r_out"]), atol=5 * ROUNDING)


def test_poses_of_the_four_formulations_agree():
    position, x = jnp.asarray([1.0, -2.0, 0.5]), jnp.asarray([0.3, 1.1, -0.7])
    for space in (R3SO3(), SE3(), *(g(coordinates="rotation_vector") for g in (R3SO3, SE3))):
        rotation, place = space.pose(space.configuration(position, quaternion.exp(x)))
        assert_allclose(rotation, so3.exp(x), atol=ROUNDING)
        assert_allclose(place, position)


def test_se3_retraction_is_the_product_of_poses():
    rng = np.random.default_rng(5)
    space = SE3()
    q, x = _configuration(space, rng), jnp.asarray(rng.normal(size=6))
    product = se3.compose(se3.pose(*space.pose(q)), se3.exp(x))
    assert_allclose(se3.pose(*space.pose(space.retract(q, x))), product, atol=ROUNDING)


def test_rotation_vectors_stay_principal():
    space = R3SO3(coordinates="rotation_vector")
    q = jnp.asarray([0.0, 0.0, 0.0, 3.0, 0.0, 0.0])
    turned = space.retract(q, jnp.asarray([0.0, 0.0, 0.0, 0.5, 0.0, 0.0]))
    assert_allclose(turned[3:], [3.5 - 2 * np.pi, 0.0, 0.0], atol=ROUNDING)
