"""Pins on sliders, pins in slots and held coordinates, in joint and in absolute coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import EYE, body
from tests.suites import cases

# Rounding in accelerations of some ten m/s², through the solution for the multipliers.
ROUNDING = 1e-10
ARM = np.asarray([0.3, -0.4, 0.0])
# A pin that slides along x, and turns about z.
PIN = ("y", "z", "rotation_x", "rotation_y")


def _swinging(*joints, names="a"):
    bodies = [body(name, 2.0, 0.1 * EYE, center_of_mass=ARM) for name in names]
    return lie_jax.Mechanism(bodies, joints, gravity=(0.0, -9.81, 0.0))


def _swung(t):
    return jnp.stack([jnp.sin(t)])


# Numbers of velocities and constraints in joint coordinates.
MECHANISMS = {
    "pin on a slider": (_swinging(lie_jax.GenericJoint("ground", "a", PIN)), 2, 0),
    "held coordinates alone": (_swinging(lie_jax.CoordinateJoint("ground", "a", PIN)), 6, 4),
    "driven coordinate": (
        _swinging(
            lie_jax.GenericJoint("ground", "a", PIN),
            lie_jax.CoordinateJoint("ground", "a", ("x",), _swung),
        ), 2, 1,
    ),
    "pin in a slot": (
        _swinging(
            lie_jax.RevoluteJoint("ground", "a", EYE[2]),
            lie_jax.RevoluteJoint("ground", "b", EYE[2], EYE[0]),
            # A point of b lies on the line along x of a.
            lie_jax.GenericJoint("a", "b", ("y",), child_point=0.5 * EYE[0]),
            names="ab",
        ), 2, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", cases(MECHANISMS, ["pin on a slider"]))
def test_accelerations_are_those_of_absolute_coordinates(name):
    """Of all bodies, at rest; a pendulum on a slider against its closed form."""
    mechanism, velocities, constraints = MECHANISMS[name]
    mechanism = lie_jax.place(mechanism)
    moved = []
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        system, state = lie_jax.assemble(mechanism, formulation)
        if isinstance(formulation, lie_jax.Minimal):
            assert (system.nv, system.nc) == (velocities, constraints)
        twists = jax.jit(
            lambda q, v, system=system: system.twists(q, system.acceleration(0.0, q, v))
        )
        moved.append(np.asarray(twists(state.q, state.v)))
    assert np.max(np.abs(moved[1])) > 1.0
    assert_allclose(moved[0], moved[1], atol=ROUNDING)
    if name in ("pin on a slider", "held coordinates alone"):
        # m ẍ = m cy ω̇ along the slider, (J + m cx²) ω̇ = -m g cx about the centre of mass.
        turning = -2.0 * 9.81 * ARM[0] / (0.1 + 2.0 * ARM[0] ** 2)
        expected = [ARM[1] * turning, 0.0, 0.0, 0.0, 0.0, turning]
        assert_allclose(moved[0][0], expected, atol=ROUNDING)
