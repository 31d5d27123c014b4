"""Couplings of two joints' coordinates: against one coordinate with the mass of both."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax

# Closed forms in double precision; the multiplier goes through a solve of some 20 unknowns.
CLOSE = 1e-11
# Errors of two formulations with ten steps of 20 ms, and they differ by far less than it.
RUNS = 1e-4
# A step of 2e-3 in a central difference of second order.
DIFFERENCE = 1e-6
FORMULATIONS = {
    "Minimal": lie_jax.Minimal(),
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "EulerParameters": lie_jax.EulerParameters(),
}
INERTIAS = 0.3, 0.7
MASS, TORQUE = 2.0, 1.5


def _mechanism(s, ratio, curvature, pitch, rate=0.0):
    """A hinge a at the angle s; a second one b at ratio s + curvature s²; a slider c of pitch b.

    The hinges turn about parallel axes through the bodies' centres, and have no weight to lift.
    """
    angle, angle_rate = ratio * s + curvature * s**2, (ratio + 2.0 * curvature * s) * rate

    def turned(by):
        return (float(np.cos(by / 2.0)), 0.0, 0.0, float(np.sin(by / 2.0)))

    a = lie_jax.RevoluteJoint("ground", "a", (0, 0, 1))
    b = lie_jax.RevoluteJoint("ground", "b", (0, 0, 2), (1, 0, 0))
    c = lie_jax.PrismaticJoint("ground", "c", (1, 0, 0), (0, 3, 0))
    bodies = [
        lie_jax.Body("a", 1.0, INERTIAS[0] * np.eye(3), orientation=turned(s),
                     omega_body=(0, 0, rate)),
        lie_jax.Body("b", 1.0, INERTIAS[1] * np.eye(3), position=(1, 0, 0),
                     orientation=turned(angle), omega_body=(0, 0, angle_rate)),
        lie_jax.Body("c", MASS, np.eye(3), position=(pitch * angle, 3, 0),
                     velocity=(pitch * angle_rate, 0, 0)),
    ]  # fmt: skip
    joints = [
        a,
        b,
        c,
        lie_jax.CouplingJoint(b, a, [0.0, ratio, curvature]),
        lie_jax.CouplingJoint(c, b, [0.0, pitch]),
    ]
    motor = lie_jax.JointMotor(a, input=0)
    return lie_jax.Mechanism(bodies, joints, [motor], gravity=(0, 0, -9.81))


@pytest.mark.full
@pytest.mark.parametrize("name", FORMULATIONS)
def test_accelerations_are_those_of_one_coordinate(name):
    s, rate, ratio, curvature, pitch = 0.4, 1.3, -0.8, 0.5, 0.2
    mechanism = _mechanism(s, ratio, curvature, pitch, rate)
    system, state = lie_jax.assemble(mechanism, FORMULATIONS[name])
    slope = ratio + 2.0 * curvature * s
    # T = ½ (J₁ + (J₂ + m p²) slope²) ṡ², and its equation of Lagrange.
    beyond = INERTIAS[1] + MASS * pitch**2
    inertia = INERTIAS[0] + beyond * slope**2
    expected = (TORQUE - 2.0 * curvature * beyond * slope * rate**2) / inertia

    @jax.jit
    def evaluated(q, v):
        u = jnp.asarray([TORQUE])
        acceleration = system.acceleration(0.0, q, v, u)
        jacobian = system.constraint_jacobian(0.0, q)
        change = jax.jacfwd(lambda x: system.constraint(0.0, system.space.retract(q, x)))(
            jnp.zeros_like(v)
        )
        values = system.constraint(0.0, q), system.constraint_rate(0.0, q, v)
        return acceleration, jacobian, change, *values

    acceleration, jacobian, change, values, rates = evaluated(state.q, state.v)
    np.testing.assert_allclose(values, 0.0, atol=CLOSE)
    np.testing.assert_allclose(rates, 0.0, atol=CLOSE)
    if name != "EulerParameters":
        np.testing.assert_allclose(jacobian, change, atol=CLOSE)
    if name == "Minimal":
        second = slope * expected + 2.0 * curvature * rate**2
        np.testing.assert_allclose(acceleration, [expected, second, pitch * second], atol=CLOSE)
    elif name in ("R3SO3", "SE3"):
        assert acceleration[5] == pytest.approx(expected, abs=CLOSE)


@pytest.mark.full
def test_angles_count_whole_turns_in_joint_coordinates():
    system, _ = lie_jax.assemble(_mechanism(0.0, 0.7, 0.2, 0.1), lie_jax.Minimal())

    @jax.jit
    @jax.vmap
    def at(s):
        b = 0.7 * s + 0.2 * s**2
        q = jnp.stack([s, b, 0.1 * b])
        return system.constraint(0.0, q), system.constraint_jacobian(0.0, q)

    turns = np.asarray([-9.0, -4.0, 3.5, 20.0])
    values, jacobian = at(jnp.asarray(turns))
    np.testing.assert_allclose(values, 0.0, atol=1e-12)
    slopes = 0.7 + 0.4 * turns
    expected = [[[-slope, 1.0, 0.0], [0.0, -0.1, 1.0]] for slope in slopes]
    np.testing.assert_allclose(jacobian, expected, atol=CLOSE)


@pytest.mark.full
def test_a_run_and_its_derivative():
    def end(rate, formulation):
        system, state = lie_jax.assemble(_mechanism(0.2, 0.5, 0.2, 0.1, 1.0), formulation)
        run = lie_jax.simulate(
            system,
            lie_jax.GeneralizedAlpha(0.9),
            lie_jax.State(state.q, rate * state.v),
            dt=0.02,
            steps=10,
            inputs=jnp.full((10, 1), TORQUE),
        )
        return system.poses(run.q[-1])[1][2, 0]

    minimal = partial(end, formulation=lie_jax.Minimal())
    changes = jnp.asarray([0.0, 2e-3, -2e-3])
    ends = jax.jit(jax.vmap(minimal))(1.0 + changes)
    _, slope = jax.jit(lambda: jax.jvp(minimal, (1.0,), (1.0,)))()
    assert slope == pytest.approx(float(ends[1] - ends[2]) / 4e-3, abs=DIFFERENCE)
    assert end(1.0, lie_jax.R3SO3()) == pytest.approx(float(ends[0]), abs=RUNS)


def test_bad_couplings():
    a, b = (lie_jax.RevoluteJoint("ground", name, (0, 0, 1)) for name in "ab")
    with pytest.raises(ValueError, match=r"SphericalJoint\('ground', 'b'\) has no coordinates"):
        lie_jax.CouplingJoint(a, lie_jax.SphericalJoint("ground", "b"), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"coefficients has shape \(\); it must be \(n,\)"):
        lie_jax.CouplingJoint(a, b, 1.0)
    with pytest.raises(ValueError, match="coefficients"):
        lie_jax.CouplingJoint(a, b, [0.0, np.nan])


def test_couplings_of_joints_that_are_not_there():
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    a, b = (lie_jax.RevoluteJoint("ground", name, (0, 0, 1)) for name in "ab")
    with pytest.raises(ValueError, match=r"along a coordinate of RevoluteJoint\('ground', 'b'\)"):
        lie_jax.Mechanism(bodies, [a, lie_jax.CouplingJoint(b, a, [0.0, 1.0])])
    with pytest.raises(ValueError, match="with itself"):
        lie_jax.CouplingJoint(a, a, [0.0, 1.0])
