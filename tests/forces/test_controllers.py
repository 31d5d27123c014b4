"""Controllers against closed forms, in all quadrants and over many turns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.spaces import derivatives
from tests import mechanisms
from tests.golden import assert_close

# Rounding in torques of some ten N m.
ROUNDING = 1e-12
P, D, AXIS = 3.0, 0.4, np.asarray([0.6, 0.0, -0.8])


class Ramp(eqx.Module):
    """A reference that grows at a constant rate."""

    start: jax.Array
    rate: jax.Array

    def __call__(self, t):
        return self.start + self.rate * t


def test_a_hinge_is_turned_towards_its_reference():
    """The torque for errors in all quadrants and commands of many turns; it has no net effect."""
    rng = np.random.default_rng(2)
    orientation = lie_jax.groups.quaternion.exp(jnp.asarray(rng.normal(size=3)))
    hinge = lie_jax.RevoluteJoint("a", "b", 2.0 * AXIS, orientation=orientation)
    start, swing, parent_omega = (jnp.asarray(rng.normal(size=3)) for _ in range(3))
    rate, commanded_rate, t = 1.7, 2.3, jnp.asarray(0.3)
    # The last one is ahead by more than half a turn, that is, behind by less.
    errors = jnp.asarray([-3.1, -1.2, 0.0, 0.5, 1.4, 3.1, 3.5])
    turns = jnp.asarray([0.0, 1.0, 2.0, -7.0, 40.0, -1.0, 3.0])

    def rotations(s, angle):
        parent = lie_jax.groups.so3.exp(start) @ lie_jax.groups.so3.exp(s * parent_omega)
        turn = lie_jax.groups.so3.exp((angle + rate * s) * jnp.asarray(AXIS))
        return parent, parent @ turn @ lie_jax.groups.quaternion.to_matrix(orientation)

    @jax.jit
    @jax.vmap
    def evaluated(error, turns):
        reference = Ramp(0.9 + 2.0 * jnp.pi * turns, jnp.asarray(commanded_rate))
        controller = lie_jax.JointController(
            hinge, reference=reference, proportional=P, derivative=D
        ).attach([hinge])
        angle = 0.9 + commanded_rate * t - error
        now, change = jax.jvp(lambda s: rotations(s, angle), (0.0,), (1.0,))
        omegas = [lie_jax.groups.so3.vee(r.T @ dr) for r, dr in zip(now, change, strict=True)]
        poses = tuple(BodyPose(r, swing) for r in now)
        velocities = tuple(BodyVelocity(swing, omega) for omega in omegas)
        wrenches = controller.wrenches(t, poses, velocities, None)
        torques = jnp.stack([r @ w.torque for r, w in zip(now, wrenches, strict=True)])
        forces = jnp.stack([w.force for w in wrenches])
        return now[0].T @ torques[1], torques[0] + torques[1], forces

    torque, total, forces = evaluated(errors, turns)
    wrapped = np.asarray(errors) - [0, 0, 0, 0, 0, 0, 2 * np.pi]
    # Rounding of 40 turns times the gain.
    assert_close(torque, np.outer(P * wrapped + D * (commanded_rate - rate), AXIS), atol=1e-12)
    assert_close(total, np.zeros((7, 3)), atol=ROUNDING)
    assert not np.any(forces)


# `make test` has both torques and forces in closed form.
@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.SE3()])
def test_power_and_momentum(formulation):
    """Of two free bodies: energy changes by torque times rate, momenta do not change."""
    rng = np.random.default_rng(7)
    bodies = [mechanisms.random_body(name, rng) for name in "ab"]
    here, there = rng.normal(size=(2, 3))
    slider = lie_jax.PrismaticJoint("a", "b", AXIS, here, there)
    hinge = lie_jax.RevoluteJoint("b", "a", AXIS)
    controllers = [
        lie_jax.JointController(slider, reference=0.7, proportional=P, derivative=D),
        lie_jax.JointController(hinge, reference=lambda t: 2.0 * t, proportional=0.0, derivative=D),
    ]
    mechanism = lie_jax.Mechanism(bodies, [slider, hinge], controllers, np.zeros(3))
    system, state = lie_jax.assemble(mechanism, formulation)
    # The bodies are free: nothing holds what the controllers do not move.
    system = eqx.tree_at(lambda s: s.joints, system, ())
    t = jnp.asarray(0.4)

    def distance(q):
        rotation, position = system.poses(q)
        ends = [position[i] + rotation[i] @ jnp.asarray(p) for i, p in ((0, here), (1, there))]
        return jnp.asarray(AXIS) @ (rotation[0].T @ (ends[1] - ends[0]))

    @jax.jit
    def left(q, v):
        rotation, omega = system.poses(q)[0], system.twists(q, v)[:, 3:]
        rate = derivatives.derivative_along(system.space, distance, q, v)
        power = (P * (0.7 - distance(q)) - D * rate) * rate
        turning = jnp.asarray(AXIS) @ (rotation[1].T @ (rotation[0] @ omega[0]) - omega[1])
        power += D * (2.0 - turning) * turning

        def along_motion(function):
            dv = system.acceleration(t, q, v)
            return jax.jvp(function, (q, v), (system.space.lift(q, v), dv))[1]

        return along_motion(system.kinetic_energy) - power, along_motion(system.momentum), power

    energy, momentum, power = left(state.q, state.v)
    assert abs(float(power)) > 0.1
    assert_close(energy, 0.0, atol=ROUNDING)
    for rate in momentum:
        assert_close(rate, np.zeros(3), atol=ROUNDING)


# RK4 with h = 1 ms and a frequency of 6 rad/s: (ωh)⁴ωt/120 of an amplitude of 0.4, and the
# derivatives with respect to P and the rate by some ten times as much.
METHOD_ERROR = 1e-9


MOMENT, CARRIAGE, STIFF, ANGLE, SPIN, PLACE, SPEED = 0.1, 0.12, 4.0, 0.3, 30.0, -0.4, 0.2


def _held(formulation, gain, rate):
    """A wheel on a hinge and a carriage on a slider, that follow references."""
    turned = lie_jax.groups.quaternion.exp(ANGLE * jnp.asarray(AXIS))
    bodies = [
        lie_jax.Body("wheel", 2.0, MOMENT * np.eye(3), orientation=turned, omega_body=SPIN * AXIS),
        lie_jax.Body("carriage", CARRIAGE, np.eye(3), position=PLACE * AXIS, velocity=SPEED * AXIS),
    ]
    joints = [
        lie_jax.RevoluteJoint("ground", "wheel", AXIS),
        lie_jax.PrismaticJoint("ground", "carriage", AXIS),
    ]
    forces = [
        lie_jax.JointController(joint, reference=reference, proportional=gain, derivative=D)
        for joint, reference in zip(
            joints, (Ramp(jnp.zeros(()), rate), lambda t: 0.3 * t), strict=True
        )
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, forces, np.zeros(3))
    return lie_jax.assemble(mechanism, formulation)


@pytest.mark.full
def test_held_joints_accelerate():
    """As constraints and in joint coordinates, these with derivatives by the gain and the rate."""

    def acceleration(formulation, *args):
        system, state = _held(formulation, *args)
        return system.acceleration(0.0, state.q, state.v)

    def exact(gain, rate):
        wheel = (-gain * ANGLE + D * (rate - SPIN)) / MOMENT
        return jnp.stack([wheel, (-gain * PLACE + D * (0.3 - SPEED)) / CARRIAGE])

    @jax.jit
    def evaluated(*args):
        def free_and_exact(*args):
            return acceleration(lie_jax.Minimal(), *args), exact(*args)

        values = jax.jvp(free_and_exact, args, (jnp.ones(()),) * 2)
        return values, acceleration(lie_jax.R3SO3(), *args)

    values, constrained = evaluated(jnp.asarray(STIFF), jnp.asarray(10.0 * np.pi))
    for free, expected in values:
        assert_allclose(free, expected, rtol=0, atol=100 * ROUNDING)
    wheel, carriage = np.asarray(values[0][1])
    assert_allclose(constrained[3:6], wheel * AXIS, rtol=0, atol=100 * ROUNDING)
    assert_allclose(constrained[6:9], carriage * AXIS, rtol=0, atol=100 * ROUNDING)


@pytest.mark.full
def test_held_joints_oscillate_and_their_derivatives():
    """A hinge that follows five turns and a slider: J ë + D ė + P e = 0."""

    def simulated(gain, rate):
        system, state = _held(lie_jax.Minimal(), gain, rate)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=1000, save=1000, throw=False
        )
        return run.q[-1]

    def exact(gain, rate):
        def error(inertia, start, start_rate, t):
            decay = 0.5 * D / inertia
            frequency = jnp.sqrt(gain / inertia - decay**2)
            sine = (start_rate + decay * start) / frequency * jnp.sin(frequency * t)
            return jnp.exp(-decay * t) * (start * jnp.cos(frequency * t) + sine)

        wheel = rate - error(MOMENT, -ANGLE, rate - SPIN, 1.0)
        return jnp.stack([wheel, 0.3 - error(CARRIAGE, -PLACE, 0.3 - SPEED, 1.0)])

    gain, rate = jnp.asarray(STIFF), jnp.asarray(10.0 * np.pi)
    expected, slope = jax.jvp(exact, (gain, rate), (jnp.ones(()), jnp.ones(())))

    @jax.jit
    def minimal(gain, rate):
        return jax.jvp(simulated, (gain, rate), (jnp.ones(()), jnp.ones(())))

    q, dq = minimal(gain, rate)
    assert_allclose(q, expected, rtol=0, atol=METHOD_ERROR)
    assert_allclose(dq, slope, rtol=0, atol=METHOD_ERROR)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.full)])
def test_float32_stays_float32(compiled):
    shaft, ramp = lie_jax.CylindricalJoint("ground", "b", AXIS), Ramp(jnp.ones(()), jnp.ones(()))
    controllers = [
        lie_jax.JointController(shaft, k, reference=reference, proportional=P, derivative=D)
        for k, reference in enumerate((ramp, 0.3))
    ]
    body = lie_jax.Body("b", 1.0, np.eye(3), omega_body=(1.0, 2.0, 3.0))
    double = lie_jax.assemble(lie_jax.Mechanism([body], [shaft], controllers), lie_jax.R3SO3())

    @jax.jit
    def force(system, state):
        return system.force(jnp.zeros((), state.q.dtype), state.q, state.v)

    single = jax.tree.map(lambda x: x.astype(jnp.float32), double)
    assert jax.eval_shape(force, *single).dtype == jnp.float32
    if compiled:
        assert_close(force(*single), force(*double), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"proportional": -1.0}, "proportional"),
        ({"derivative": np.nan}, "derivative"),
        ({"reference": np.zeros(2)}, "reference"),
        ({"reference": lambda t: (t, t)}, "reference"),
    ],
)
def test_bad_values_are_refused(change, message):
    hinge = lie_jax.RevoluteJoint("ground", "b", AXIS)
    good = {"reference": 0.0, "proportional": P, "derivative": D}
    with pytest.raises(ValueError, match=rf"JointController\('ground', 'b'\)\.{message}"):
        lie_jax.JointController(hinge, **(good | change))
