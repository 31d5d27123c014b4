"""Terms of the equations of motion against Pinocchio, MuJoCo, and their own identities."""

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import robotics
from tests import robots
from tests.golden import DATA
from tests.messages import check_message

# Of the largest entry, sums of some hundred products.
ROUNDING = 1e-12
# Rounding of single precision, times the condition of sums that cancel.
SINGLE = 2e-5
# Central differences of fourth order with steps of 1e-3.
DIFFERENCES = 1e-9


def terms(system, frames, q, v, acceleration):
    """All quantities by the names in Pinocchio's file."""
    return {
        "mass_matrix": system.mass_matrix(q),
        "inverse_dynamics": robotics.inverse_dynamics(system, q, v, acceleration),
        "bias_force": robotics.bias_force(system, q, v),
        "gravity_force": robotics.gravity_force(system, q),
        "coriolis_matrix": robotics.coriolis_matrix(system, q, v),
        "torque_regressor": robotics.torque_regressor(system, q, v, acceleration),
        "center_of_mass": robotics.center_of_mass(system, q),
        "center_of_mass_jacobian": robotics.center_of_mass_jacobian(system, q),
        "kinetic_energy": system.kinetic_energy(q, v),
        "potential_energy": system.potential_energy(q),
        "centroidal_momentum": robotics.centroidal_momentum(system, q, v),
        "centroidal_momentum_matrix": robotics.centroidal_momentum_matrix(system, q),
        "inertial_parameters": robotics.inertial_parameters(system),
        "pose": jnp.stack([frame.pose(system, q) for frame in frames]),
        "twist": jnp.stack([frame.twist(system, q, v) for frame in frames]),
        "acceleration": jnp.stack(
            [frame.acceleration(system, q, v, acceleration) for frame in frames]
        ),
        "jacobian": jnp.stack([frame.jacobian(system, q) for frame in frames]),
    }


@functools.cache
def compiled(name):
    """Function of a state, and its values in that of Pinocchio."""
    robot = robots.robot(name)
    function = jax.jit(lambda *state: terms(robot.system, robot.frames, *state))
    return function, function(*robots.state(name))


def close(got, expected, tolerance=ROUNDING):
    expected = np.asarray(expected)
    assert_allclose(got, expected, rtol=0.0, atol=tolerance * np.max(np.abs(expected)))


@pytest.mark.full
@pytest.mark.parametrize("name", ["arm", "walker"])
def test_all_terms_are_those_of_pinocchio(name):
    _, values = compiled(name)
    expected = robots.PINOCCHIO[name]["values"]
    assert set(values) == set(expected)
    for key, value in values.items():
        close(value, expected[key])


@pytest.mark.full
def test_dynamics_and_jacobians_are_those_of_mujoco():
    model = mujoco.MjModel.from_xml_path(str(DATA / "arm.urdf"))
    data = mujoco.MjData(model)
    _, values = compiled("arm")
    data.qpos, data.qvel, data.qacc = map(np.asarray, robots.state("arm"))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    mujoco.mj_inverse(model, data)
    close(values["inverse_dynamics"], data.qfrc_inverse)
    close(values["bias_force"], data.qfrc_bias)
    close(values["center_of_mass"], data.subtree_com[0])
    for frame, pose, jacobian in zip(
        robots.robot("arm").frames, values["pose"], values["jacobian"], strict=True
    ):
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacBody(model, data, linear, angular, model.body(frame.body).id)
        close(pose[:3, :3] @ jacobian[:3], linear)
        close(pose[:3, :3] @ jacobian[3:], angular)


@pytest.mark.full
@pytest.mark.parametrize("name", ["arm", "walker"])
def test_coriolis_matrix_splits_the_rate_of_the_mass_matrix(name):
    system = robots.robot(name).system
    _, values = compiled(name)
    q, v, _ = robots.state(name)
    rate = jax.jit(lambda q, dq: jax.jvp(system.mass_matrix, (q,), (dq,))[1])
    matrix = values["coriolis_matrix"]
    close(matrix + matrix.T, rate(q, system.space.lift(q, v)))
    close(matrix @ v + values["gravity_force"], values["bias_force"])


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.SE3(), lie_jax.TaitBryan()])
def test_terms_belong_together_in_absolute_coordinates(formulation):
    robot = robots.robot("walker")
    system, start = lie_jax.assemble(robot.model.mechanism, formulation)
    rng = np.random.default_rng(3)
    x, v, acceleration = 0.5 * jnp.asarray(rng.normal(size=(3, system.nv)))

    @jax.jit
    def evaluate(x):
        q = system.space.retract(start.q, x)
        rate = jax.jvp(system.mass_matrix, (q,), (system.space.lift(q, v),))[1]
        forces = system.mass_matrix(q) @ acceleration + robotics.bias_force(system, q, v)
        regressor = robotics.torque_regressor(system, q, v, acceleration)
        matrix = robotics.coriolis_matrix(system, q, v)
        momentum = robotics.centroidal_momentum(system, q, v)
        along = robotics.centroidal_momentum_matrix(system, q)
        linear, angular = system.momentum(q, v)
        center = robotics.center_of_mass(system, q)
        spin = angular - jnp.cross(center, linear)
        return (
            # The rate may vanish.
            (matrix + matrix.T + system.mass_matrix(q), rate + system.mass_matrix(q)),
            (regressor @ robotics.inertial_parameters(system), forces),
            (along @ v, momentum),
            (momentum, jnp.concatenate([linear, spin])),
        )

    for got, expected in evaluate(x):
        close(got, expected, 1e-11 if isinstance(formulation, lie_jax.TaitBryan) else ROUNDING)


@pytest.mark.full
def test_motors_supply_inverse_dynamics():
    """Accelerations under the inputs of inverse dynamics are those that were asked for."""
    model = robots.robot("arm").model
    system, _ = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    q, v, acceleration = robots.state("arm")
    none = jnp.zeros(system.nu)
    inputs = robotics.inverse_dynamics(system, q, v, acceleration, inputs=none)
    close(system.acceleration(0.0, q, v, inputs), acceleration, 1e-11)


@pytest.mark.full
def test_operational_inertia_is_that_of_a_pushed_frame():
    """Of the walker: a wrench at a frame gives its twist the rate that the inertia says."""
    robot = robots.robot("walker")
    q, _, _ = robots.state("walker")
    tool = lie_jax.robotics.Frame("left_shank", (0.02, 0.01, -0.2), (0.5, 0.5, -0.5, 0.5))
    wrench = jnp.asarray([3.0, -1.0, 2.0, 0.3, 0.2, -0.4])
    rest = jnp.zeros(robot.system.nv)
    pushed = tool.jacobian(robot.system, q).T @ wrench
    acceleration = np.linalg.solve(np.asarray(robot.system.mass_matrix(q)), pushed)
    rate = tool.acceleration(robot.system, q, rest, jnp.asarray(acceleration))
    evaluate = jax.jit(robotics.operational_inertia)
    inertia = evaluate(robot.system, q, tool)
    close(inertia @ rate, wrench, 1e-11)
    check_message(
        lambda: robotics.operational_inertia(robot.system, q, lie_jax.robotics.Frame("ground")),
        "Frame('ground')",
        "cannot move in all six",
    )


@pytest.mark.full
def test_operational_inertia_is_the_same_in_absolute_coordinates():
    robot = robots.robot("walker")
    cut, _ = lie_jax.assemble(robot.model.mechanism, lie_jax.R3SO3())
    q, _, _ = robots.state("walker")
    rotation, position = robot.system.poses(q)
    quaternions = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotation)
    absolute = jnp.concatenate([position, quaternions], axis=1).reshape(-1)
    foot = lie_jax.robotics.Frame("right_shank", (0.0, 0.0, -0.3))
    evaluate = jax.jit(robotics.operational_inertia)
    # Multipliers are regularised.
    close(evaluate(cut, absolute, foot), evaluate(robot.system, q, foot), 1e-8)


@pytest.mark.full
@pytest.mark.parametrize("name", ["arm", "walker"])
def test_derivatives_are_those_of_differences(name):
    system = robots.robot(name).system
    q, v, acceleration = robots.state(name)
    function, values = compiled(name)

    def moved(s):
        return function(system.space.flow(q, s * v), v + s * acceleration, acceleration)

    h = 1e-3
    points = [moved(s * h) for s in (-2.0, -1.0, 1.0, 2.0)]
    expected = jax.tree.map(lambda a, b, c, d: (8.0 * (c - b) - (d - a)) / (12.0 * h), *points)
    got = jax.jit(
        lambda q, v: jax.jvp(
            lambda q, v: function(q, v, acceleration),
            (q, v),
            (system.space.lift(q, v), acceleration),
        )[1]
    )(q, v)
    for key, value in got.items():
        scale = max(np.max(np.abs(values[key])), np.max(np.abs(expected[key])))
        assert_allclose(value, expected[key], rtol=0.0, atol=DIFFERENCES * scale, err_msg=key)


@pytest.mark.full
def test_gradients_in_reverse_mode_are_those_of_forward_mode_at_zero_and_near_pi():
    system = robots.robot("arm").system
    tool = lie_jax.robotics.Frame("wrist", (0.1, 0.0, 0.0))

    def value(q):
        forces = robotics.bias_force(system, q, q)
        way = lie_jax.groups.se3.log(tool.pose(system, q))
        return jnp.sum(forces**2) + jnp.sum(way**2) + jnp.sum(tool.jacobian(system, q) ** 2)

    evaluate = jax.jit(lambda q: (jax.grad(value)(q), jax.jacfwd(value)(q), jax.hessian(value)(q)))
    for q in (np.zeros(5), np.asarray([np.pi - 1e-9, 0.0, 0.0, 1e-9 - np.pi, 0.0])):
        reverse, forward, second = evaluate(jnp.asarray(q))
        assert np.all(np.isfinite(second))
        close(reverse, forward)
        close(second, second.T, 1e-10)


@pytest.mark.full
def test_single_precision_and_batches():
    robot, (_, values) = robots.robot("arm"), compiled("arm")
    system = robots.in_single(robot.system)
    state = robots.in_single(robots.state("arm"))
    batch = [jnp.stack([x, x]) for x in state]
    got = jax.jit(jax.vmap(lambda *state: terms(system, robot.frames, *state)))(*batch)
    for key, value in got.items():
        assert value.dtype == np.float32, key
        close(value[1], values[key], SINGLE)


@pytest.mark.full
def test_systems_with_constraints_have_no_inverse_dynamics():
    mechanism = robots.robot("arm").model.mechanism
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    check_message(
        lambda: robotics.inverse_dynamics(system, state.q, state.v, state.v),
        "inverse_dynamics(system=) has 25 constraints",
        "lie_jax.Minimal()",
    )


@pytest.mark.full
def test_missing_inputs_are_named():
    mechanism, still = robots.robot("arm").model.mechanism, np.zeros(5)
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    check_message(
        lambda: robotics.inverse_dynamics(system, still, still, still),
        "inverse_dynamics(inputs=) is None",
        "read 5 inputs",
        "jnp.zeros(5)",
    )
