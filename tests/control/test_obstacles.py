"""`control.solve` from guesses through obstacles, against SciPy's sequential programming."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import lie_jax
from lie_jax import control
from tests.cart import MIDPOINT, effort
from tests.systems import OnALine

STEPS, SECONDS, GOAL = 12, 2.0, 2.0
# Of SLSQP, whose own tolerance is on changes of the cost.
SEQUENTIAL = 1e-7


class InThePlane(OnALine):
    """A point of unit mass in the plane with a force."""

    @property
    def space(self):
        return lie_jax.spaces.base.Rn(2)

    @property
    def nu(self):
        return 2

    def mass_matrix(self, q):
        return jnp.eye(2, dtype=q.dtype)

    def force(self, t, q, v, u):
        assert u is not None
        return u


class Outside(eqx.Module):
    """Depth in a disc: 1 - distance² / radius²."""

    center: jax.Array
    radius: jax.Array

    def __call__(self, t, q, v, u):
        return 1.0 - jnp.sum((q - self.center) ** 2)[None] / self.radius**2


def there(q, v):
    return jnp.concatenate([q - jnp.asarray([GOAL, 0.0]), v])


def solve(center, radius):
    """From nodes that are all at rest at the start."""
    phase = control.Phase(
        InThePlane(), MIDPOINT, steps=STEPS, duration=SECONDS, running=effort, end=there,
        path=Outside(jnp.asarray(center), jnp.asarray(radius)),
    )  # fmt: skip
    return control.solve(phase, lie_jax.State(jnp.zeros(2), jnp.zeros(2)))


def sequential(center, radius, guess):
    """The least effort with held forces, whose motion is linear in them."""
    dt, k = SECONDS / STEPS, np.arange(STEPS)
    rates = dt * np.tri(STEPS)
    places = dt**2 * np.tri(STEPS) * (k[:, None] - k[None] + 0.5)

    def depths(u):
        apart = (places @ u.reshape(STEPS, 2) - center) / radius
        return np.sum(apart**2, axis=1) - 1.0

    def slopes(u):
        apart = (places @ u.reshape(STEPS, 2) - center) / radius**2
        return (2.0 * places[:, :, None] * apart[:, None, :]).reshape(STEPS, 2 * STEPS)

    ends = np.kron(np.stack([places[-1], rates[-1]]), np.eye(2))
    goal = np.array([GOAL, 0.0, 0.0, 0.0])
    found = minimize(
        lambda u: 0.5 * dt * u @ u, guess.reshape(-1), jac=lambda u: dt * u, method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": depths, "jac": slopes},
            {"type": "eq", "fun": lambda u: ends @ u - goal, "jac": lambda _: ends},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert found.success
    return found


def test_a_point_at_rest_finds_its_way_round_a_disc_unless_it_holds_the_goal():
    """The straight way goes through the disc, and slacks of its depth would stop the search."""
    center, radius = np.array([1.0, 0.05]), 0.5
    best = solve(center, radius)
    assert bool(best.converged)
    # A guess below the disc: forces ahead and back, and down, up and down again.
    s = (np.arange(STEPS) + 0.5) / STEPS
    ahead = 6.0 * GOAL / SECONDS**2 * (1.0 - 2.0 * s)
    guess = np.stack([ahead, -2.5 * np.cos(2.0 * np.pi * s)], axis=1)
    known = sequential(center, radius, guess)
    assert_allclose(best.cost, known.fun, rtol=SEQUENTIAL)
    assert np.max(best.states.q[:, 1]) < 1e-9
    assert np.min(np.linalg.norm(np.asarray(best.states.q)[1:] - center, axis=1)) > radius * (
        1.0 - 1e-9
    )
    # Without the disc: 6 d² / T³ n² / (n² - 1).
    assert best.cost > 6.0 * GOAL**2 / SECONDS**3 * STEPS**2 / (STEPS**2 - 1)
    # A disc round the goal is named.
    with pytest.warns(UserWarning, match="violation is .*, largest of path value 0 after step"):
        found = solve(np.array([GOAL, 0.1]), 0.5)
    assert not bool(found.converged)
    assert np.all(np.isfinite(found.states.q))
