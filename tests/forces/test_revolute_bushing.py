"""A bushing about an axis: its potential, its dampers, and turns without bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests import mechanisms

# Rounding in forces of some hundred newtons.
ROUNDING = 1e-11
T = 0.4
EYE = np.eye(3)


def _semidefinite(rng, size):
    root = rng.normal(size=(3, 3))
    return size * root @ root.T


def _bushing(parent, rng, **dampers):
    return lie_jax.RevoluteBushing(
        parent,
        "child",
        rng.normal(size=3),
        _semidefinite(rng, 30.0),
        20.0,
        **dampers,
        parent_point=rng.normal(size=3),
        child_point=rng.normal(size=3),
        orientation=mechanisms.quaternion(rng.normal(size=3)),
    )


def _pose(rotation, position):
    return lie_jax.extend.BodyPose(jnp.asarray(rotation), jnp.asarray(position))


def test_springs_are_gradients_and_dampers_take_energy():
    """At poses in all places, against the energy, and the dampers' power from their definition."""
    rng = np.random.default_rng(8)
    drag, brake = _semidefinite(rng, 2.0), 0.7
    bushing = _bushing("parent", rng, damping=drag, rotational_damping=brake)
    home = lie_jax.groups.quaternion.to_matrix(bushing.orientation)

    def moved(start, x):
        """Poses of both bodies, moved along hybrid velocities x (12,)."""
        return tuple(
            _pose(
                rotation @ lie_jax.groups.so3.exp(x[6 * i + 3 : 6 * i + 6]),
                position + x[6 * i :][:3],
            )
            for i, (rotation, position) in enumerate(start)
        )

    def seen_from_parent(start, x):
        parent, child = moved(start, x)
        end = child.position + child.rotation @ bushing.child_point
        point = parent.rotation.T @ (end - parent.position)
        return point, parent.rotation.T @ child.rotation @ home.T @ bushing.axis

    @jax.jit
    @jax.vmap
    def defects(start, v):
        zero = jnp.zeros(12)
        velocities = [lie_jax.extend.BodyVelocity(*jnp.split(half, 2)) for half in jnp.split(v, 2)]
        still = [lie_jax.extend.BodyVelocity(jnp.zeros(3), jnp.zeros(3))] * 2
        poses = moved(start, zero)
        force, spring = (
            jnp.concatenate([jnp.concatenate(w) for w in bushing.wrenches(T, poses, given, None)])
            for given in (tuple(velocities), tuple(still))
        )
        energy = jax.grad(lambda x: bushing.potential_energy(moved(start, x)))(zero)
        _, (rate, axis_rate) = jax.jvp(lambda x: seen_from_parent(start, x), (zero,), (v,))
        dissipated = rate @ drag @ rate + brake * axis_rate @ axis_rate
        forces, torques = force.reshape(2, 2, 3)[:, 0], force.reshape(2, 2, 3)[:, 1]
        moments = [
            jnp.cross(pose.position, f) + pose.rotation @ m
            for pose, f, m in zip(poses, forces, torques, strict=True)
        ]
        return {
            "gradient": spring + energy,
            "power of the dampers": (force - spring) @ v + dissipated,
            "sum of forces": jnp.sum(forces, axis=0),
            "sum of moments": moments[0] + moments[1],
        }, spring

    turns = rng.normal(size=(5, 2, 3))
    turns[0] = 0.0
    rotations = jax.vmap(jax.vmap(lie_jax.groups.so3.exp))(jnp.asarray(turns))
    places = jnp.asarray(rng.normal(size=(5, 2, 3)))
    start = [(rotations[:, i], places[:, i]) for i in (0, 1)]
    values, springs = defects(start, jnp.asarray(rng.normal(size=(5, 12))))
    assert float(jnp.max(jnp.abs(springs))) > 50.0
    for rule, value in values.items():
        assert float(jnp.max(jnp.abs(value))) < ROUNDING, rule


def test_turns_about_the_axis_change_nothing():
    """Twice around, past π and 2π: no force where the joint holds, else always the same one."""
    rng = np.random.default_rng(2)
    bushing = _bushing("ground", rng, damping=(1.0, 2.0, 3.0), rotational_damping=0.6)
    joint_axis = bushing.axis
    child_axis = lie_jax.groups.quaternion.rotate(
        lie_jax.groups.quaternion.conjugate(bushing.orientation), joint_axis
    )
    home = lie_jax.groups.quaternion.to_matrix(bushing.orientation)
    tilt = lie_jax.groups.so3.exp(jnp.asarray([0.3, -0.4, 0.2]))
    ground = _pose(EYE, np.zeros(3)), lie_jax.extend.BodyVelocity(jnp.zeros(3), jnp.zeros(3))

    @jax.jit
    @jax.vmap
    def acting(angle):
        """Wrenches on the ground with axes and points together, and with both apart."""

        def on_ground(rotation, apart):
            rotation = rotation @ lie_jax.groups.so3.exp(angle * child_axis)
            position = bushing.parent_point + apart - rotation @ bushing.child_point
            # A spin of 9 rad/s about the child's axis through its point.
            spin = 9.0 * child_axis
            velocity = -rotation @ jnp.cross(spin, bushing.child_point)
            poses = ground[0], _pose(rotation, position)
            velocities = ground[1], lie_jax.extend.BodyVelocity(velocity, spin)
            return jnp.concatenate(bushing.wrenches(T, poses, velocities, None)[0])

        held = on_ground(home, jnp.zeros(3))
        return held, on_ground(tilt @ home, jnp.asarray([0.1, 0.2, -0.1]))

    held, tilted = acting(jnp.linspace(0.0, 4.0 * jnp.pi, 81))
    assert_allclose(held, np.zeros((81, 6)), rtol=0, atol=ROUNDING)
    assert float(jnp.min(jnp.linalg.norm(tilted[:, 3:], axis=1))) > 1.0
    assert_allclose(tilted, np.tile(tilted[:1], (81, 1)), rtol=0, atol=ROUNDING)


@pytest.mark.full
def test_a_body_on_it_is_five_oscillators():
    """At rest and next to it: accelerations of -K/m, -c/J, -D/m and -d/J, none about the axis.

    Second derivatives are finite, and zero about axes of the body: the torque is a sine.
    """
    k, c, drag, brake = np.asarray((40.0, 50.0, 60.0)), 3.0, np.asarray((0.1, 0.2, 0.3)), 0.4
    mass, moments = 2.0, np.asarray([0.3, 0.4, 0.5])
    across = np.asarray([1.0, 1.0, 0.0])
    support = lie_jax.RevoluteBushing("ground", "b", EYE[2], k, c, drag, brake)
    body = lie_jax.Body("b", mass, np.diag(moments))
    mechanism = lie_jax.Mechanism([body], (), [support], np.zeros(3))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())

    @jax.jit
    def changes(q, v):
        def moved(x, v):
            return system.acceleration(0.0, system.space.retract(q, x), v)

        zero = jnp.zeros(6)
        first = jax.jacfwd(moved, (0, 1))
        return moved(zero, v), first(zero, v), jax.jacfwd(jax.jacfwd(moved))(zero, v)

    rest, (stiff, damped), second = changes(state.q, state.v)
    assert_allclose(rest, np.zeros(6), atol=ROUNDING)
    expected = np.concatenate([-k / mass, -c * across / moments])
    assert_allclose(stiff, np.diag(expected), atol=ROUNDING)
    expected = np.concatenate([-drag / mass, -brake * across / moments])
    assert_allclose(damped, np.diag(expected), atol=ROUNDING)
    assert np.all(np.isfinite(second))
    for i in (3, 4, 5):
        assert_allclose(second[:, i, i], np.zeros(6), atol=ROUNDING)


@pytest.mark.full
def test_energy_and_momenta_of_two_spinning_bodies():
    """Between two bodies that turn several times against each other, free in space: without
    dampers energy is constant, with them it falls, and momenta are constant in both.
    """
    rng = np.random.default_rng(5)
    bodies = [mechanisms.random_body(name, rng) for name in ("parent", "child")]
    turning = 15.0 * np.asarray(lie_jax.RevoluteBushing("a", "b", (1, 2, 2), EYE, 1.0).axis)
    ends = []
    for damped in (False, True):
        bushing = lie_jax.RevoluteBushing(
            "parent", "child", (1.0, 2.0, 2.0), (400.0, 400.0, 500.0), 90.0,
            damped * np.ones(3), 0.5 * damped,
        )  # fmt: skip
        system, state = lie_jax.assemble(
            lie_jax.Mechanism(bodies, (), [bushing], np.zeros(3)), lie_jax.R3SO3()
        )
        v = jnp.zeros(12).at[9:].set(turning)
        q = state.q.at[7:].set(state.q[:7]).at[7:10].add(0.05)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk67"), lie_jax.State(q, v), dt=1e-3, steps=2000, save=50
        )

        def measured(q, v, system=system):
            energy = system.kinetic_energy(q, v) + system.potential_energy(q)
            return energy, jnp.concatenate(system.momentum(q, v))

        energy, momenta = (np.asarray(x) for x in jax.jit(jax.vmap(measured))(run.q, run.v))
        # Order 6 with some 100 steps in the fastest oscillation.
        assert_allclose(momenta, np.tile(momenta[:1], (41, 1)), rtol=0, atol=1e-9)
        ends.append(energy)
    free, damped = ends
    assert_allclose(free, np.full(41, free[0]), rtol=1e-9)
    assert np.all(np.diff(damped) < 0.0) and damped[-1] < 0.98 * damped[0]
