"""Maps of every configuration space belong together and have their golden values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax import R3SO3, SE3, UnifiedVelocity
from lie_jax.groups import quaternion, se3, so3, unified_velocity
from lie_jax.spaces.base import AbstractSpace, Rn
from lie_jax.spaces.products import Power
from tests import golden
from tests.suites import cases

ROUNDING = 2e-14

COORDINATES = ("quaternion", "rotation_vector")
# The eight combinations of [S0] Table 1: 1, 2 for the coordinates, a to d for group and chart.
TABLE = {
    f"{i}{letter}": group(coordinates=coordinates, chart=chart)
    for i, coordinates in enumerate(COORDINATES, start=1)
    for letter, group, chart in (
        *(("a", SE3, "exp"), ("b", R3SO3, "exp")),
        *(("c", R3SO3, "cayley"), ("d", SE3, "cayley")),
    )
}
SPACES = TABLE | {
    "second-order Cayley": R3SO3(chart="cayley2"),
    "three bodies": Power(SE3(chart="cayley"), 3),
    "R4": Rn(4),
    "angles": R3SO3(coordinates="tait_bryan"),
    "unified velocity": UnifiedVelocity(*unified_velocity.tetrahedron()),
}

# Each group, chart and storage of a group in one of its combinations; unified velocities move as
# 1a does, and angles are a chart of 1b.
FULL = ("1a", "1b", "1c", "1d", "2a", "2b", "2c", "2d", "angles", "unified velocity")
QUICK = [name for name in SPACES if name not in FULL]


def _drawn(space, rng):
    """Numbers, or poses, that `_configuration` converts under `jit`: in one program, then."""
    if isinstance(space, Power):
        return [_drawn(space.factor, rng) for _ in range(space.n)]
    if isinstance(space, Rn):
        return rng.normal(size=space.n)
    position, half = rng.normal(size=3), rng.normal(size=3) / 2
    angle = np.linalg.norm(half)
    return position, np.concatenate([[np.cos(angle)], np.sin(angle) / angle * half])


def _configuration(space, drawn):
    if isinstance(space, Power):
        return jnp.concatenate([_configuration(space.factor, part) for part in drawn])
    return drawn if isinstance(space, Rn) else space.configuration(*drawn)


@pytest.mark.parametrize("name", cases(SPACES, QUICK))
def test_the_maps_of_a_space_belong_together(name):
    space = SPACES[name]
    rng = np.random.default_rng(3)
    # The scale of the local coordinates runs from exactly zero to over a radian.
    scales = np.asarray([0.0, 1e-9, 1e-4, 1e-2, 0.3, 1.2])
    drawn = jax.tree.map(lambda *parts: np.stack(parts), *(_drawn(space, rng) for _ in scales))
    x = rng.normal(size=(len(scales), space.nv)) * scales[:, None] / 2
    dx = rng.normal(size=x.shape)

    @jax.jit
    @jax.vmap
    def residuals(drawn, x, dx):
        q = _configuration(space, drawn)
        end = space.retract(q, x)
        _, rate = jax.jvp(lambda x: space.retract(q, x), (x,), (dx,))
        v = space.tangent_operator(x, dx)
        zero = jnp.zeros_like(x)
        return {
            "zero stays": space.retract(q, zero) - q,
            "inverse": space.inverse_retract(q, end) - x,
            "T is the velocity of a retraction": space.lift(end, v) - rate,
            "T inverse inverts": space.tangent_operator_inv(x, v) - dx,
            "derivative of T inverse": space.tangent_operator_inv_derivative(x, v, dx)
            - jax.jvp(lambda x: space.tangent_operator_inv(x, dx), (x,), (v,))[1],
            "third derivative of an increment": space.turning(v, dx)
            - AbstractSpace.turning(space, v, dx),
            "rate at zero": space.tangent_operator(zero, space.rate_at_zero(dx)) - dx,
            "a flow begins with its velocity": jax.jvp(lambda y: space.flow(q, y), (zero,), (dx,))[
                1
            ]
            - space.lift(q, dx),
        }

    for rule, value in residuals(drawn, x, dx).items():
        assert np.max(np.abs(value)) < ROUNDING, rule


CAYLEY = {"1c", "1d", "2c", "2d", "second-order Cayley", "three bodies"}


# Each chart of the smaller programs.
@pytest.mark.parametrize("name", cases(SPACES, ["1b", "1c", "R4"]))
def test_only_exponential_charts_are_canonical(name):
    assert SPACES[name].canonical == (name not in CAYLEY)


@pytest.mark.parametrize("key", TABLE)
def test_local_global_transition_maps_have_their_golden_values(key):
    space = TABLE[key]
    entries = [e for e in golden.MAPS["lgt"] if e["map"] == key]
    assert entries
    for entry in entries:
        local = golden.array(entry["local"])
        x = jnp.asarray(np.concatenate([local[3:], local[:3]]))
        if space.coordinates == "rotation_vector":
            q = jnp.asarray(np.concatenate([entry["r"], entry["rho"]]))
            expected = so3.exp(jnp.asarray(golden.array(entry["rho_out"])))
        else:
            q = jnp.asarray(np.concatenate([entry["r"], golden.array(entry["Q"])]))
            expected = quaternion.to_matrix(jnp.asarray(golden.array(entry["Q_out"])))
        end = space.retract(q, x)
        rotation, position = space.pose(end)
        # Errors of both factors, relative to positions of a few metres.
        golden.assert_close(rotation, expected, atol=ROUNDING)
        golden.assert_close(position, golden.array(entry["r_out"]), atol=5 * ROUNDING)
        golden.assert_close(space.inverse_retract(q, end), x, atol=10 * ROUNDING)


def test_poses_of_all_formulations_agree():
    position, x = jnp.asarray([1.0, -2.0, 0.5]), jnp.asarray([0.3, 1.1, -0.7])
    for space in TABLE.values():
        rotation, place = space.pose(space.configuration(position, quaternion.exp(x)))
        golden.assert_close(rotation, so3.exp(x), atol=ROUNDING)
        golden.assert_close(place, position)


@pytest.mark.parametrize("key", ["1a", "1d", "2a", "2d"])
def test_se3_retraction_is_the_product_of_poses(key):
    rng = np.random.default_rng(5)
    space = TABLE[key]
    q = _configuration(space, _drawn(space, rng))
    x = jnp.asarray(rng.normal(size=6))
    chart = {"exp": se3.exp, "cayley": se3.cay}[space.chart]
    product = se3.compose(se3.pose(*space.pose(q)), chart(x))
    golden.assert_close(se3.pose(*space.pose(space.retract(q, x))), product, atol=ROUNDING)


def test_rotation_vectors_stay_principal():
    space = R3SO3(coordinates="rotation_vector")
    q = jnp.asarray([0.0, 0.0, 0.0, 3.0, 0.0, 0.0])
    turned = space.retract(q, jnp.asarray([0.0, 0.0, 0.0, 0.5, 0.0, 0.0]))
    golden.assert_close(turned[3:], [3.5 - 2 * np.pi, 0.0, 0.0], atol=ROUNDING)
