"""Motors and loads with an input against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems.system import AbstractSystem
from tests.golden import assert_close
from tests.messages import check_message

# Rounding in accelerations of some ten units.
ROUNDING = 1e-12
AXIS = np.asarray([0.6, 0.0, -0.8])
PLACES = np.asarray([[0.3, 0.0, 0.1], [0.0, 0.2, 0.1], [-0.3, 0.0, 0.1], [0.0, -0.2, 0.1]])
INERTIA = np.asarray([[0.5, 0.02, 0.0], [0.02, 0.6, -0.01], [0.0, -0.01, 0.9]])
MASS = 2.0
TURN = np.asarray([0.4, -0.3, 0.7])


def _flyer():
    """Four propellers and a paddle whose inputs are listed out of order, and a given torque."""
    body = lie_jax.Body(
        "flyer", MASS, INERTIA, orientation=lie_jax.groups.quaternion.exp(jnp.asarray(TURN))
    )
    forces = [
        lie_jax.PointForce("flyer", (0.0, 0.0, 1.0), place, "body", input=k)
        for k, place in zip((3, 1, 0, 2), PLACES, strict=True)
    ]
    forces += [
        lie_jax.Torque("flyer", AXIS, "body", input=4),
        lie_jax.Torque("flyer", (0.0, 2.0, 0.0), "world", input=5),
        lie_jax.Torque("flyer", (0.1, 0.0, 0.0), "body"),
    ]
    return lie_jax.assemble(lie_jax.Mechanism([body], forces=forces), lie_jax.R3SO3())


def test_each_load_reads_its_input():
    system, state = _flyer()
    assert system.nu == 6
    u = jnp.asarray([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])
    rotation = np.asarray(lie_jax.groups.so3.exp(jnp.asarray(TURN)))
    thrust = np.asarray(u)[[3, 1, 0, 2]]
    torque = np.cross(PLACES, thrust[:, None] * [0.0, 0.0, 1.0]).sum(axis=0)
    torque += 11.0 * AXIS + 13.0 * rotation.T @ [0.0, 2.0, 0.0] + [0.1, 0.0, 0.0]
    linear = rotation @ [0.0, 0.0, thrust.sum() / MASS] + [0.0, 0.0, -9.81]

    @jax.jit
    def acceleration_and_slope(u):
        def function(u):
            return system.acceleration(0.0, state.q, state.v, u)

        return function(u), jax.jacrev(function)(u)

    acceleration, slope = acceleration_and_slope(u)
    assert_close(acceleration, [*linear, *np.linalg.solve(INERTIA, torque)], atol=ROUNDING)
    # Accelerations are affine in the inputs.
    offset, _ = acceleration_and_slope(0.0 * u)
    assert_close(slope @ u, acceleration - offset, atol=ROUNDING)


def _driven_pair(formulation):
    """A carriage pushed by input 1 along a rail, and a wheel on it turned by input 0."""
    bodies = [lie_jax.Body("carriage", MASS, INERTIA), lie_jax.Body("wheel", 0.5, 0.1 * np.eye(3))]
    joints = [
        lie_jax.PrismaticJoint("ground", "carriage", (2.0, 0.0, 0.0), PLACES[0], PLACES[0]),
        lie_jax.RevoluteJoint("carriage", "wheel", 3.0 * AXIS),
    ]
    motors = [lie_jax.JointMotor(joints[k], input=number) for k, number in ((1, 0), (0, 1))]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, motors, np.zeros(3)), formulation)


DT, STEPS = 0.01, 10


def _speeds(formulation, integrator, inputs):
    system, state = _driven_pair(formulation)
    run = lie_jax.simulate(
        system, integrator, state, dt=DT, steps=STEPS, inputs=inputs, throw=False
    )
    twists = system.twists(run.q[-1], run.v[-1])
    return jnp.stack([twists[1, 3:] @ AXIS, twists[0, 0]])


# Inertias that the motors move.
MOVED = np.asarray([0.1, MASS + 0.5])


@pytest.mark.full
def test_motors_move_joints():
    """Each step's inputs are held: speeds are sums, and so are their derivatives."""
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(STEPS, 2)))

    @jax.jit
    def speeds_and_slopes(inputs):
        speeds, back = jax.vjp(
            lambda u: _speeds(lie_jax.Minimal(), lie_jax.RKMK("euler"), u), inputs
        )
        return speeds, jax.vmap(back)(jnp.eye(2))[0]

    speeds, slopes = speeds_and_slopes(inputs)
    assert_close(speeds, DT * inputs.sum(axis=0) / MOVED, atol=ROUNDING)
    expected = np.broadcast_to(DT * np.diag(1.0 / MOVED)[:, None], (2, STEPS, 2))
    assert_close(slopes, expected, atol=ROUNDING)


# `make test` has motors along the coordinates of joints, in both coordinates.
@pytest.mark.full
def test_motors_accelerate_joints():
    """As constraints, and in joint coordinates, these with derivatives by the inputs."""
    (system, state), (tree, start) = map(_driven_pair, (lie_jax.R3SO3(), lie_jax.Minimal()))
    u = np.asarray([0.7, -0.4])

    @jax.jit
    def evaluated(u):
        def free(u):
            return tree.acceleration(0.0, start.q, start.v, u)

        return system.acceleration(0.0, state.q, state.v, u), free(u), jax.jacrev(free)(u)

    dv, free, slope = evaluated(jnp.asarray(u))
    # The regularisation of constraints takes 2e-12 of their condition.
    assert_allclose([dv[9:] @ AXIS, dv[0]], u / MOVED, rtol=1e-10)
    # Coordinates are those of the carriage and of the wheel on it.
    assert_close(free, (u / MOVED)[::-1], atol=ROUNDING)
    assert_close(slope, np.diag(1.0 / MOVED)[::-1], atol=ROUNDING)


@pytest.mark.full
def test_motors_move_constrained_joints():
    inputs = np.broadcast_to([0.7, -0.4], (STEPS, 2))
    speeds = jax.jit(lambda u: _speeds(lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(0.9), u))(
        jnp.asarray(inputs)
    )
    # The regularisation of constraints takes 2e-12 of their condition.
    assert_allclose(speeds, DT * STEPS * inputs[0] / MOVED, rtol=1e-10)


def test_linearizations_know_the_inputs():
    """Those assembled from elements are derivatives of the residual with these inputs."""
    system, _ = _driven_pair(lie_jax.R3SO3())
    rng = np.random.default_rng(3)
    start = jnp.asarray([0, 0, 0, 1, 0, 0, 0] * 2, float)
    q = jax.jit(system.space.retract)(start, jnp.asarray(rng.normal(size=12)))
    v, acceleration = (jnp.asarray(rng.normal(size=12)) for _ in range(2))
    multipliers, u = jnp.zeros(system.nc), jnp.asarray([4.0, -7.0])

    @jax.jit
    def both(q, v):
        point = 0.0, q, v, acceleration, multipliers, u
        ways = system.linearization(*point), AbstractSystem.linearization(system, *point)
        # Mass with stiffness, and with damping.
        return [
            [way.dense().combined(jnp.eye(system.nv), *factors) for way in ways]
            for factors in ((1.0, 0.0), (0.0, 1.0))
        ], ways[0].dense().stiffness

    matrices, stiffness = both(q, v)
    for own, expected in matrices:
        assert_close(own, expected, atol=100 * ROUNDING)
    assert np.max(np.abs(stiffness)) > 1.0


def test_missing_inputs_are_named():
    system, state = _flyer()
    with pytest.raises(ValueError, match=r"reads input 3, counted from 0, but none were given"):
        system.acceleration(0.0, state.q, state.v)
    with pytest.raises(ValueError, match=r"reads input 4, counted from 0, but u has 4"):
        system.acceleration(0.0, state.q, state.v, jnp.zeros(4))
    for inputs, given in ((None, 0), (jnp.zeros((5, 4)), 4)):
        with pytest.raises(ValueError, match=rf"holds {given} inputs a step.*read 6.*\(5, 6\)"):
            lie_jax.simulate(system, lie_jax.RKMK(), state, dt=0.1, steps=5, inputs=inputs)


class _Own(lie_jax.extend.AbstractForce):
    """A force that declares no input, and so gets all of them."""

    is_load = True

    body: str = lie_jax.extend.fields.body_name()

    def wrenches(self, t, poses, velocities, u):
        """The seventh entry of the inputs along x."""
        force = u[6] * jnp.eye(3)[0]
        return (lie_jax.extend.Wrench(force, jnp.zeros(3)),)


def test_inputs_that_nothing_reads_are_refused_by_number():
    system, state = _flyer()
    run = {"dt": 0.1, "steps": 5}
    for name, act in {
        "simulate(inputs=)": lambda: lie_jax.simulate(
            system, lie_jax.RKMK(), state, inputs=jnp.zeros((5, 7)), **run
        ),
        "simulate(policy=)": lambda: lie_jax.simulate(
            system, lie_jax.RKMK(), state, policy=lambda t, q, v: jnp.zeros(7), **run
        ),
        "equilibrium(inputs=)": lambda: lie_jax.equilibrium(system, state, inputs=np.zeros(7)),
        "linearize(inputs=)": lambda: lie_jax.linearize(system, state, inputs=np.zeros(7)),
    }.items():
        check_message(act, name, "7 inputs, but the forces read 6")
    own = lie_jax.Mechanism([lie_jax.Body("b", 2.0, np.eye(3))], [], [_Own("b")], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(own, lie_jax.R3SO3())
    needed = lie_jax.robotics.inverse_dynamics(
        system, state.q, state.v, jnp.zeros(6), inputs=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]
    )
    assert_allclose(needed, [-3.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert system.most_inputs is None and system.under_loads(jnp.ones(())).most_inputs is None
    inputs = jnp.zeros((5, 7)).at[:, 6].set(3.0)
    moved = lie_jax.simulate(system, lie_jax.RKMK("euler"), state, inputs=inputs, **run)
    # 3 N push 2 kg for 0.5 s.
    assert_allclose(moved.v[-1, 0], 0.75, rtol=1e-12)


@pytest.mark.parametrize("number", [-1, 1.0, True, "0"])
def test_an_input_is_a_number_of_an_entry(number):
    hinge = lie_jax.RevoluteJoint("a", "b", AXIS)
    for build in (
        lambda: lie_jax.Torque("b", (0.0, 0.0, 1.0), input=number),
        lambda: lie_jax.PointForce("b", (0.0, 0.0, 1.0), input=number),
        lambda: lie_jax.JointMotor(hinge, input=number),
    ):
        with pytest.raises((ValueError, TypeError), match="input"):
            build()
