"""Shapes that overlap beyond the middle of one, or pass through each other, end with a word."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import contact

LAW = lie_jax.contact.HuntCrossley(1e5, np.int64(2), 0.1)
RADIUS = 0.1


def moving(shape, second, height, velocity, formulation=None):
    """A body at a height above the ground, with a contact of its shape."""
    body = lie_jax.Body("a", 1.0, jnp.eye(3), position=(0, 0, height), velocity=velocity)
    hit = lie_jax.contact.Contact(shape, second, LAW)
    mechanism = lie_jax.Mechanism([body], forces=[hit], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation or lie_jax.R3SO3())


GROUND = contact.Plane("ground")


@pytest.mark.parametrize(
    "shape",
    [
        contact.Sphere("a", 0.3),
        # Upright, thin and turned: what counts is its extent across the ground.
        contact.Box("a", (0.01, 0.01, 0.6)),
        contact.Box("a", (0.6, 0.01, 0.01), orientation=(0.5**0.5, 0, 0.5**0.5, 0)),
        pytest.param(contact.Ellipsoid("a", (0.02, 0.05, 0.3)), marks=pytest.mark.full),
        pytest.param(
            contact.Points(
                "a", [(0, 0, -0.3), (0.01, 0, 0.3), (-0.01, 0.01, 0.3), (0, -0.01, 0.3)]
            ),
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_start_below_the_middle_of_a_shape_is_refused_with_its_depth(shape):
    # The state that is simulated counts, not the one that is assembled.
    system, state = moving(shape, GROUND, -0.05, (0, 0, 0))
    match = r"Contact\('a', 'ground'\) overlaps by 0\.35 m .* 0\.3 m deep.*robotics\.stand"
    with pytest.raises(ValueError, match=match):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=2)
    assert system.validity.invalid_start(0.0, state.q.at[2].set(0.05), state.v) is None
    unknown = contact.HeightField("ground", lambda x, y: jnp.nan * x)
    system, state = moving(contact.Sphere("a", 0.3), unknown, 1.0, (0, 0, 0))
    with pytest.raises(ValueError, match=r"overlaps by nan m"):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=2)


@pytest.mark.full
def test_a_start_that_is_known_is_looked_at_where_jax_traces_the_run():
    system, state = moving(contact.Sphere("a", 0.3), GROUND, 0.5, (0, 0, 0))

    def end(dt, q):
        start = lie_jax.State(q, state.v)
        options = {"dt": dt, "steps": 2, "throw": False}
        return lie_jax.simulate(system, lie_jax.RKMK("rk4"), start, **options).q[-1]

    known = jax.jit(lambda dt: end(dt, state.q))(1e-3)
    assert_allclose(known, end(1e-3, state.q), rtol=1e-14)
    lower = state.q.at[2].set(-0.05)
    with pytest.raises(ValueError, match=r"overlaps by 0\.35 m"):
        jax.jit(lambda dt: end(dt, lower))(1e-3)


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.Minimal()])
def test_balls_that_pass_through_each_other_end_the_run(formulation):
    ball, anchored = contact.Sphere("a", RADIUS), contact.Sphere("ground", RADIUS)

    def flown(speed, dt, aside=0.0, **options):
        system, state = moving(ball, anchored, 0.5, (0.0, 0.0, -speed), formulation)
        q = state.q.at[0].add(aside)
        state = lie_jax.State(q, state.v)
        return lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=dt, steps=60, throw=False, **options
        )

    through = flown(100.0, 0.02)
    assert through.result == lie_jax.Result.departed
    assert int(through.stats.completed_steps) == 0
    # Beside each other, and thrown back, nothing is said.
    assert flown(100.0, 0.02, aside=2.1 * RADIUS).result == lie_jax.Result.successful
    back = flown(1.0, 0.01)
    assert back.result == lie_jax.Result.successful
    assert back.q[-1, 2] > 0.2
    # Automatic steps become smaller instead: at this speed the balls are too soft.
    adaptive = lie_jax.Adaptive(rtol=1e-3, atol=1e-3)
    system, state = moving(ball, anchored, 0.5, (0.0, 0.0, -100.0), formulation)
    with pytest.raises(lie_jax.SimulationError, match=r"Contact\('a', 'ground'\)"):
        lie_jax.simulate(
            system,
            lie_jax.RKMK("dopri5"),
            state,
            dt=0.01,
            steps=500,
            adaptive=adaptive,
            save=jnp.asarray([0.01]),
        )


def test_a_ball_pressed_into_the_ground_to_its_middle_ends_the_run():
    system, state = moving(contact.Sphere("a", RADIUS), GROUND, RADIUS, (0, 0, -50.0))
    with pytest.raises(lie_jax.SimulationError, match=r"law of Contact\('a', 'ground'\).*middle"):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-4, steps=100)


@pytest.mark.full
def test_a_line_that_turns_with_a_body_passes_through_nothing():
    """A pebble on the rim of a large ball, half a radian a step."""
    arm = lie_jax.Body("a", 1.0, 0.1 * jnp.eye(3), omega_body=(0.0, 0.0, 50.0))
    hinge = lie_jax.RevoluteJoint("ground", "a", (0, 0, 1))
    pebble, ball = contact.Sphere("a", 0.01, (1.02, 0, 0)), contact.Sphere("ground", 1.0)
    hit = lie_jax.contact.Contact(pebble, ball, LAW)
    system, state = lie_jax.assemble(lie_jax.Mechanism([arm], [hinge], [hit]), lie_jax.Minimal())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.01, steps=10, throw=False)
    assert run.result == lie_jax.Result.successful
    # What is not known is not said to touch.
    assert np.isnan(system.contacts(0.0, jnp.nan * state.q, state.v).gap).all()
