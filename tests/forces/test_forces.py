"""Force elements against energies, momenta and closed-form motions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.numerics import rules
from lie_jax.spaces import derivatives
from tests import mechanisms
from tests.golden import assert_close
from tests.suites import cases

FORMULATIONS = {"R3SO3": lie_jax.R3SO3(), "SE3": lie_jax.SE3(coordinates="rotation_vector")}
# Rounding in forces of some hundred newtons.
FORCE_ROUNDING = 1e-11
T = 0.4

STIFFNESS, DAMPING = np.asarray([120.0, 50.0, 0.0]), np.asarray([3.0, 0.0, 2.0])
OFFSET = np.asarray([0.1, -0.2, 0.3])
POINT_A, POINT_B, PLACE = (
    np.asarray(p) for p in ([0.3, 0.1, -0.2], [-0.1, 0.4, 0.2], [1.0, -2.0, 0.5])
)
LINE = {"stiffness": 90.0, "damping": 4.0, "length": 0.7}
FOLLOWER, TORQUE_WORLD = np.asarray([3.0, -1.0, 2.0]), np.asarray([0.5, 2.0, -1.0])

CONSERVATIVE = [
    lie_jax.PointForce("a", (1.0, 2.0, -3.0), point=POINT_A),
    lie_jax.CartesianSpringDamper(
        "ground", "b", STIFFNESS, parent_point=PLACE, child_point=POINT_B, offset=OFFSET
    ),
    lie_jax.CartesianSpringDamper(
        "a", "b", 2.0 * STIFFNESS, parent_point=POINT_A, child_point=POINT_B
    ),
    lie_jax.LinearSpringDamper(
        "b", "a", LINE["stiffness"], 0.0, LINE["length"], parent_point=POINT_B, child_point=POINT_A
    ),
    lie_jax.LinearSpringDamper("ground", "a", 30.0, 0.0, 0.2, parent_point=PLACE),
    lie_jax.Bushing("b", "a", STIFFNESS, 0.1 * STIFFNESS, parent_point=POINT_B),
]
WORKING = [
    lie_jax.CartesianSpringDamper(
        "b", "a", STIFFNESS, DAMPING, parent_point=POINT_B, child_point=POINT_A
    ),
    lie_jax.LinearSpringDamper("a", "b", **LINE, parent_point=POINT_A, child_point=POINT_B),
    lie_jax.PointForce("a", FOLLOWER, point=POINT_A, frame="body"),
    lie_jax.PointForce("b", mechanisms.pushed, point=POINT_B),
    lie_jax.Torque("a", TORQUE_WORLD),
    lie_jax.Torque("b", mechanisms.pushed, frame="body"),
]


def _two_free_bodies(formulation, forces, gravity=(0.3, -0.2, -9.81)):
    rng = np.random.default_rng(7)
    bodies = [mechanisms.random_body(name, rng) for name in "ab"]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, (), forces, gravity), formulation)


@pytest.mark.parametrize("name", cases(FORMULATIONS, ["SE3"]))
def test_conservative_forces_are_gradients(name):
    system, state = _two_free_bodies(FORMULATIONS[name], CONSERVATIVE)

    @jax.jit
    def forces(q):
        return system.force(T, q, jnp.zeros(12)), derivatives.jacobian_along(
            system.space, system.potential_energy, q
        )

    force, gradient = forces(state.q)
    assert float(jnp.max(jnp.abs(force))) > 10.0
    assert_close(force, -gradient, atol=FORCE_ROUNDING)


@pytest.mark.parametrize("name", cases(FORMULATIONS, ["R3SO3"]))
def test_power_and_momentum(name):
    """Energy and momenta change by what the elements put in, and by nothing else."""
    system, state = _two_free_bodies(FORMULATIONS[name], WORKING, gravity=np.zeros(3))
    space = system.space

    @jax.jit
    def rates(q, v):
        def along_motion(function):
            dv = system.acceleration(T, q, v)
            return jax.jvp(function, (q, v), (space.lift(q, v), dv))[1]

        rotation = system.poses(q)[0]
        omega = [rotation[i] @ v[6 * i + 3 : 6 * i + 6] for i in (0, 1)]

        def points(q):
            rotation, position = system.poses(q)
            return jnp.stack(
                [
                    position[i] + rotation[i] @ jnp.asarray(p)
                    for i, p in ((0, POINT_A), (1, POINT_B))
                ]
            )

        a, b = points(q)
        velocity_a, velocity_b = derivatives.derivative_along(space, points, q, v)
        follower, push = rotation[0] @ jnp.asarray(FOLLOWER), mechanisms.pushed(jnp.asarray(T))
        torque_b = rotation[1] @ push
        direction = (b - a) / jnp.linalg.norm(b - a)
        dissipated = (
            jnp.sum(jnp.asarray(DAMPING) * (velocity_a - velocity_b) ** 2)
            + LINE["damping"] * (direction @ (velocity_b - velocity_a)) ** 2
        )
        power = (
            follower @ velocity_a
            + push @ velocity_b
            + jnp.asarray(TORQUE_WORLD) @ omega[0]
            + torque_b @ omega[1]
        )
        spring = -jnp.asarray(STIFFNESS) * (a - b) - jnp.asarray(DAMPING) * (
            velocity_a - velocity_b
        )
        moment = (
            jnp.cross(a, follower)
            + jnp.cross(b, push)
            + jnp.asarray(TORQUE_WORLD)
            + torque_b
            # The forces of a Cartesian element do not lie on the line through its points.
            + jnp.cross(a - b, spring)
        )
        energy = along_motion(lambda q, v: system.kinetic_energy(q, v) + system.potential_energy(q))
        linear, angular = along_motion(system.momentum)
        return {
            "energy": energy - (power - dissipated),
            "linear momentum": linear - (follower + push),
            "angular momentum": angular - moment,
        }

    for rule, value in rates(state.q, state.v).items():
        assert float(jnp.max(jnp.abs(value))) < FORCE_ROUNDING, rule


def test_torsional_springs_turn_hinged_bodies_back():
    """Torques against the closed form, and their power against the change of energy."""
    rng = np.random.default_rng(11)
    axis, orientation = rng.normal(size=3), mechanisms.quaternion(rng.normal(size=3))
    k, d, rest = 3.0, 0.4, 0.5
    hinge = lie_jax.RevoluteJoint("a", "b", axis, orientation=orientation)
    spring = lie_jax.JointSpring(hinge, stiffness=k, damping=d, relaxed=rest).attach([hinge])
    start, swing, parent_omega = (jnp.asarray(rng.normal(size=n)) for n in (3, 3, 3))
    rate, axis = 1.7, jnp.asarray(axis / np.linalg.norm(axis))

    def rotations(t, angle):
        parent = lie_jax.groups.so3.exp(start) @ lie_jax.groups.so3.exp(t * parent_omega)
        turn = lie_jax.groups.so3.exp((angle + rate * t) * axis)
        return parent, parent @ turn @ lie_jax.groups.quaternion.to_matrix(orientation)

    @jax.jit
    @jax.vmap
    def evaluated(angle):
        def energy(t):
            return spring.potential_energy(tuple(BodyPose(r, swing) for r in rotations(t, angle)))

        now, change = jax.jvp(lambda t: rotations(t, angle), (0.0,), (1.0,))
        omegas = [lie_jax.groups.so3.vee(r.T @ dr) for r, dr in zip(now, change, strict=True)]
        poses = tuple(BodyPose(r, swing) for r in now)
        velocities = tuple(BodyVelocity(swing, omega) for omega in omegas)
        wrenches = spring.wrenches(jnp.zeros(()), poses, velocities, None)
        power = sum(w.torque @ omega for w, omega in zip(wrenches, omegas, strict=True))
        torques = jnp.stack([r @ w.torque for r, w in zip(now, wrenches, strict=True)])
        forces = jnp.stack([w.force for w in wrenches])
        change = jax.jvp(energy, (0.0,), (1.0,))[1]
        return now[0].T @ torques[1], torques[0] + torques[1], forces, power + change, energy(0.0)

    # In all quadrants; beyond π the same turn has another angle.
    angles = jnp.asarray([-2.9, -1.2, 0.0, 0.5, 1.4, 3.1, 3.5])
    twist, total, forces, lost, energy = evaluated(angles)
    stretch = np.asarray(angles) - [0, 0, 0, 0, 0, 0, 2 * np.pi] - rest
    assert_close(twist, -np.outer(k * stretch + d * rate, axis), atol=FORCE_ROUNDING)
    assert_close(total, np.zeros((7, 3)), atol=FORCE_ROUNDING)
    assert not np.any(forces)
    assert_close(lost, np.full(7, -d * rate**2), atol=FORCE_ROUNDING)
    assert_close(energy, 0.5 * k * stretch**2, atol=FORCE_ROUNDING)


# The midpoint rule errs by h²ω³t/24 of the amplitude: with h = 0.2 ms, ω = 5.2 rad/s, t = 1 s and
# 0.4 m some 1e-7 m; its derivative with respect to k = 18 by no more.
METHOD_ERROR = 5e-7


@pytest.mark.full
def test_oscillations_and_their_derivatives():
    """A body on Cartesian springs, and two on one spring, against their closed forms."""
    d, start, length = 1.5, 0.4, 0.5

    def simulated(k):
        support = lie_jax.CartesianSpringDamper(
            "ground", "c", jnp.stack([k, 2.0 * k, 3.0 * k]), (d, 0.0, 0.0), offset=(0.0, 0.0, 0.1)
        )
        spring = lie_jax.LinearSpringDamper("a", "b", k, 0.0, length)
        bodies = [
            lie_jax.Body(name, mass, np.eye(3), position=place)
            for name, mass, place in (
                ("a", 2.0, np.zeros(3)),
                ("b", 3.0, (length + start, 0.0, 0.0)),
                ("c", 2.0, (start, start, start)),
            )
        ]
        system, state = lie_jax.assemble(
            lie_jax.Mechanism(bodies, (), [support, spring], np.zeros(3)), lie_jax.R3SO3()
        )
        integrator = lie_jax.RKMK("midpoint")
        run = lie_jax.simulate(
            system, integrator, state, dt=2e-4, steps=5000, save=5000, throw=False
        )
        _, position = system.poses(run.q[-1])
        return jnp.concatenate([position[2], position[1, :1] - position[0, :1]])

    def exact(k):
        decay = d / (2.0 * 2.0)
        frequency = jnp.sqrt(k / 2.0 - decay**2)
        damped = jnp.exp(-decay) * (jnp.cos(frequency) + decay / frequency * jnp.sin(frequency))
        # The distance of two free bodies oscillates with their reduced mass.
        squares = k * jnp.asarray([2.0 / 2.0, 3.0 / 2.0, 1.0 / 2.0 + 1.0 / 3.0])
        rest = jnp.asarray([0.0, 0.1, length])
        amplitude = jnp.asarray([start, start - 0.1, start])
        free = rest + amplitude * jnp.cos(jnp.sqrt(squares))
        return jnp.concatenate([start * damped[None], free])

    k, one = jnp.asarray(18.0), jnp.ones(())
    got = jax.jit(lambda k: jax.jvp(simulated, (k,), (one,)))(k)
    for value, expected in zip(got, jax.jvp(exact, (k,), (one,)), strict=True):
        assert_close(value, expected, atol=METHOD_ERROR)


def test_functions_of_time_may_use_what_is_differentiated():
    """Where the force crosses a rule, too, as in Newton's method: it is a parameter."""
    t = jnp.asarray(0.7)

    def push(rate):
        force = lie_jax.PointForce("ball", lambda t: jnp.stack([t, t, 1.0]) * jnp.sin(rate * t))

        def along(value, force, change):
            return eqx.filter_jvp(lambda force: force.force(t), (force,), (change,))[1]

        return rules.value_with_rule(force.force(t), along, force)

    rates = jnp.asarray([2.0, 3.0])
    first, second = jax.vmap(lambda rate: jax.jvp(jax.jacrev(push), (rate,), (1.0,)))(rates)
    direction, turn = np.asarray([0.7, 0.7, 1.0]), np.asarray(0.7 * rates)[:, None]
    assert_allclose(first, direction * 0.7 * np.cos(turn), rtol=1e-14)
    assert_allclose(second, -direction * 0.49 * np.sin(turn), rtol=1e-14)
    single = jax.jit(lambda rate, t: lie_jax.Torque("ball", lambda t: rate * t).torque(t))
    assert single(jnp.ones(3, jnp.float32), jnp.float32(0.7)).dtype == jnp.float32


@pytest.mark.parametrize("compiled", cases([False, True], [False]))
def test_float32_stays_float32(compiled):
    double = _two_free_bodies(lie_jax.R3SO3(), [*CONSERVATIVE, *WORKING])

    @jax.jit
    def evaluated(system, state):
        t = jnp.zeros((), state.q.dtype)
        return system.force(t, state.q, state.v), system.potential_energy(state.q)

    single = jax.tree.map(lambda x: x.astype(jnp.float32), double)
    for value in jax.eval_shape(evaluated, *single):
        assert value.dtype == jnp.float32
    if not compiled:
        return
    for value, expected in zip(evaluated(*single), evaluated(*double), strict=True):
        # Rounding of single precision in forces of some hundred newtons.
        assert_close(value, expected, atol=1e-3)
