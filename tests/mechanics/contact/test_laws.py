"""Contacts move bodies as the closed forms of their laws say, with the derivatives of these."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import contact

# Sources of the closed forms: Hunt and Crossley (1975) for the speed after an impact; a mass on a
# linear spring; friction of the form v / √(v² + vₛ²), integrated.
# (dissipation in s/m, speed before, speed after) in m/s
IMPACTS = (
    (0.1, 1.0, 0.937475579949905),
    (0.3, 1.0, 0.832869792265602),
    (0.3, 3.0, 1.85920939824593),
    (1.0, 1.0, 0.59362426004004),
    (3.0, 1.0, 0.306896798290962),
)
DIGITS, DIGITS_OF_DERIVATIVES = 1e-9, 1e-7
GRAVITY = 9.81


def touch(system):
    """Event at which the first contact of a system begins or ends."""
    return lie_jax.Event(
        lambda t, q, v: system.contacts(t, q, v).gap[0], lambda t, q, v: (q, v), direction=0
    )


def run(system, state, end, tolerance=1e-11):
    """Run with automatic steps, each of which lies on one side of the touch of the bodies."""
    adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
    return lie_jax.simulate(
        system,
        lie_jax.RKMK("dopri5"),
        state,
        dt=1e-4,
        steps=400,
        adaptive=adaptive,
        save=jnp.asarray([end]),
        events=[touch(system)],
        max_events=4,
        throw=False,
    )


def thrown(law, speed):
    """A ball of 1 kg that hits a wall."""
    velocity = jnp.stack([-speed, 0.0 * speed, 0.0 * speed])
    ball = lie_jax.Body("ball", 1.0, jnp.eye(3), position=(0.101, 0, 0), velocity=velocity)
    wall = contact.Plane("ground", normal=(1, 0, 0))
    hit = lie_jax.contact.Contact(wall, contact.Sphere("ball", 0.1), law)
    mechanism = lie_jax.Mechanism([ball], forces=[hit], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def derivatives_of_impact(v, a, w):
    """Derivatives of the speed w after an impact by the speed v and the dissipation a.

    They are those of v + w = ln((1 + a v)/(1 - a w)) / a.
    """
    by_w = -a * w / (1.0 - a * w)
    by_v = a * v / (1.0 + a * v)
    by_a = (v / (1.0 + a * v) + w / (1.0 - a * w) - v - w) / a
    return -by_v / by_w, by_a / by_w


def test_a_ball_leaves_a_wall():
    dissipation, speed, expected = IMPACTS[1]
    system, state = thrown(
        lie_jax.contact.HuntCrossley(1e5, dissipation=dissipation), jnp.asarray(speed)
    )
    end = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-4, steps=2000)
    # The law is smooth but once, and the touch lies within a step.
    assert_allclose(end.v[-1, 0], expected, rtol=0, atol=1e-7)


LAWS = {
    "square": lambda a: lie_jax.contact.HuntCrossley(1e5, dissipation=a),
    "Hertz": lambda a: lie_jax.contact.HuntCrossley(1e5, 1.5, dissipation=a),
    "linear": lambda a: lie_jax.contact.SmoothLinear(1e4, 1e-4, a),
}


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
def test_a_ball_leaves_a_wall_with_the_speed_of_the_closed_form(law):
    def end(speed, dissipation):
        return run(*thrown(LAWS[law](dissipation), speed), 1.0, 1e-12).v[-1, 0]

    dissipation, speed, expected = np.asarray(IMPACTS).T
    value_and_gradient = jax.jit(jax.vmap(jax.value_and_grad(end, (0, 1))))
    value, gradient = value_and_gradient(speed, dissipation)
    assert_allclose(value, expected, rtol=0, atol=DIGITS)
    by_closed_form = derivatives_of_impact(speed, dissipation, expected)
    assert_allclose(gradient, by_closed_form, atol=DIGITS_OF_DERIVATIVES)


@pytest.mark.full
def test_two_elastic_balls_exchange_their_motion():
    """The case in which a known simulator has the gradient (0.75, 0.25, 0.91, 0.08)."""
    radius, stiffness, end = 0.1, 1e5, 1.0

    def final(x):
        bodies = [
            lie_jax.Body(
                name,
                1.0,
                jnp.eye(3),
                position=jnp.stack([x[k], 0.0, 0.0]),
                velocity=jnp.stack([x[2 + k], 0.0, 0.0]),
            )
            for k, name in enumerate("ab")
        ]
        spheres = [contact.Sphere(name, radius) for name in "ab"]
        hit = lie_jax.contact.Contact(
            *spheres, lie_jax.contact.HuntCrossley(stiffness, exponent=1.0)
        )
        mechanism = lie_jax.Mechanism(bodies, forces=[hit], gravity=(0, 0, 0))
        return run(*lie_jax.assemble(mechanism, lie_jax.R3SO3()), end).q[-1, 7]

    def closed(x):
        duration = jnp.pi * jnp.sqrt(1.0 / (2.0 * stiffness))
        touched = (x[1] - x[0] - 2.0 * radius) / (x[2] - x[3])
        mean = 0.5 * (x[2] + x[3])
        return x[1] + x[3] * touched + mean * duration + x[2] * (end - touched - duration)

    start = jnp.asarray([0.0, 0.52, 1.0, 0.0])
    value, gradient = jax.jit(jax.value_and_grad(final))(start)
    assert_allclose(value, closed(start), rtol=0, atol=DIGITS)
    assert_allclose(gradient, jax.grad(closed)(start), atol=DIGITS_OF_DERIVATIVES)


def sliding(friction, gravity, speed):
    """A block of 2 kg on a rail that presses it onto the ground with its weight."""
    stiffness, radius = 1e6, 0.1
    overlap = jnp.sqrt(-2.0 * gravity[2] / stiffness)
    block = lie_jax.Body("block", 2.0, jnp.eye(3), position=(0, 0, radius - overlap))
    rail = lie_jax.PrismaticJoint("ground", "block", axis=(1, 0, 0), parent_point=block.position)
    ground = contact.Plane("ground")
    law = lie_jax.contact.HuntCrossley(stiffness)
    rubbing = lie_jax.contact.Contact(contact.Sphere("block", radius), ground, law, friction)
    mechanism = lie_jax.Mechanism([block], [rail], [rubbing], gravity=gravity)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    return system, lie_jax.State(state.q, jnp.asarray([speed]))


@pytest.mark.full
def test_a_block_slides_to_the_end_of_the_closed_form_and_creeps_down_a_slope():
    slope, coefficient = np.deg2rad(10.0), 0.3
    end = 4.0

    def stopped(velocity):
        friction = lie_jax.contact.Coulomb(coefficient, velocity)
        system, state = sliding(friction, jnp.asarray([0.0, 0.0, -GRAVITY]), 1.0)
        return long(system, state, end).q[-1, 0]

    def creeping(velocity):
        friction = lie_jax.contact.Coulomb(coefficient, velocity)
        tilted = GRAVITY * jnp.asarray([np.sin(slope), 0.0, -np.cos(slope)])
        return long(*sliding(friction, tilted, 0.0), end).v[-1, 0]

    def long(system, state, end):
        adaptive = lie_jax.Adaptive(rtol=1e-10, atol=1e-12)
        options = {
            "dt": 1e-4,
            "steps": 20_000,
            "adaptive": adaptive,
            "save": jnp.asarray([end]),
            "throw": False,
        }
        return lie_jax.simulate(system, lie_jax.ImplicitRKMK("radau5"), state, **options)

    velocity = jnp.asarray([0.1, 0.01, 1e-3])
    ways = jax.jit(jax.vmap(stopped))(velocity)
    expected = (np.sqrt(1.0 + velocity**2) + velocity**2 * np.arcsinh(1.0 / velocity)) / (
        2.0 * coefficient * GRAVITY
    )
    assert_allclose(ways, expected, rtol=1e-8)
    part = np.tan(slope) / coefficient
    speeds = jax.jit(jax.vmap(creeping))(velocity)
    assert_allclose(speeds, velocity * part / np.sqrt(1.0 - part**2), rtol=1e-8)
