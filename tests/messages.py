"""Checks of messages, and the bodies and runs that bad values are put into."""

import numpy as np
import pytest

import lie_jax

EYE = np.eye(3)


def body(name="b", mass=1.0, inertia=EYE, **others):
    return lie_jax.Body(name, mass, inertia, **others)


def simulate(system, state, integrator=None, **others):
    options = {"dt": 1e-3, "steps": 10} | others
    return lie_jax.simulate(system, integrator or lie_jax.GeneralizedAlpha(), state, **options)


def check_message(act, *parts):
    """Raise unless `act` raises a `ValueError` whose message has all parts."""
    with pytest.raises(ValueError) as error:
        act()
    for part in parts:
        assert part in str(error.value), str(error.value)
