"""Joint coordinates: against constraints in maximal coordinates, and reference motions."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.spaces.base import AbstractSpace
from models import three_bodies
from tests import mechanisms

# Rounding in forces of some hundred newtons.
FORCE_ROUNDING = 1e-11
# The same through mass matrices whose condition is some thousand.
ACCELERATION_ROUNDING = 1e-10
T = 0.4


@pytest.fixture(scope="module")
def forest():
    mechanism = mechanisms.forest()
    return lie_jax.assemble(mechanism, lie_jax.Minimal()), mechanism


def _states(system, state, count=3, seed=3):
    """The initial state and others far from it."""
    away = np.random.default_rng(seed).normal(size=(count, system.nv))
    away[0] = 0.0
    q = jax.jit(jax.vmap(system.space.retract, (None, 0)))(state.q, away)
    return q, np.asarray(state.v) + away[::-1]


@pytest.mark.full
def test_coordinates_are_ordered_as_documented(forest):
    (system, state), mechanism = forest
    # One base; two revolute, two prismatic, three spherical joints and a rigid one.
    assert (system.nq, system.nv, system.nc) == (7 + 4 + 3 * 4, 6 + 4 + 3 * 3, 0)
    ear = mechanism.bodies[mechanisms.FOREST_BODIES.index("ear")]
    rotation, position = jax.tree.map(np.asarray, jax.jit(lambda q: system.poses(q))(state.q))
    state = jax.tree.map(np.asarray, state)
    assert_allclose(state.q[:7], [*ear.position, *ear.orientation], atol=1e-14)
    # The mast's ball joint is the second one listed, after the arm's single angle.
    mast = mechanism.bodies[mechanisms.FOREST_BODIES.index("mast")]
    orientation = np.asarray(mast.orientation)
    assert_allclose(state.q[8:12], np.sign(orientation[0]) * orientation, atol=1e-14)
    assert_allclose(state.v[7:10], mast.omega_body, atol=1e-13)
    for i, body in enumerate(mechanism.bodies):
        assert_allclose(position[i], body.position, atol=1e-13)
        expected = Rotation.from_quat(body.orientation, scalar_first=True).as_matrix()
        assert_allclose(rotation[i], expected, atol=1e-13)


@pytest.mark.full
@pytest.mark.parametrize("joints", ["forest", "joints of several numbers"])
def test_forest_moves_as_in_maximal_coordinates(forest, joints):
    """Mass matrix and force are those of free bodies, seen through the joints; so is the motion."""
    (system, state), mechanism = forest
    if joints != "forest":
        mechanism = mechanisms.compound_forest()
        system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
        assert (system.nq, system.nv, system.nc) == (15, 15, 0)
        assert_allclose(
            system.poses(state.q)[1], [b.position for b in mechanism.bodies], atol=1e-13
        )
    maximal, _ = lie_jax.assemble(mechanism, lie_jax.SE3())

    @jax.jit
    @jax.vmap
    def residuals(q, v):
        t = jnp.asarray(T)
        rotation, position = system.poses(q)
        orientation = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotation)
        all_q = jnp.concatenate([position, orientation], axis=1).reshape(-1)
        all_v = system.twists(q, v).reshape(-1)
        jacobian = jax.jacfwd(lambda v: system.twists(q, v).reshape(-1))(v)

        def twist_rate(a):
            return jax.jvp(system.twists, (q, v), (system.space.lift(q, v), a))[1].reshape(-1)

        mass_matrix, force = system.mass_matrix(q), system.force(t, q, v)
        all_mass = maximal.mass_matrix(all_q)
        drift = all_mass @ twist_rate(jnp.zeros_like(v))
        acceleration = system.acceleration(t, q, v)
        solved = jnp.linalg.solve(mass_matrix, force)
        own, other = system.momentum(q, v), maximal.momentum(all_q, all_v)
        forces = {
            "joints hold": maximal.constraint(t, all_q),
            "joint velocities hold": maximal.constraint_jacobian(t, all_q) @ all_v,
            "mass matrix": mass_matrix - jacobian.T @ all_mass @ jacobian,
            "force": force - jacobian.T @ (maximal.force(t, all_q, all_v) - drift),
            "kinetic energy": system.kinetic_energy(q, v) - maximal.kinetic_energy(all_q, all_v),
            "half v M v": system.kinetic_energy(q, v) - 0.5 * v @ mass_matrix @ v,
            "potential energy": system.potential_energy(q) - maximal.potential_energy(all_q),
            "momentum": own[0] - other[0],
            "angular momentum": own[1] - other[1],
            "residual": system.residual(t, q, v, state.v, jnp.zeros(0))
            - (mass_matrix @ state.v - force),
        }
        accelerations = {"articulated bodies": acceleration - solved}
        if joints != "forest":
            constrained = maximal.acceleration(t, all_q, all_v)
            accelerations["constrained bodies"] = twist_rate(acceleration) - constrained
        return forces, accelerations

    q, v = _states(system, state)
    forces, accelerations = residuals(q, v)
    for rule, value in forces.items():
        assert np.max(np.abs(value)) < FORCE_ROUNDING, rule
    for rule, value in accelerations.items():
        assert np.max(np.abs(value)) < ACCELERATION_ROUNDING, rule


@pytest.mark.full
def test_bodies_without_joints_are_bases():
    mechanism = mechanisms.forest()
    free = lie_jax.Mechanism(mechanism.bodies, (), mechanism.forces)
    accelerations = []
    for formulation in (lie_jax.Minimal(), lie_jax.SE3()):
        system, state = lie_jax.assemble(free, formulation)
        move = jax.jit(lambda q, v, system=system: system.acceleration(jnp.asarray(T), q, v))
        accelerations.append(move(state.q, state.v))
    assert_allclose(*accelerations, atol=ACCELERATION_ROUNDING)


@pytest.mark.full
def test_space_of_a_forest_moves_its_bodies_with_their_twists(forest):
    (system, state), _ = forest
    space = system.space
    q, v = _states(system, state)
    rng = np.random.default_rng(4)
    x, dx = (jnp.asarray(rng.normal(size=(len(q), system.nv)) * 0.3) for _ in range(2))

    @jax.jit
    @jax.vmap
    def defects(q, v, x, dx):
        _, rates = jax.jvp(system.poses, (q,), (space.lift(q, v),))
        rotation, _ = system.poses(q)
        twists = jnp.concatenate(
            [
                jnp.einsum("nji,nj->ni", rotation, rates[1]),
                jax.vmap(lambda r, rate: lie_jax.groups.so3.vee(r.T @ rate))(rotation, rates[0]),
            ],
            axis=1,
        )
        end = space.retract(q, x)
        rate = space.tangent_operator(x, dx)
        return {
            "twists are those of the poses": twists - system.twists(q, v),
            "inverse": space.inverse_retract(q, end) - x,
            "T": space.lift(end, rate) - jax.jvp(lambda x: space.retract(q, x), (x,), (dx,))[1],
            "T inverse": space.tangent_operator_inv(x, rate) - dx,
            "derivative of T inverse": space.tangent_operator_inv_derivative(x, v, dx)
            - jax.jvp(lambda x: space.tangent_operator_inv(x, dx), (x,), (v,))[1],
            "third derivative of an increment": space.turning(v, dx)
            - AbstractSpace.turning(space, v, dx),
            "rate at zero": space.rate_at_zero(v) - space.tangent_operator_inv(0.0 * x, v),
        }

    for rule, value in defects(q, v, x, dx).items():
        assert np.max(np.abs(value)) < FORCE_ROUNDING, rule


@pytest.mark.full
def test_space_of_a_forest_is_canonical(forest):
    assert forest[0][0].space.canonical


@pytest.mark.full
def test_three_bodies_keep_their_invariants_and_reach_the_reference():
    system, state = three_bodies.build()
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=2.5e-3, steps=4000, save=400
    )
    energy, momentum, spin = three_bodies.INVARIANTS
    measure = jax.jit(
        jax.vmap(lambda q, v: (system.kinetic_energy(q, v), system.momentum(q, v), system.poses(q)))
    )
    q, v = np.asarray(trajectory.q), np.asarray(trajectory.v)
    energies, (momenta, spins), (rotation, position) = jax.tree.map(np.asarray, measure(q, v))
    # Truncation errors of order 4 at this step are some 1e-12.
    assert_allclose(energies, np.full(11, energy), atol=1e-10)
    assert_allclose(momenta, np.tile(momentum, (11, 1)), atol=1e-10)
    assert_allclose(spins, np.tile(spin, (11, 1)), atol=1e-10)
    for t, expected in three_bodies.REFERENCE.items():
        assert_allclose(rotation[int(t), 0], expected["R"], atol=1e-10)
        assert_allclose(position[int(t), 0], expected["r"], atol=1e-10)
        assert_allclose(q[int(t), 7:], expected["q"], atol=1e-10)
        assert_allclose(v[int(t)], [*expected["V"], *expected["qd"]], atol=1e-10)


# Two rods on ball joints, positions and angular velocities at these times (s): an independent
# solution in extended precision, found by two routes that share no code.
DOUBLE_PENDULUM = {
    0.1: (
        (-0.0097731410685506920527, 0.49967686322401709184, -0.015083702206723764574),
        (0.059623468794300353880, 1.0410402249527177800, -0.42003197882343265101),
        (-0.88185444659717783856, 0.27750479160584753231, 0.99712938498727309417),
        (0.50462568335269136455, -2.2412447932508349012, 2.9217889468598994966),
    ),
    1.0: (
        (-0.12332301595351536132, -0.34850326581042437998, -0.33665547293278581883),
        (-0.0068649091199360465413, -0.96567139237214157227, -0.49917247868370894734),
        (-0.94017590561660259348, 1.1688203018308169648, 0.25996309620344992565),
        (4.9229056509185079303, -3.8550499909533417307, 5.1176602395740680726),
    ),
}


def _double_pendulum(formulation):
    first = {"orientation": (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)}
    turn = np.asarray([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    omega = (np.asarray([0.3, 0.2, 1.0]), np.asarray([1.0, -2.0, 3.0]))
    arms = (np.asarray([0.0, 0.0, -0.5]), np.asarray([0.0, 0.0, -0.4]))
    hinge = 2 * turn @ arms[0]
    speed = 2 * turn @ np.cross(omega[0], arms[0])
    bodies = [
        lie_jax.Body(
            "first", 2.0, np.diag([0.30, 0.28, 0.05]), omega_body=omega[0],
            position=turn @ arms[0], velocity=turn @ np.cross(omega[0], arms[0]), **first,
        ),
        lie_jax.Body(
            "second", 1.0, np.diag([0.10, 0.09, 0.02]), omega_body=omega[1],
            position=hinge + arms[1], velocity=speed + np.cross(omega[1], arms[1]),
        ),
    ]  # fmt: skip
    joints = [
        lie_jax.SphericalJoint("ground", "first", child_point=-arms[0]),
        lie_jax.SphericalJoint("first", "second", arms[0], -arms[1]),
    ]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)


@pytest.mark.parametrize(
    ("integrator", "order"),
    [
        pytest.param(lie_jax.CrouchGrossman(3), 3, marks=pytest.mark.full),
        (lie_jax.RKMK("rk4"), 4),
        pytest.param(lie_jax.GeneralizedAlpha(0.9), 2, marks=pytest.mark.full),
    ],
)
def test_double_pendulum_on_ball_joints_converges_to_the_reference(integrator, order):
    system, state = _double_pendulum(lie_jax.Minimal())
    assert (system.nq, system.nv) == (8, 6)

    @jax.jit
    def end(duration, steps):
        dt = duration / steps.astype(float)

        def step(i, loop):
            return integrator.step(system, i.astype(float) * dt, dt, *loop, None)[:2]

        zero = jnp.zeros(())
        first = state, integrator.init(system, zero, dt, state, None)
        (final, _) = jax.lax.fori_loop(0, steps, step, first)
        return jnp.concatenate([system.poses(final.q)[1], system.twists(final.q, final.v)[:, 3:]])

    def error(t, steps):
        return np.abs(
            end(jnp.asarray(t), jnp.asarray(steps)) - np.asarray(DOUBLE_PENDULUM[t])
        ).max()

    coarse, fine = error(0.1, 16), error(0.1, 32)
    assert abs(np.log2(coarse / fine) - order) < 0.35
    if order == 4:
        assert error(0.1, 500) < 1e-10
        assert error(1.0, 4000) < 1e-10


# `make test` has gradients of steps with constraints.
@pytest.mark.full
def test_gradients_agree_with_differences():
    """Of a step by all parameters of a model, which is built inside the program."""

    def objective(parameters):
        weights = parameters["weights"]
        others = {name: value for name, value in parameters.items() if name != "weights"}
        system, state = three_bodies.build(**others)
        system = eqx.tree_at(lambda s: s.bodies.mass, system, system.bodies.mass * weights)
        dt = jnp.asarray(0.5)
        end = lie_jax.RKMK("euler").step(system, dt, dt, state, None, None).state
        return jnp.sum(jnp.sin(end.q)) + jnp.sum(end.v**2)

    parameters = {
        "weights": jnp.asarray([1.0, 1.3, 0.6]),
        "radius": jnp.asarray(1.0),
        "joint_rates": jnp.asarray([0.4, 0.3]),
        "base_twist": jnp.asarray(three_bodies.BASE_TWIST),
        "gravity": jnp.asarray([0.3, 0.0, -9.81]),
    }
    rng = np.random.default_rng(6)
    direction = {k: rng.normal(size=v.shape) for k, v in parameters.items()}
    h = 1e-3
    steps = h * np.asarray([-2.0, -1.0, 0.0, 1.0, 2.0])
    pairs = zip(parameters.items(), direction.values(), strict=True)
    moved = {k: np.asarray(v) + np.multiply.outer(steps, d) for (k, v), d in pairs}
    values, gradient = jax.jit(jax.vmap(jax.value_and_grad(objective)))(moved)
    slope = sum(np.sum(gradient[k][2] * direction[k]) for k in parameters)
    difference = (8 * (values[3] - values[1]) - (values[4] - values[0])) / (12 * h)
    # Truncation is some h⁴ = 1e-12, rounding 1e-13 / h.
    assert_allclose(slope, difference, rtol=1e-8)


def _equations_and_work(jaxpr):
    """Number of equations of a program, and numbers computed by it, loops counted in full."""
    count, work = 0, 0
    for equation in jaxpr.eqns:
        inner = [p.jaxpr for p in equation.params.values() if hasattr(p, "jaxpr")]
        inner += [p for p in equation.params.values() if hasattr(p, "eqns")]
        times = equation.params.get("length", 1)
        parts = [_equations_and_work(j) for j in inner]
        count += 1 + sum(n for n, _ in parts)
        own = sum(v.aval.size for v in equation.outvars) if not inner else 0
        work += own + times * sum(w for _, w in parts)
    return count, work


@pytest.mark.full
def test_work_grows_linearly_and_programs_do_not_grow():
    def measured(n):
        system, state = mechanisms.ball_chain(lie_jax.Minimal(), np.zeros((n, 3)))
        program = jax.make_jaxpr(lambda q, v: system.acceleration(0.0, q, v))(state.q, state.v)
        return _equations_and_work(program.jaxpr)

    (short, small), (same, middle), (long, large) = measured(4), measured(8), measured(12)
    assert short == same == long
    assert large - middle == middle - small


@pytest.mark.full
def test_no_scatter_in_either_direction(forest):
    """A scatter would keep XLA from compiling a time loop on the CPU into one function."""
    (system, state), _ = forest

    def total(system, q, v):
        return jnp.sum(system.acceleration(jnp.asarray(T), q, v))

    gradient = jax.value_and_grad(total, (0, 1, 2))
    assert "scatter" not in str(jax.make_jaxpr(gradient)(system, state.q, state.v))


@pytest.mark.full
@pytest.mark.parametrize("compiled", [False, True])
def test_single_precision_stays_single(forest, compiled):
    def single(tree):
        return jax.tree.map(lambda x: x.astype(jnp.float32), tree)

    system, state = single(forest[0])
    q, v = state.q, state.v

    def evaluate():
        t = jnp.asarray(T, jnp.float32)
        return system.acceleration(t, q, v), system.mass_matrix(q), system.force(t, q, v)

    def gradient():
        def total(q, v):
            return jnp.sum(system.acceleration(jnp.asarray(T, jnp.float32), q, v))

        return jax.grad(total, (0, 1))(q, v)

    for value in (*jax.eval_shape(evaluate), *jax.eval_shape(gradient)):
        assert value.dtype == jnp.float32
    if compiled:
        acceleration, mass_matrix, force = jax.jit(evaluate)()
        # Single-precision rounding (1e-7) of the terms that cancel.
        scale = float(jnp.max(jnp.abs(mass_matrix) @ jnp.abs(acceleration)))
        assert_allclose(mass_matrix @ acceleration, force, atol=1e-5 * scale)


@pytest.mark.full
def test_armatures_slow_joints_down():
    """(J + a) q̈ = torque about a hinge, (m + a) s̈ = force along a slider, and their derivatives."""
    mass, length, own, gravity = 2.0, 0.4, 0.1, 9.81
    body = lie_jax.Body("b", mass, own * jnp.eye(3), center_of_mass=(length, 0.0, 0.0))

    def acceleration(joint, parent, child):
        def of(armature):
            one = joint(parent, child, armature=armature)
            system, state = lie_jax.assemble(lie_jax.Mechanism([body], [one]), lie_jax.Minimal())
            return jnp.sum(system.acceleration(0.0, state.q, state.v))

        return jax.vmap(jax.value_and_grad(of))(jnp.asarray([0.0, 0.3]))

    # The body falls by turning about y.
    hinge = functools.partial(lie_jax.RevoluteJoint, axis=(0.0, 1.0, 0.0))
    slider = functools.partial(lie_jax.PrismaticJoint, axis=(0.0, 0.0, 1.0))
    turning = mass * gravity * length, own + mass * length**2
    joints = (
        (hinge, "b", "ground"), (lie_jax.SphericalJoint, "ground", "b"), (slider, "ground", "b"),
    )  # fmt: skip
    loads = (-turning[0], turning[1]), turning, (-mass * gravity, mass)
    got = jax.jit(lambda: [acceleration(*joint) for joint in joints])()
    for found, (force, inertia) in zip(got, loads, strict=True):
        total = inertia + np.asarray([0.0, 0.3])
        assert_allclose(found, (force / total, -force / total**2), rtol=1e-13)
