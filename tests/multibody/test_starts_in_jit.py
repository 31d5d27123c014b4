"""Traced starts in joint coordinates: NaN where they do not fit the joints, right where they do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax

# Rounding of an angle and its derivative.
ROUNDING = 1e-12
Y, HALF = (0.0, 1.0, 0.0), 0.5**0.5
STILL, HOME = np.zeros(3), np.asarray([1.0, 0.0, 0.0, 0.0])
# Position (m), orientation and angular velocity (rad/s) of the second of two links.
WRONG = {
    "away": ((0.1, 0.1, 0.0), HOME, STILL),
    "turned over": ((0.1, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), STILL),
    "axis across": ((0.1, 0.0, 0.0), (HALF, HALF, 0.0, 0.0), STILL),
    "longer than a unit": ((0.1, 0.0, 0.0), 1.1 * HOME, STILL),
    "no rotation at all": ((0.1, 0.0, 0.0), 0.0 * HOME, STILL),
    "turning across": ((0.1, 0.0, 0.0), HOME, (5.0, 0.0, 0.0)),
    "NaN": ((0.1, np.nan, 0.0), HOME, STILL),
}


def _start(joint, position, orientation, omega):
    bodies = [
        lie_jax.Body("p", 1.0, np.eye(3)),
        lie_jax.Body("d", 1.0, np.eye(3), STILL, position, orientation, STILL, omega),
    ]
    hinge = lie_jax.RevoluteJoint("ground", "p", Y)
    state = lie_jax.assemble(
        lie_jax.Mechanism(bodies, [hinge, joint]), lie_jax.Minimal()
    )[1]  # fmt: skip
    return state.q, state.v


def test_starts_that_do_not_fit_are_not_a_number():
    hinge = lie_jax.RevoluteJoint("p", "d", Y, (0.1, 0, 0))
    # A weld has no coordinate that could show it.
    weld = lie_jax.RigidJoint("p", "d", (0.1, 0, 0))
    fits = ((0.1, 0.0, 0.0), HOME, STILL)
    columns = [np.stack(column) for column in zip(fits, *WRONG.values(), strict=True)]
    for joint in (hinge, weld):
        q, v = jax.jit(jax.vmap(lambda *row, joint=joint: _start(joint, *row)))(*columns)
        assert_allclose(q[0], 0.0, atol=ROUNDING)
        assert_allclose(v[0], 0.0, atol=ROUNDING)
        assert np.isnan(q[1:]).all() and np.isnan(v[1:]).all()


@pytest.mark.full
def test_starts_that_fit_have_derivatives():
    hinge = lie_jax.RevoluteJoint("p", "d", Y, (0.1, 0, 0))

    def angle(turn):
        half = 0.5 * turn
        orientation = jnp.stack([jnp.cos(half), 0.0 * half, jnp.sin(half), 0.0 * half])
        return _start(hinge, np.asarray([0.1, 0, 0]), orientation, STILL)[0][1]

    values = jax.jit(lambda turn: (angle(turn), jax.jacfwd(angle)(turn), jax.grad(angle)(turn)))(
        0.3
    )
    assert_allclose(values, (0.3, 1.0, 1.0), atol=ROUNDING)


def test_traced_orientations_of_joints_become_units():
    def home(scale):
        joint = lie_jax.RevoluteJoint(
            "p", "d", Y, orientation=scale * jnp.asarray([0.6, 0, 0.8, 0])
        )
        return joint.orientation

    rows = jax.jit(jax.vmap(home))(jnp.asarray([1.0, 1.1, 0.0]))
    assert_allclose(rows[:2], [[0.6, 0.0, 0.8, 0.0]] * 2, atol=ROUNDING)
    assert np.isnan(rows[2]).all()
    assert_allclose(jax.jacfwd(home)(1.0), 0.0, atol=ROUNDING)
