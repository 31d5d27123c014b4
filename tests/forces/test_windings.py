"""Springs and controllers of angles count whole turns, in every formulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from tests.suites import cases

AXIS = np.asarray([1.0, 2.0, 2.0]) / 3.0
HOME = np.asarray([0.5, 0.5, -0.5, 0.5])
INERTIA = 0.2
# A spring that lets the first disc swing by ten radians, and a controller that the second one lags
# behind by up to four.
SPRING_RATE, START_RATE = 3.0, 30.0
CONTROL_RATE, WANTED_RATE = 2.0, 8.0
DT, STEPS = 0.01, 150
# Of fourth order with 0.03 rad a step, and of second order.
ERRORS = {"Minimal": 1e-5, "generalized-α": 2e-2, "midpoint": 2e-2}
ROUNDING = 1e-12


def discs(formulation, stiffness=INERTIA * SPRING_RATE**2, count=2):
    """Discs on hinges, the first one with a spring and the second one with a controller."""
    omega = lie_jax.groups.quaternion.rotate(lie_jax.groups.quaternion.conjugate(HOME), AXIS)
    bodies = [
        lie_jax.Body(
            "wound", 1.0, INERTIA * np.eye(3), orientation=HOME, omega_body=START_RATE * omega
        ),
        lie_jax.Body("led", 1.0, INERTIA * np.eye(3), orientation=HOME),
    ]
    joints = [lie_jax.RevoluteJoint("ground", b.name, AXIS, orientation=HOME) for b in bodies]
    forces = [
        lie_jax.JointSpring(joints[0], stiffness=stiffness),
        lie_jax.JointController(
            joints[1],
            reference=lambda t: WANTED_RATE * t,
            proportional=INERTIA * CONTROL_RATE**2,
        ),
    ]
    parts = bodies[:count], joints[:count], forces[:count]
    mechanism = lie_jax.Mechanism(*parts, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, formulation)


def exact(t):
    """Angles (rad) of both discs: φ'' = -s² φ from the rate v, φ'' = c² (w t - φ) from rest."""
    swung = START_RATE / SPRING_RATE * np.sin(SPRING_RATE * t)
    followed = WANTED_RATE * (t - np.sin(CONTROL_RATE * t) / CONTROL_RATE)
    return np.stack([swung, followed], axis=1)


RUNS = {
    "Minimal": (lie_jax.Minimal(), lie_jax.RKMK("rk4")),
    "generalized-α": (lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(1.0)),
    "midpoint": (lie_jax.R3SO3(), lie_jax.RKMK("midpoint")),
}


def run(system, integrator, state, steps=STEPS):
    return lie_jax.simulate(system, integrator, state, dt=DT, steps=steps, save=5)


def windings(memory):
    """The windings in a memory, one for each group of elements that count turns."""
    return jax.tree.leaves(memory, is_leaf=lambda x: hasattr(x, "angle"))


# `make test` counts in absolute coordinates over a step, and several turns of joint coordinates.
@pytest.mark.parametrize("name", cases(["Minimal", "generalized-α", "midpoint"], []))
def test_turns_are_counted(name):
    formulation, integrator = RUNS[name]
    system, state = discs(formulation)
    # The second half goes on with the turns of the first, and is the same program.
    first = run(system, integrator, state, STEPS // 2)
    second = run(system, integrator, first.restart, STEPS // 2)
    trajectory = jax.tree.map(
        lambda a, b: np.concatenate([a, b]),
        *((half.t, half.q, half.v, half.memory) for half in (first, second)),
    )

    # The spring's energy is that of the angle, not of its remainder.
    def energy(q, memory):
        return system.with_memory(memory).potential_energy(q)

    @jax.jit
    def readings(t, q, v, memory):
        return system.joint_coordinates(q, v, t), jax.vmap(energy)(q, memory)

    angles, stored = readings(*trajectory)
    t, *_, memory = trajectory
    if name == "Minimal":
        angle = np.concatenate([angles["ground", "wound"], angles["ground", "led"]], axis=1)
    else:
        angle = np.concatenate([winding.angle[..., 0] for winding in windings(memory)], axis=1)
    wanted = exact(t)
    assert np.ptp(wanted[:, 0]) > 4 * np.pi
    lag = WANTED_RATE * t - wanted[:, 1]
    assert np.max(lag) > 1.2 * np.pi
    assert_allclose(angle, wanted, atol=ERRORS[name])
    assert_allclose(stored, 0.5 * INERTIA * SPRING_RATE**2 * angle[:, 0] ** 2, rtol=1e-6, atol=1e-9)


def test_a_step_of_several_radians_counts_its_turns():
    """The rates tell how far the disc has turned, forwards and backwards."""
    system, state = discs(lie_jax.R3SO3(), count=1)
    turns, duration = np.asarray([-20.0, -4.0, 2.5, 4.0, 9.0]), 0.5

    @jax.jit
    @jax.vmap
    def counted(turn):
        along = state.v / START_RATE
        rate, end = along * (turn / duration), system.space.retract(state.q, along * turn)
        memory = system.memory_after(jnp.zeros(()), state.q, rate)
        return system.with_memory(memory).memory_after(jnp.asarray(duration), end, rate)

    (winding,) = windings(counted(turns))
    assert_allclose(winding.angle[:, 0, 0], turns, rtol=100 * ROUNDING)


METHODS = {"midpoint": lie_jax.RKMK("midpoint"), "generalized-α": lie_jax.GeneralizedAlpha(1.0)}


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_derivatives_and_batches_go_through_turns(name):
    """Of a disc that turns about its axis."""
    integrator, stiffness = METHODS[name], INERTIA * SPRING_RATE**2

    def angle(stiffness):
        system, state = discs(lie_jax.R3SO3(), stiffness, count=1)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=DT, steps=STEPS, save=STEPS, throw=False
        )
        (wound,) = windings(trajectory.memory)
        return trajectory.v[-1] @ trajectory.v[-1], wound.angle[-1, 0]

    step = 1e-4
    each = stiffness + step * jnp.asarray([1.0, -1.0, 0.0])
    (values, turned), slopes = jax.jit(jax.vmap(jax.value_and_grad(angle, has_aux=True)))(each)
    # Central differences: the square of the step beside rounding over the step.
    assert_allclose(slopes[2], (values[0] - values[1]) / (2.0 * step), rtol=1e-6)
    end = exact(DT * STEPS * np.ones(1))[0, 0]
    assert_allclose(turned[2, 0], end, atol=ERRORS["generalized-α"])


BACK = lie_jax.groups.quaternion.conjugate(HOME)
FROM_CHILD = lie_jax.groups.quaternion.rotate(BACK, AXIS), BACK
TURNED = lie_jax.groups.quaternion.multiply(lie_jax.groups.quaternion.exp(AXIS), HOME)
# Parent and child in turn, another sign of the axis, another zero of the angle: each with the turn
# of its body about the axis, a sign times the angle and an offset.
HINGES = {
    "forwards": (False, AXIS, HOME, 1.0, 0.0),
    "backwards": (False, -AXIS, HOME, -1.0, 0.0),
    "from the child": (True, *FROM_CHILD, -1.0, 0.0),
    "turned": (False, AXIS, TURNED, 1.0, 1.0),
}


def test_joint_coordinates_give_the_turns():
    """One body for each hinge, and angles from less than a turn to several."""
    bodies, joints = [], []
    for name, (swapped, axis, orientation, _, _) in HINGES.items():
        bodies.append(lie_jax.Body(name, 1.0, INERTIA * np.eye(3), orientation=HOME))
        ends = (name, "ground") if swapped else ("ground", name)
        joints.append(lie_jax.RevoluteJoint(*ends, axis, orientation=orientation))
    springs = [lie_jax.JointSpring(joint, stiffness=3.0, relaxed=0.4) for joint in joints]
    mechanism = lie_jax.Mechanism(bodies, joints, springs, gravity=(0.0, 0.0, 0.0))
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())

    @jax.jit
    @jax.vmap
    def evaluated(q):
        poses = system.poses(q)
        return system.force(0.0, q, jnp.zeros(4)), system.potential_energy(q), poses[0]

    angles = np.asarray([0.3, 4.0, 200.0 * np.pi / 180.0, -25.0])
    q = np.stack([np.roll(angles, k) for k in range(4)])
    forces, energies, rotations = evaluated(jnp.asarray(q))
    assert_allclose(forces, -3.0 * (q - 0.4), rtol=ROUNDING)
    assert_allclose(energies, 1.5 * np.sum((q - 0.4) ** 2, axis=1), rtol=ROUNDING)
    signs, offsets = (np.asarray(x) for x in list(zip(*HINGES.values(), strict=True))[3:])
    turns = Rotation.from_rotvec((signs * q + offsets)[..., None] * AXIS)
    home = Rotation.from_quat(HOME, scalar_first=True)
    assert_allclose(rotations, (turns * home).as_matrix(), atol=100 * ROUNDING)


@pytest.mark.full
def test_a_driver_does_not_hold_half_a_turn_away():
    body = lie_jax.Body("b", 1.0, np.eye(3), orientation=(0.0, *AXIS))
    hinge = lie_jax.RevoluteJoint("ground", "b", AXIS)
    joints = [hinge, lie_jax.JointDriver(hinge, value=0.01)]
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], joints), lie_jax.R3SO3())
    assert_allclose(system.constraint(0.0, state.q)[-1], np.pi - 0.01, rtol=ROUNDING)
