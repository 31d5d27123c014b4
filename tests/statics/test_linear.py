"""Linear equations about equilibria and steady motions are derivatives of a motion's equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams

# Products of some hundred numbers.
ROUNDING = 1e-12
SPEED = 6.0
# Extension of a rod that spins: tan(kL)/k - L with k = Ω √(ρA/EA), all digits.
EXTENSION = 5.14317455043403e-4


def rotor(elements, section, length, chart="exp"):
    """A beam along x on a hub that a driver turns about z, and its steady state."""
    hub = lie_jax.Body("hub", 1.0, np.eye(3))
    blade = beams.line("blade", section, length, elements, start=hub)
    hinge = lie_jax.RevoluteJoint("ground", "hub", (0.0, 0.0, 1.0))
    joints = [hinge, lie_jax.JointDriver(hinge, value=lambda t: SPEED * t)]
    mechanism = lie_jax.Mechanism(
        [hub, *blade.nodes], joints, blade.elements, gravity=(0.0, 0.0, 0.0)
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3(chart=chart))
    return system, lie_jax.equilibrium(system, state, rate=(0.0, 0.0, SPEED))


def heavy_section():
    """A section whose gyroscopic and centrifugal forces are as large as its elastic ones."""
    damping = (0.3, 0.2, 0.4, 0.01, 0.02, 0.03)
    return beams.Section((300.0, 200.0, 250.0, 8.0, 5.0, 9.0), 1.0, (0.3, 0.1, 0.2), damping)


@pytest.mark.full
@pytest.mark.parametrize("chart", ["exp", "cayley"])
def test_motions_near_a_steady_rotation_obey_the_linear_equations(chart):
    """The residual of the motion q(t)∘(s x(t)), differentiated by s, is M ẍ + C ẋ + K x + Bᵀδλ."""
    system, state = rotor(2, heavy_section(), 1.0, chart=chart)
    linear = lie_jax.linearize(system, state)
    space = system.space
    rng = np.random.default_rng(5)
    x, dx, ddx, force = (jnp.asarray(rng.normal(size=n)) for n in [system.nv] * 3 + [system.nc])

    def moved(s, t):
        steady = space.flow(state.q, t * state.v)
        return space.flow(steady, s * (x + t * dx + 0.5 * t**2 * ddx))

    def velocity(s, t):
        q, rate = jax.jvp(lambda t: moved(s, t), (t,), (jnp.ones_like(t),))
        here = jax.lax.stop_gradient(q)
        local = jax.jvp(lambda q: space.inverse_retract(here, q), (q,), (rate,))[1]
        return space.tangent_operator(jnp.zeros_like(local), local)

    def residual(s):
        zero = jnp.zeros(())
        # A difference: the frame of the derivative in `velocity` must not be differentiated.
        h = 1e-3
        late, early = velocity(s, zero + h), velocity(s, zero - h)
        late2, early2 = velocity(s, zero + 2 * h), velocity(s, zero - 2 * h)
        acceleration = (8.0 * (late - early) - (late2 - early2)) / (12.0 * h)
        multipliers = linear.multipliers + s * force
        return system.residual(0.0, moved(s, zero), velocity(s, zero), acceleration, multipliers)

    h = 1e-3
    r = jax.jit(jax.vmap(residual))(h * jnp.asarray([-2.0, -1.0, 1.0, 2.0]))
    expected = (8.0 * (r[2] - r[1]) - (r[3] - r[0])) / (12.0 * h)
    got = linear.mass @ ddx + linear.damping @ dx + linear.stiffness @ x
    got = got + linear.constraints.T @ force
    # Differences of differences.
    assert_allclose(got, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
    free = linear.constraints @ linear.basis
    assert_allclose(free, np.zeros_like(free), atol=ROUNDING)
    assert_allclose(linear.basis.T @ linear.basis, np.eye(linear.basis.shape[1]), atol=ROUNDING)


@pytest.mark.full
def test_a_spinning_rod_extends_as_in_closed_form_to_second_order():
    section = beams.Section((2.8e7, 1e7, 1e7, 1.4e4, 1.4e4, 1.4e4), 1.2, (1.2e-3, 6e-4, 6e-4))
    tips = []
    for elements in (8, 16):
        system, state = rotor(elements, section, 10.0)
        tips.append(float(system.poses(state.q)[1][-1][0]) - 10.0)
        assert_allclose(
            system.twists(state.q, state.v)[:, 3:], [[0.0, 0.0, SPEED]] * (elements + 1)
        )
    ratio = (tips[0] - EXTENSION) / (tips[1] - EXTENSION)
    assert_allclose(np.log2(ratio), 2.0, atol=1e-3)
    assert_allclose(tips[1] + (tips[1] - tips[0]) / 3.0, EXTENSION, rtol=1e-7)


@pytest.mark.full
def test_extension_changes_with_the_rate_as_in_closed_form():
    """Of one element with all inertia at its end: EA e = m (L + e L) L Ω²."""
    section = beams.Section((100.0, 1e3, 1e3, 10.0, 10.0, 10.0), 2.0, (0.1, 0.05, 0.05))
    hub = lie_jax.Body("hub", 1.0, np.eye(3))
    blade = beams.line("blade", section, 1.0, 1, start=hub)
    holder = lie_jax.RigidJoint("ground", "hub")
    mechanism = lie_jax.Mechanism([hub, *blade.nodes], [holder], blade.elements, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())

    def length(speed):
        rate = speed * jnp.asarray([0.0, 0.0, 1.0])
        return system.poses(lie_jax.equilibrium(system, state, rate=rate).q)[1][-1][0]

    got = jax.jit(jax.value_and_grad(length))(jnp.asarray(3.0))
    # The node's mass is 1 kg: EA (l - 1) = Ω² l.
    assert_allclose(got, [100.0 / 91.0, 6.0 * 100.0 / 91.0**2], rtol=1e-10)


def pendulum(formulation, joints=1, gravity=-9.81):
    body = lie_jax.Body("rod", 2.0, 0.1 * np.eye(3), (0.0, 0.0, -0.5))
    hinges = [
        lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), (0, y, 0), (0, y, 0))
        for y in range(joints)
    ]
    mechanism = lie_jax.Mechanism([body], hinges, gravity=(0.0, 0.0, gravity))
    return lie_jax.assemble(mechanism, formulation)


@pytest.mark.full
def test_redundant_constraints_are_left_out():
    system, state = pendulum(lie_jax.R3SO3(), joints=2)
    linear = lie_jax.linearize(system, state)
    assert linear.basis.shape == (6, 1)
    assert linear.constraints.shape == (10, 6)
    ratio = linear.reduced_stiffness / linear.reduced_mass
    assert_allclose(ratio, [[2.0 * 9.81 * 0.5 / 0.6]], rtol=ROUNDING)


@pytest.mark.full
def test_an_equilibrium_at_zero_is_reached_from_zero():
    """A bar on a coil spring, with its weight and without."""
    bar = lie_jax.Body("bar", 2.0, np.eye(3), center_of_mass=(0.5, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "bar", (0.0, 1.0, 0.0))
    coil = lie_jax.JointSpring(hinge, stiffness=40.0)
    system, state = lie_jax.assemble(lie_jax.Mechanism([bar], [hinge], [coil]), lie_jax.Minimal())
    angle = float(lie_jax.equilibrium(system, state).q[0])
    # 40 θ = 2 · 9.81 · 0.5 cos θ.
    assert abs(40.0 * angle - 9.81 * np.cos(angle)) < 1e-12
    weightless, _ = lie_jax.assemble(
        lie_jax.Mechanism([bar], [hinge], [coil], gravity=(0, 0, 0)), lie_jax.Minimal()
    )
    assert float(lie_jax.equilibrium(weightless, state).q[0]) == 0.0


@pytest.mark.full
def test_states_that_are_no_equilibrium_are_refused_with_the_body():
    system, state = pendulum(lie_jax.Minimal())
    tilted = lie_jax.State(state.q + 0.1, state.v)
    with pytest.raises(ValueError, match=r"do not balance.*0\.979.*rod.*equilibrium"):
        lie_jax.linearize(system, tilted)
    assert np.all(np.isnan(jax.jit(lambda: lie_jax.linearize(system, tilted).stiffness)()))
    # Through the lowest position no torque acts, but the motion is not steady.
    passing = lie_jax.State(state.q, state.v + 1.0)
    with pytest.raises(ValueError, match=r"not steady.*rod"):
        lie_jax.linearize(system, passing)
    system, state = pendulum(lie_jax.SE3())
    apart = lie_jax.State(state.q.at[1].add(0.1), state.v)
    with pytest.raises(ValueError, match=r"RevoluteJoint.*open by 0\.1.*project"):
        lie_jax.linearize(system, apart)


def arm(gravity=0.0):
    """A slider of 2 kg on a radial spring of 200 N/m and 1 m, on a hub that a driver turns."""
    hub = lie_jax.Body("hub", 1.0, np.eye(3))
    slider = lie_jax.Body("slider", 2.0, 0.1 * np.eye(3), position=(1.2, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "hub", (0.0, 0.0, 1.0))
    joints = [
        hinge,
        lie_jax.JointDriver(hinge, value=lambda t: SPEED * t),
        lie_jax.PrismaticJoint("hub", "slider", (1.0, 0.0, 0.0)),
    ]
    spring = lie_jax.LinearSpringDamper("hub", "slider", 200.0, 0.0, 1.0)
    mechanism = lie_jax.Mechanism([hub, slider], joints, [spring], gravity=(0.0, gravity, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


@pytest.mark.full
def test_a_slider_on_a_turning_arm_moves_out_and_swings_as_in_closed_form():
    """At k (r - r₀) = m Ω² r, ω² = k/m - Ω²; other rates and loads that stay behind are refused."""
    system, start = arm()
    state = lie_jax.equilibrium(system, start, rate=(0.0, 0.0, SPEED))
    radius = 200.0 / (200.0 - 2.0 * SPEED**2)
    assert_allclose(system.poses(state.q)[1][1], [radius, 0.0, 0.0], rtol=ROUNDING, atol=1e-14)
    result = lie_jax.modes(system, state)
    assert_allclose(result.squares, [200.0 / 2.0 - SPEED**2], rtol=ROUNDING)
    slow = lie_jax.equilibrium(system, start, rate=(0.0, 0.0, 5.0))
    with pytest.raises(ValueError, match=r"JointDriver.*rate of 1"):
        lie_jax.linearize(system, slow)
    # Weight along the arm changes along the motion.
    system, start = arm(gravity=-1.0)
    weighed = lie_jax.equilibrium(system, start, rate=(0.0, 0.0, SPEED))
    with pytest.raises(ValueError, match="not steady"):
        lie_jax.linearize(system, weighed)
    system, state = pendulum(lie_jax.R3SO3())
    with pytest.raises(ValueError, match=r"lie_jax\.SE3"):
        lie_jax.equilibrium(system, state, rate=(0.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="rate"):
        lie_jax.equilibrium(*pendulum(lie_jax.SE3()), rate=1.0)
