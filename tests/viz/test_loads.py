"""Plots of work and of reactions have the closed forms of a driven pendulum."""

import dataclasses

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import viz
from lie_jax.viz import inputs

MASS, ARM, INERTIA, FRICTION, G = 2.0, 0.4, 0.1, 0.5, 9.81
STEPS, DT = 80, 0.01
# Another torque in each step: that of a wrong step would be far off.
TORQUE = np.where(np.arange(STEPS) % 2, 4.0, -1.0)[:, None]
# Trapezoids err by a twelfth of the square of the step times the change of the power's rate, which
# is some 100 W/s here.
TRAPEZOIDS = 2e-3
# Works of some joules, of which a plot shows three digits.
EXACT = 1e-10


@pytest.fixture(scope="module")
def pendulum():
    rod = lie_jax.Body("rod", MASS, INERTIA * np.eye(3), position=(ARM, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), child_point=(-ARM, 0, 0))
    forces = [
        lie_jax.ViscousFriction("ground", "rod", FRICTION),
        lie_jax.JointMotor(hinge, input=0),
    ]
    mechanism = lie_jax.Mechanism([rod], [hinge], forces, gravity=(0.0, 0.0, -G))
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, inputs=TORQUE)
    return system, run


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_work_of_a_motor_and_of_friction_is_the_change_of_the_energy(pendulum):
    _, run = pendulum
    lines = {
        x.get_label(): np.asarray(x.get_ydata())
        for x in viz.energy(*pendulum, TORQUE).axes[1].lines
    }
    angle, rate = np.asarray(run.q[:, 0]), np.asarray(run.v[:, 0])
    of_motor = np.append(0.0, np.cumsum(TORQUE[:, 0] * np.diff(angle)))
    assert_allclose(lines["JointMotor('ground', 'rod')"], of_motor, atol=TRAPEZOIDS)
    assert np.ptp(of_motor) > 1.0
    squares = FRICTION * rate**2
    of_friction = -np.append(0.0, np.cumsum(0.5 * DT * (squares[1:] + squares[:-1])))
    assert_allclose(lines["ViscousFriction('ground', 'rod')"], of_friction, atol=EXACT)
    height = -ARM * np.sin(angle)
    total = 0.5 * (INERTIA + MASS * ARM**2) * rate**2 + MASS * G * height
    assert_allclose(lines["change of the total"], total - total[0], atol=EXACT)
    assert_allclose(lines["left over"], np.zeros(STEPS + 1), atol=TRAPEZOIDS)


@pytest.mark.full
def test_inputs_of_a_policy_are_those_of_the_run(pendulum):
    system, run = pendulum
    held = dataclasses.replace(run, inputs=jnp.asarray(TORQUE))
    lines = viz.energy(system, held).axes[1].lines
    for line, wanted in zip(lines, viz.energy(system, run, TORQUE).axes[1].lines, strict=True):
        assert_allclose(line.get_ydata(), wanted.get_ydata(), atol=0.0)


def test_single_precision_assigns_inputs_to_their_steps(pendulum):
    """Times of single precision are off by more than 1e-4 of a step after some thousand steps."""
    system, run = pendulum
    first, steps = 5000, np.arange(STEPS + 1)
    t = (np.float32(DT) * np.float32(1.0)) * (first + steps).astype(np.float32)
    assert np.max(np.abs((t - t[0]) / np.float64(run.restart.dt) - steps)) > 1e-5
    late = dataclasses.replace(run, t=jnp.asarray(t))
    given = inputs.of_run("here", system, late, TORQUE)
    assert_allclose(given.between(t), TORQUE, atol=0.0)


def test_without_inputs_the_plot_says_that_work_is_missing(pendulum):
    below = viz.energy(*pendulum).axes[1]
    assert [line.get_label() for line in below.lines] == ["change of the total"]
    assert "inputs=" in below.get_title(loc="left")


def _check_reactions(system, run, torque):
    """Compare drawn reactions with those of a rod under a torque (n,) at each instant."""
    angle, rate = np.asarray(run.q[:, 0]), np.asarray(run.v[:, 0])
    on_axis = torque - FRICTION * rate + MASS * G * ARM * np.cos(angle)
    growth = on_axis / (INERTIA + MASS * ARM**2)
    along = -MASS * (ARM * rate**2 + G * np.sin(angle))
    across = MASS * (G * np.cos(angle) - ARM * growth)
    figure = viz.reactions(system, run, [("ground", "rod")], frame="rod")
    force, moment = ([x.get_ydata() for x in axes.lines] for axes in figure.axes)
    assert_allclose(force, [along, 0.0 * along, across], atol=EXACT)
    assert_allclose(moment, np.zeros_like(moment), atol=EXACT)
    assert np.ptp(across) > 1.0


def test_reactions_in_the_frame_of_the_rod(pendulum):
    # An instant has the acceleration of the step that ended there.
    _check_reactions(*pendulum, np.append(TORQUE[0], TORQUE))


@pytest.mark.full
def test_a_continued_run_begins_with_the_input_of_the_step_that_ended_there(pendulum):
    system, run = pendulum
    torque, start = 3.0 * TORQUE[::-1], run.restart
    onward = lie_jax.simulate(system, lie_jax.RKMK("rk4"), start, dt=DT, steps=STEPS, inputs=torque)
    assert_allclose(onward.u, np.concatenate([TORQUE[-1:], torque]), atol=0.0)
    _check_reactions(system, onward, np.append(TORQUE[-1], torque))
    (line,) = [
        x.get_ydata()
        for x in viz.energy(system, onward, torque).axes[1].lines
        if x.get_label() == "JointMotor('ground', 'rod')"
    ]
    of_motor = np.append(0.0, np.cumsum(torque[:, 0] * np.diff(onward.q[:, 0])))
    assert_allclose(line, of_motor, atol=3.0 * TRAPEZOIDS)


def test_torques_of_rounding_are_not_blown_up(pendulum):
    """A hinge without any torque; the force of some newtons acts at its point."""
    system, run = pendulum
    force, torque = viz.reactions(system, run, frame="rod").axes
    low, high = torque.get_ylim()
    # A range of some hundred roundings, 2e-16, of 20 N on 0.4 m, and nothing that one could read.
    assert 2e-13 < high - low < 1e-9
    low, high = force.get_ylim()
    assert high - low > MASS * G


@pytest.mark.full
def test_instants_that_an_event_left_out_are_not_drawn(pendulum):
    """Rows of a stopped run are NaN between the event's step and the event."""
    system, _ = pendulum
    below = lie_jax.Event(lambda t, q, v: q[0] - 0.5, "stop")
    start = lie_jax.State(np.zeros(1), np.zeros(1))
    run = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), start, dt=DT, steps=STEPS, inputs=TORQUE, events=[below]
    )
    assert np.isnan(run.t).any()
    (line,) = [
        x for x in viz.energy(system, run, TORQUE).axes[1].lines if x.get_label() == "left over"
    ]
    assert np.isfinite(line.get_ydata()).all()
    assert_allclose(line.get_xdata()[-1], run.t[-1])
    assert_allclose(line.get_ydata(), 0.0 * line.get_ydata(), atol=TRAPEZOIDS)


@pytest.mark.full
def test_bad_input_is_named(pendulum):
    system, run = pendulum
    for options, message in (
        ({"frame": "leg"}, "'leg'.*take one of rod"),
        ({"joints": [("rod", "ground")]}, r"the labels are \('ground', 'rod'\)"),
    ):
        with pytest.raises(ValueError, match=message):
            viz.reactions(system, run, **options)
    with pytest.raises(ValueError, match="batch of trajectories"):
        viz.reactions(system, jax.tree.map(lambda x: x[None], run))
    with pytest.raises(ValueError, match=r"shape \(3, 1\); it must have shape \(80, 1\)"):
        viz.energy(system, run, TORQUE[:3])
