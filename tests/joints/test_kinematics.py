"""Tait-Bryan angles, Euler parameters and unified velocities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lie_jax.groups import euler_parameters, quaternion, so3, tait_bryan, unified_velocity
from tests import golden
from tests.suites import cases

ROUNDING = 2e-14


def _batch(seed, n, scale=1.0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(20, n)) * scale)


def test_tait_bryan_angles():
    q, dq, ddq = _batch(1, 3), _batch(2, 3), _batch(3, 3)

    @jax.jit
    @jax.vmap
    def residuals(q, dq, ddq):
        r, dr = jax.jvp(tait_bryan.to_matrix, (q,), (dq,))
        h = tait_bryan.velocity_matrix(q)
        inverse = tait_bryan.velocity_matrix_inv(q)
        omega = h @ dq

        def velocity(q, dq):
            return tait_bryan.velocity_matrix(q) @ dq

        return {
            "ω = H q̇ is body-fixed": so3.vee(r.T @ dr) - omega,
            "inverse": (h @ inverse - jnp.eye(3)) / jnp.max(jnp.abs(inverse)),
            "lift": (tait_bryan.lift(q, omega) - dq) / jnp.max(jnp.abs(inverse)),
            "ω̇ = H q̈ + Ḣ q̇": jax.jvp(velocity, (q, dq), (dq, ddq))[1]
            - (h @ ddq + tait_bryan.velocity_matrix_rate(q, dq) @ dq),
            "angles": tait_bryan.to_matrix(tait_bryan.from_matrix(r)) - r,
        }

    for rule, value in residuals(q, dq, ddq).items():
        assert float(jnp.max(jnp.abs(value))) < 5 * ROUNDING, rule
    oracle = Rotation.from_euler("XYZ", np.array(q))
    matrices = jax.vmap(tait_bryan.to_matrix)(q)
    golden.assert_close(matrices, oracle.as_matrix(), atol=ROUNDING)
    golden.assert_close(
        jax.vmap(tait_bryan.from_matrix)(matrices), oracle.as_euler("XYZ"), atol=50 * ROUNDING
    )


@pytest.mark.parametrize("beta", [np.pi / 2, -np.pi / 2])
def test_tait_bryan_angles_in_gimbal_lock(beta):
    r = tait_bryan.to_matrix(jnp.asarray([0.4, beta, 0.3]))
    q = tait_bryan.from_matrix(r)
    assert float(q[2]) == 0.0
    golden.assert_close(tait_bryan.to_matrix(q), r, atol=ROUNDING)


def test_tait_bryan_angles_have_derivatives_in_both_modes_at_right_angles():
    """Where one of two arc tangents that are chosen from has both arguments zero."""
    quarter = jnp.asarray([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    modes = jax.jacfwd, jax.jacrev
    both = jax.jit(lambda r: [mode(tait_bryan.from_matrix)(r) for mode in modes])
    forward, backward = both(quarter)
    assert np.all(np.isfinite(forward))
    golden.assert_close(backward, forward, atol=ROUNDING)


@pytest.mark.parametrize("dtype", cases([jnp.float32, jnp.float64], [jnp.float64]))
def test_tait_bryan_angles_next_to_gimbal_lock_belong_together(dtype):
    rng = np.random.default_rng(8)
    eps = float(jnp.finfo(dtype).eps)
    for distance in (0.0, eps, 100 * eps, 1e-4, 1e-2, 0.1):
        angles = rng.uniform(-3, 3, size=(20, 3))
        angles[:, 1] = (np.pi / 2 - distance) * np.sign(angles[:, 1])
        r = jnp.asarray(Rotation.from_euler("XYZ", angles).as_matrix(), dtype)
        back = jax.vmap(lambda r: tait_bryan.to_matrix(tait_bryan.from_matrix(r)))(r)
        golden.assert_close(back, r, atol=20 * eps)


def test_euler_parameters():
    x, omega, dp = _batch(4, 3), _batch(5, 3), _batch(6, 4)

    @jax.jit
    @jax.vmap
    def residuals(x, omega, dp):
        p = quaternion.exp(x)
        h, right_inverse = (
            euler_parameters.velocity_matrix(p),
            euler_parameters.velocity_matrix_inv(p),
        )
        rate = right_inverse @ omega
        r, dr = jax.jvp(quaternion.to_matrix, (p,), (rate,))
        return {
            "ω = H ṗ is body-fixed": so3.vee(r.T @ dr) - omega,
            "right inverse": h @ right_inverse - jnp.eye(3),
            "ṗ is tangent to the sphere": p @ rate,
            "ṗ is the lift": rate - quaternion.lift(p, omega),
            "Ḣ": euler_parameters.velocity_matrix_rate(p, dp)
            - jax.jvp(euler_parameters.velocity_matrix, (p,), (dp,))[1],
            "Ḣ ṗ = 0": euler_parameters.velocity_matrix_rate(p, dp) @ dp,
        }

    for rule, value in residuals(x, omega, dp).items():
        assert float(jnp.max(jnp.abs(value))) < ROUNDING, rule


def test_the_projection_of_a_hexahedron():
    d = unified_velocity.projection(*unified_velocity.hexahedron())
    golden.assert_close(d @ d.T, np.eye(6), atol=ROUNDING)
    # [S2] (71), of which this is the inverse.
    s = 0.5**0.5
    golden.assert_close(d.T[3:], s * np.asarray(
        [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0]]), atol=ROUNDING)  # fmt: skip
    lengths, scale = (0.5, 2.0, 3.0), 0.7
    d = unified_velocity.projection(*unified_velocity.hexahedron(lengths, scale))
    golden.assert_close(jnp.linalg.det(d), -8 * scale**6 * np.prod(lengths), rtol=ROUNDING)  # (72)


def test_the_projection_of_a_tetrahedron():
    length, a = 2.0, 1.5
    d = unified_velocity.projection(*unified_velocity.tetrahedron(length, a))
    expected = a * np.asarray([
        [1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0],
        [-1, 1, 0, 0, 0, length], [0, -1, 1, length, 0, 0], [1, 0, -1, 0, length, 0]])  # fmt: skip
    golden.assert_close(d, expected, atol=ROUNDING)  # [S2] (80)
    golden.assert_close(jnp.linalg.det(d), a**6 * length**3, rtol=ROUNDING)  # (81)


def test_unified_velocities_are_those_of_the_points():
    rng = np.random.default_rng(7)
    points, directions, twist = (jnp.asarray(rng.normal(size=s)) for s in ((6, 3), (6, 3), 6))
    velocities = np.asarray(twist[:3]) + np.cross(twist[3:], points)
    expected = np.sum(np.asarray(directions) * velocities, axis=1)
    projection = jax.jit(unified_velocity.projection)
    golden.assert_close(projection(points, directions) @ twist, expected, atol=ROUNDING)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_admissibility_does_not_depend_on_the_unit_of_length(size):
    unified_velocity.projection(*unified_velocity.tetrahedron(size))
    unified_velocity.projection(*unified_velocity.hexahedron((size, size, 2 * size)))
    rng = np.random.default_rng(9)
    # Six lines through one axis: the rotation about it moves none of their points along them.
    directions = rng.normal(size=(6, 3))
    points = size * (np.outer(rng.normal(size=6), [0, 0, 1]) + rng.normal(size=(6, 1)) * directions)
    with pytest.raises(ValueError, match="zero up to rounding"):
        unified_velocity.projection(jnp.asarray(points), jnp.asarray(directions))


def test_projections_work_in_single_precision():
    half = jnp.ones(3, jnp.float32)
    assert unified_velocity.projection(*unified_velocity.hexahedron(half)).dtype == jnp.float32
    one = jnp.ones((), jnp.float32)
    assert unified_velocity.projection(*unified_velocity.tetrahedron(one)).dtype == jnp.float32
