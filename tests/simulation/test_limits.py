"""Runs that leave their model end with a reason; stiff ones stay in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators import stability, tableaux
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.systems.system import Accelerations
from tests.suites import cases


def rod(stiffness, formulation, damping=0.0, angle=0.3):
    """A rod of 1 kg and 1 m on a hinge with a torsional spring, turned by an angle (rad)."""
    orientation = np.asarray([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])
    hanging = (-0.5 * np.sin(angle), 0.0, -0.5 * np.cos(angle))
    inertia = np.diag([1 / 12, 1 / 12, 1e-3])
    body = lie_jax.Body("rod", 1.0, inertia, position=hanging, orientation=orientation)
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), child_point=(0, 0, 0.5))
    spring = lie_jax.JointSpring(hinge, stiffness=stiffness, damping=damping)
    return lie_jax.assemble(lie_jax.Mechanism([body], [hinge], [spring]), formulation)


# The step is 5 to 17 times the time in which the spring turns the rod by a radian.
STIFF = {
    "generalized-α, joint coordinates": (lie_jax.GeneralizedAlpha(0.9), lie_jax.Minimal()),
    "generalized-α, constraints": (lie_jax.GeneralizedAlpha(0.9), lie_jax.R3SO3()),
    "Gauss": (lie_jax.ImplicitRKMK("gauss4"), lie_jax.Minimal()),
}


@pytest.mark.full
@pytest.mark.parametrize("name", STIFF)
def test_stiff_springs_gain_no_energy(name):
    integrator, formulation = STIFF[name]

    def highest(stiffness, damping):
        system, state = rod(stiffness, formulation, damping)
        trajectory = lie_jax.simulate(system, integrator, state, dt=1e-2, steps=100, throw=False)

        def energy(q, v, memory):
            return system.kinetic_energy(q, v) + system.with_memory(memory).potential_energy(q)

        energies = jax.vmap(energy)(trajectory.q, trajectory.v, trajectory.memory)
        return energies[0], jnp.max(energies), trajectory.result

    stiffness, damping = jnp.asarray([1e5, 1e6, 1e6]), jnp.asarray([0.0, 0.0, 1e3])
    first, largest, result = jax.jit(jax.vmap(highest))(stiffness, damping)
    assert bool(jnp.all(result == lie_jax.Result.successful))
    # The spring's energy, with that of the weight.
    assert_allclose(first, 0.5 * stiffness * 0.3**2 - 0.5 * 9.81 * np.cos(0.3), rtol=1e-12)
    assert np.all(largest <= first * (1.0 + 1e-6))


def _slider(stiffness):
    body = lie_jax.Body("slider", 1.0, np.eye(3), position=(1.3, 0, 0))
    slide = lie_jax.PrismaticJoint("ground", "slider", (1, 0, 0))
    spring = lie_jax.LinearSpringDamper("ground", "slider", stiffness, 0.0, 1.0)
    mechanism = lie_jax.Mechanism([body], [slide], [spring], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal())


def _spinning(rate, formulation):
    body = lie_jax.Body("disc", 1.0, np.diag([1.0, 1.0, 2.0]), omega_body=(0, 0, rate))
    still = lie_jax.Body("still", 1.0, np.eye(3), position=(1, 0, 0))
    return lie_jax.assemble(lie_jax.Mechanism([still, body], gravity=(0, 0, 0)), formulation)


def _not_a_number_at(time):
    def force(t):
        return jnp.where(t >= time, jnp.nan, 1.0) * jnp.ones(3)

    mechanism = lie_jax.Mechanism(
        [lie_jax.Body("b", 1.0, np.eye(3))], forces=[lie_jax.PointForce("b", force)]
    )
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


# System, integrator, step size, the result and what its message says.
LEFT = {
    "explicit, stiff": (
        lambda: rod(1e4, lie_jax.Minimal()),
        lie_jax.RKMK("rk4"),
        0.05,
        lie_jax.Result.unstable,
        (
            # Differences that grow by at least 2 a step are 100 times as large after 7 steps.
            *("limit of stability", "3.06 times as large", "step 8 of 25", "t = 0.35 s"),
            # (3 x 10⁴)^½, of the spring and the rod's moment of inertia about its end.
            *("JointSpring('ground', 'rod')", "173 1/s", "stable up to dt = 0.0163 s"),
            "GeneralizedAlpha",
        ),
    ),
    "through the anchor": (
        lambda: _slider(1e6),
        lie_jax.GeneralizedAlpha(0.9),
        0.01,
        lie_jax.Result.departed,
        (
            "the range of the law of LinearSpringDamper('ground', 'slider') in step 1 of 25",
            "The ends of a spring",
        ),
    ),
    "more than a turn": (
        lambda: _spinning(2.1 * np.pi, lie_jax.R3SO3()),
        lie_jax.RKMK("rk4"),
        1.0,
        lie_jax.Result.out_of_chart,
        ("body 'disc' turned further than its chart", "step 1 of 25", "smaller dt"),
    ),
    "half a turn with Cayley's chart": (
        lambda: _spinning(-1.1 * np.pi, lie_jax.SE3(chart="cayley")),
        lie_jax.GeneralizedAlpha(0.9),
        1.0,
        lie_jax.Result.out_of_chart,
        ("body 'disc' turned further than its chart", "step 1 of 25"),
    ),
    "accelerations": (
        lambda: _not_a_number_at(0.25),
        lie_jax.RKMK("euler"),
        0.01,
        lie_jax.Result.acceleration_not_finite,
        ("multipliers of body 'b' are infinite or NaN", "at t = 0.25 s", "forces"),
    ),
}


@pytest.mark.parametrize("name", cases(LEFT, ["explicit, stiff"]))
def test_a_run_that_leaves_its_model_says_why(name):
    build, integrator, dt, result, words = LEFT[name]
    system, state = build()
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(system, integrator, state, dt=dt, steps=25)
    for part in words:
        assert part in str(error.value)
    assert bool(error.value.trajectory.result == result)
    # What came before is kept.
    completed = int(error.value.trajectory.stats.completed_steps)
    assert np.all(np.isfinite(error.value.trajectory.q[: completed + 1]))


@pytest.mark.full
def test_large_turns_within_the_chart_are_no_failure():
    for rate, formulation in (
        (1.9 * np.pi, lie_jax.R3SO3()),
        (0.9 * np.pi, lie_jax.R3SO3(chart="cayley")),
    ):
        system, state = _spinning(rate, formulation)
        trajectory = lie_jax.simulate(system, lie_jax.RKMK("heun"), state, dt=1.0, steps=2)
        assert bool(trajectory.result == lie_jax.Result.successful)


@pytest.mark.parametrize("tableau", cases(["heun", "rk4", "dopri5", "rkf78"], []))
def test_stability_is_estimated_and_its_limits_are_those_of_the_books(tableau):
    # Hairer and Wanner II, IV.2; the imaginary axis where it is the longer one.
    known = {"heun": 2.0, "rk4": 2.83, "dopri5": 3.31, "rkf78": 5.0}
    method = tableaux.TABLEAUX[tableau]
    assert_allclose(stability.limit(method.a, method.b), known[tableau], atol=0.03)
    system, state = rod(1e3, lie_jax.Minimal())
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK(tableau), state, dt=1e-3, steps=20, throw=False
    )
    # The rod's moment of inertia about its end is a third, its weight adds a little stiffness.
    rate = 1e-3 * np.sqrt(3.0 * (1e3 + 0.5 * 9.81))
    if tableau != "heun":
        assert_allclose(trajectory.stats.stability * known[tableau], rate, rtol=0.05)
    assert 0.0 < float(trajectory.stats.stability) < 1.0


class TurnsOver(AbstractIntegrator):
    """Turns one body by half a turn about its x axis in every step, as Newton's method might."""

    body: Array

    def check(self, system):
        """Anything goes."""

    def init(self, system, t, dt, state, u):
        """Nothing is carried."""

    def step(self, system, t, dt, state, carry, u):
        """The other side of the joint, without any velocity."""
        x = jnp.zeros((system.nv // 6, 6)).at[self.body, 3].set(jnp.pi)
        state = lie_jax.State(system.space.retract(state.q, x.ravel()), state.v)
        return Step(state, carry)

    def accelerations(self, system, t, state, carry, u):
        """At rest."""
        return Accelerations(jnp.zeros(system.nv), jnp.zeros(system.nc))


@pytest.mark.full
def test_a_joint_that_is_met_turned_over_is_named():
    z = (0.0, 0.0, 1.0)
    everything = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
    joints = [
        lie_jax.RevoluteJoint("ground", "0", z),
        lie_jax.CylindricalJoint("ground", "1", z),
        lie_jax.PlanarJoint("ground", "2", z),
        lie_jax.PrismaticJoint("ground", "3", z),
        lie_jax.RigidJoint("ground", "4"),
        lie_jax.CoordinateJoint("ground", "5", everything),
        lie_jax.CoordinateJoint("ground", "6", everything[:4]),
        # It holds in every orientation.
        lie_jax.SphericalJoint("ground", "7"),
    ]
    bodies = [lie_jax.Body(str(k), 1.0, np.eye(3)) for k in range(len(joints))]
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    for k, joint in enumerate(joints[:7]):
        with pytest.raises(lie_jax.SimulationError) as error:
            lie_jax.simulate(system, TurnsOver(jnp.asarray(k)), state, dt=0.1, steps=3)
        words = f"{type(joint).__name__}('ground', '{k}') turned over, half a turn from where it"
        assert f"{words} belongs, in step 1" in str(error.value)
        assert bool(error.value.trajectory.result == lie_jax.Result.turned_over)

    # The constraints hold there all the same.
    def violation(k):
        step = TurnsOver(k).step(system, jnp.zeros(()), jnp.ones(()), state, None, None)
        return jnp.max(jnp.abs(system.constraint(0.0, step.state.q)))

    assert np.max(jax.jit(jax.vmap(violation))(jnp.arange(7))) < 1e-12
    lie_jax.simulate(system, TurnsOver(jnp.asarray(7)), state, dt=0.1, steps=3)
