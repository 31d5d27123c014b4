"""Springs and controllers about an axis count whole turns, in every formulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax

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
    omega = lie_jax.quaternion.rotate(lie_jax.quaternion.conjugate(HOME), AXIS)
    bodies = [
        lie_jax.Body(
            "wound", 1.0, INERTIA * np.eye(3), orientation=HOME, omega_body=START_RATE * omega
        ),
        lie_jax.Body("led", 1.0, INERTIA * np.eye(3), orientation=HOME),
    ]
    joints = [lie_jax.RevoluteJoint("ground", b.name, AXIS, orientation=HOME) for b in bodies]
    forces = [
        lie_jax.TorsionalSpringDamper("ground", "wound", AXIS, stiffness, orientation=HOME),
        lie_jax.PDController(
            "ground",
            "led",
            AXIS,
            lambda t: WANTED_RATE * t,
            INERTIA * CONTROL_RATE**2,
            orientation=HOME,
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
    "generalized-α": (lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(1.0, index=2)),
    "midpoint": (lie_jax.R3SO3(), lie_jax.RKMK("midpoint")),
}


def run(system, integrator, state, steps=STEPS):
    return lie_jax.simulate(system, integrator, state, dt=DT, steps=steps, save_every=5)


@pytest.mark.parametrize(
    "name", ["Minimal", "generalized-α", pytest.param("midpoint", marks=pytest.mark.full)]
)
def test_turns_are_counted(name):
    formulation, integrator = RUNS[name]
    system, state = discs(formulation)
    trajectory = run(system, integrator, state)
    angles = system.joint_coordinates(trajectory.q)
    found = np.concatenate([angles["ground", "wound"], angles["ground", "led"]], axis=1)
    wanted = exact(np.asarray(trajectory.t))
    assert np.ptp(wanted[:, 0]) > 4 * np.pi
    lag = WANTED_RATE * np.asarray(trajectory.t) - wanted[:, 1]
    assert np.max(lag) > 1.2 * np.pi
    assert_allclose(found, wanted, atol=ERRORS[name])

    # The spring's energy is that of the angle, not of its remainder.
    def energy(q, memory):
        return system.recalling(memory).potential_energy(q)

    stored = jax.jit(jax.vmap(energy))(trajectory.q, trajectory.memory)
    assert_allclose(stored, 0.5 * INERTIA * SPRING_RATE**2 * found[:, 0] ** 2, rtol=1e-6, atol=1e-9)
    # A run that is cut in two goes on with its turns.
    first = run(system, integrator, state, STEPS - 75)
    second = run(system, integrator, first.restart, 75)
    assert np.array_equal(second.q[-1], trajectory.q[-1])


def test_derivatives_and_batches_go_through_turns():
    formulation, integrator = lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(1.0)
    stiffness = INERTIA * SPRING_RATE**2

    def angle(stiffness):
        system, state = discs(formulation, stiffness, count=1)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=DT, steps=STEPS, save_every=STEPS, throw=False
        )
        wound = jax.tree.leaves(trajectory.memory, is_leaf=lambda x: hasattr(x, "angle"))[0]
        return trajectory.v[-1] @ trajectory.v[-1], wound.angle[-1]

    step = 1e-4
    each = stiffness + step * jnp.asarray([1.0, -1.0, 0.0])
    (values, turned), slopes = jax.jit(jax.vmap(jax.value_and_grad(angle, has_aux=True)))(each)
    # Central differences: the square of the step beside rounding over the step.
    assert_allclose(slopes[2], (values[0] - values[1]) / (2.0 * step), rtol=1e-6)
    end = exact(DT * STEPS * np.ones(1))[0, 0]
    assert_allclose(turned[2, 0], end, atol=ERRORS["generalized-α"])


# Parent and child in turn, another sign of the axis, another zero of the angle.
ELEMENTS = {
    "as the joint": ("ground", "b", AXIS, HOME, 1.0, 0.0),
    "backwards": ("ground", "b", -AXIS, HOME, -1.0, 0.0),
    "from the child": ("b", "ground", None, None, -1.0, 0.0),
    "turned": ("ground", "b", AXIS, "turned", 1.0, -1.0),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_joint_coordinates_give_the_turns(name):
    parent, child, axis, orientation, sign, offset = ELEMENTS[name]
    back = lie_jax.quaternion.conjugate(HOME)
    if orientation is None:
        axis, orientation = lie_jax.quaternion.rotate(back, AXIS), back
    if isinstance(orientation, str):
        orientation = lie_jax.quaternion.multiply(lie_jax.quaternion.exp(-offset * AXIS), HOME)
    spring = lie_jax.TorsionalSpringDamper(
        parent, child, axis, 3.0, angle=0.4, orientation=orientation
    )
    joint = lie_jax.RevoluteJoint("ground", "b", AXIS, orientation=HOME)
    body = lie_jax.Body("b", 1.0, INERTIA * np.eye(3), orientation=HOME)
    mechanism = lie_jax.Mechanism([body], [joint], [spring], gravity=(0.0, 0.0, 0.0))
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    for angle in (0.3, 4.0, 200.0 * np.pi / 180.0, -25.0):
        q = jnp.asarray([angle])
        stretch = sign * angle + offset - 0.4
        found = system.force(0.0, q, jnp.zeros(1))[0]
        assert_allclose(found, -3.0 * sign * stretch, rtol=ROUNDING)
        assert_allclose(system.potential_energy(q), 1.5 * stretch**2, rtol=ROUNDING)


def test_a_driver_does_not_hold_half_a_turn_away():
    body = lie_jax.Body("b", 1.0, np.eye(3), orientation=(0.0, *AXIS))
    joints = [
        lie_jax.RevoluteJoint("ground", "b", AXIS),
        lie_jax.RevoluteDriver("ground", "b", AXIS, 0.01),
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], joints), lie_jax.R3SO3())
    assert_allclose(system.constraint(0.0, state.q)[-1], np.pi - 0.01, rtol=ROUNDING)
