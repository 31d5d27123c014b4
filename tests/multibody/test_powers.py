"""Powers of forces and drivers are those of closed forms and add up to the change of the energy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import simpson

import lie_jax
from lie_jax.systems.system import accelerations_and_multipliers

# Angles stay within half a turn: poses alone tell the energy of the spring.
pytestmark = pytest.mark.filterwarnings("ignore:potential_energy")

Y = jnp.asarray([0.0, 1.0, 0.0])
DAMPING, FRICTION, MOTOR = 4.0, 0.05, 3.0
# Rounding of powers of some hundred watts.
ROUNDING = 1e-11
# Equations are regularised by 2e-12 of their size (`AbstractMatrix.regularize`).
REGULARISATION = 1e-9
FORMULATIONS = [lie_jax.R3SO3(), lie_jax.Minimal(), lie_jax.EulerParameters()]


def each(formulations):
    return pytest.mark.parametrize("formulation", formulations, ids=lambda f: type(f).__name__)


def angle(t):
    """Of the driven crank, rad."""
    return 0.4 * jnp.sin(3.0 * t) + 0.5 * t


def torque(t):
    """On the slider's bar, N m."""
    return jnp.stack([0.0 * t, 2.0 * jnp.cos(5.0 * t), 0.0 * t])


def crank_and_bar():
    """A driven crank, a bar with a motor, spring, damper and loads on its end."""
    crank = lie_jax.Body(
        "crank", 2.0, 0.1 * jnp.eye(3), position=(0.3, 0.0, 0.0), omega_body=1.7 * Y,
        velocity=(0.0, 0.0, -0.51),
    )  # fmt: skip
    bar = lie_jax.Body(
        "bar", 1.0, jnp.diag(jnp.asarray([0.02, 0.05, 0.06])), position=(0.9, 0.0, 0.0),
        omega_body=-0.4 * Y, velocity=(0.0, 0.0, -1.02 + 0.12),
    )  # fmt: skip
    hinges = [
        lie_jax.RevoluteJoint("ground", "crank", Y, child_point=(-0.3, 0.0, 0.0)),
        lie_jax.RevoluteJoint("crank", "bar", Y, (0.3, 0.0, 0.0), (-0.3, 0.0, 0.0)),
    ]
    joints = [*hinges, lie_jax.JointDriver(hinges[0], value=angle)]
    forces = [
        lie_jax.LinearSpringDamper(
            "ground", "bar", 50.0, DAMPING, 0.4, (0.5, 0.0, 1.0), (0.3, 0.0, 0.0)
        ),
        lie_jax.JointMotor(hinges[1], input=0),
        lie_jax.Torque("bar", torque),
        lie_jax.PointForce("bar", (3.0, 0.0, -5.0), (0.3, 0.0, 0.0)),
        lie_jax.ViscousFriction("crank", "bar", FRICTION),
        lie_jax.JointSpring(hinges[1], stiffness=2.0, damping=FRICTION, relaxed=0.3),
    ]
    return lie_jax.Mechanism([crank, bar], joints, forces)


def energy(system, q, v):
    return system.kinetic_energy(q, v) + system.potential_energy(q)


@pytest.mark.full
@each(FORMULATIONS)
def test_powers_at_an_instant(formulation):
    """Closed forms from the rates of the joints; the sum is the derivative of the energy."""
    system, state = lie_jax.assemble(crank_and_bar(), formulation)
    t, u = jnp.asarray(0.0), jnp.asarray([MOTOR])

    @jax.jit
    def evaluated(q, v):
        dv, multipliers = accelerations_and_multipliers(system, t, q, v, u)
        rate = jax.jvp(lambda *x: energy(system, *x), (q, v), (system.space.lift(q, v), dv))[1]
        reactions = system.reactions(t, q, v, dv, multipliers, u)
        return rate, system.powers(t, q, v, multipliers, u), reactions

    rate, powers, reactions = evaluated(state.q, state.v)
    of_crank, of_bar = 1.7, -0.4
    relative = of_bar - of_crank
    end, end_rate = np.asarray([1.2, 0.0, 0.0]), np.asarray([0.0, 0.0, -1.02 + 0.24])
    line = end - np.asarray([0.5, 0.0, 1.0])
    stretching = line @ end_rate / np.linalg.norm(line)
    expected = [
        -DAMPING * stretching**2,
        MOTOR * relative,
        2.0 * of_bar,
        0.0,
        -FRICTION * relative**2,
        -FRICTION * relative**2,
    ]
    assert_allclose(powers.forces, expected, atol=ROUNDING)
    driver = reactions["ground", "crank", 2].torque @ Y * of_crank
    label = "ground", "crank", 2
    assert abs(float(driver)) > 1.0
    assert_allclose(powers.joints[label], driver, atol=ROUNDING)
    others = [power for key, power in powers.joints.items() if key != label]
    assert len(others) == (0 if isinstance(formulation, lie_jax.Minimal) else 2)
    assert_allclose(others, np.zeros(len(others)), atol=ROUNDING)
    assert_allclose(rate, jnp.sum(powers.forces) + driver, atol=REGULARISATION)


@pytest.mark.full
@each(FORMULATIONS[:2])
def test_balance_of_a_run_closes_with_the_order_of_the_method(formulation):
    """RK4 and Simpson's rule, both of order 4: half the step has a sixteenth of the error."""
    system, state = lie_jax.assemble(crank_and_bar(), formulation)

    @jax.jit
    def readings(run):
        powers = jax.vmap(lambda *x: system.powers(*x, jnp.asarray([MOTOR])))(
            run.t, run.q, run.v, run.multipliers
        )
        total = jax.vmap(lambda q, v: energy(system, q, v))(run.q, run.v)
        return total, jnp.sum(powers.forces, axis=1) + sum(powers.joints.values())

    errors = []
    for steps in (100, 200):
        run = lie_jax.simulate(
            *(system, lie_jax.RKMK("rk4"), state),
            dt=1.0 / steps, steps=steps, inputs=np.full((steps, 1), MOTOR),
        )  # fmt: skip
        total, power = map(np.asarray, readings(run))
        work = simpson(power, x=np.asarray(run.t))
        # Much goes in and out.
        assert np.ptp(total) > 10.0
        errors.append(abs(total[-1] - total[0] - work))
    assert errors[1] < 1e-5 * np.ptp(total)
    assert 3.7 < np.log2(errors[0] / errors[1]) < 4.6
