"""Stops hold the ends of a joint's range, and dry friction stops it, in every formulation."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.suites import cases

LAW = lie_jax.contact.HuntCrossley(200.0, dissipation=0.5)
BEFORE = 1.0
HINGE = lie_jax.RevoluteJoint("ground", "disc", (0, 0, 1))
RAIL = lie_jax.PrismaticJoint("ground", "cart", (1, 0, 0))


def on_hinge(speed, forces, formulation):
    """A disc that turns about its axis through z, without weight."""
    disc = lie_jax.Body("disc", 1.0, jnp.eye(3), omega_body=jnp.asarray([0.0, 0.0, speed]))
    mechanism = lie_jax.Mechanism([disc], [HINGE], forces, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation)


def on_rail(speed, forces, formulation):
    """A cart along x, without weight."""
    cart = lie_jax.Body("cart", 1.0, jnp.eye(3), velocity=jnp.asarray([speed, 0.0, 0.0]))
    mechanism = lie_jax.Mechanism([cart], [RAIL], forces, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation)


KINDS = {"hinge": (on_hinge, HINGE), "rail": (on_rail, RAIL)}
FORMULATIONS = {"minimal": lie_jax.Minimal(), "absolute": lie_jax.R3SO3()}


def closed(speed):
    """Speed w after a stop, from v + w = ln((1 + a v)/(1 - a w)) / a by Newton's method."""
    a, w = 0.5, speed
    for _ in range(50):
        residual = speed + w - (np.log1p(a * speed) - np.log1p(-a * w)) / a
        w = w - residual / (1.0 - 1.0 / (1.0 - a * w))
    return w


PAIRS = [(kind, formulation) for kind in KINDS for formulation in FORMULATIONS]


@pytest.mark.parametrize(("kind", "formulation"), cases(PAIRS, []))
def test_a_stop_returns_a_body_with_the_speed_of_the_law(kind, formulation):
    build, joint = KINDS[kind]
    stop = lie_jax.JointStop(joint, lower=-0.4, upper=0.6, law=LAW)
    system, state = build(BEFORE, [stop], FORMULATIONS[formulation])
    adaptive = lie_jax.Adaptive(rtol=1e-10, atol=1e-10)
    run = lie_jax.simulate(
        system,
        lie_jax.RKMK("dopri5"),
        state,
        dt=1e-3,
        steps=2000,
        adaptive=adaptive,
        save=jnp.asarray([1.2, 3.4]),
    )
    twists, potential = jax.jit(
        jax.vmap(lambda q, v: (system.twists(q, v)[0], system.potential_energy(q)))
    )(run.q, run.v)
    rate = twists[:, 5 if kind == "hinge" else 0]
    once = closed(BEFORE)
    assert_allclose(rate, [BEFORE, -once, closed(once)], atol=1e-7)
    # Kinetic energy and that of the stop's spring are all that there is at rest of gravity.
    assert_allclose(potential[-1], 0.0, atol=1e-15)


@pytest.mark.parametrize("kind", cases(KINDS, ["hinge"]))
def test_dry_friction_brings_a_joint_to_rest_on_the_way_of_its_closed_form(kind):
    build, joint = KINDS[kind]
    friction = lie_jax.JointFriction(joint, limit=2.0, velocity=0.1)
    system, state = build(BEFORE, [friction], lie_jax.Minimal())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=2e-3, steps=1500)
    way = (BEFORE * np.sqrt(BEFORE**2 + 0.01) + 0.01 * np.arcsinh(BEFORE / 0.1)) / 4.0
    assert_allclose(run.q[-1, 0], way, rtol=1e-8)


def test_what_is_no_stop_is_refused_by_name(monkeypatch):
    # Users run without checks of types.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for make, message in (
        (
            lambda: lie_jax.JointStop(HINGE, lower=0.5, upper=0.5, law=LAW),
            r"lower is 0\.5, not below upper=0\.5",
        ),
        (lambda: lie_jax.JointStop(RAIL, lower=0.0, upper=0.5, law=1e4), r"law is 10000\.0; it"),
        (lambda: lie_jax.JointFriction(HINGE, limit=-1.0), r"limit"),
        (lambda: lie_jax.JointFriction(RAIL, limit=1.0, velocity=0.0), r"velocity"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
