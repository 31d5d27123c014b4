"""Readings of trajectories: joint coordinates and reaction forces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems.system import accelerations_and_multipliers
from models import double_pendulum
from tests import mechanisms
from tests.suites import cases

# Rounding of positions of a few metres and of angles found from them.
ROUNDING = 1e-13
# Rounding in forces of some hundred newtons.
FORCE_ROUNDING = 1e-11
# Equations are regularised by 2e-12 of their size (`AbstractMatrix.regularize`): in forces of 45 N
# whose directions differ.
REGULARISATION = 1e-10


@pytest.mark.full
def test_coordinates_are_the_same_in_all_formulations():
    """Those of a tree, given, against those found from poses; in both directions of a joint."""
    mechanism = mechanisms.compound_forest()
    tree, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    system, _ = lie_jax.assemble(mechanism, lie_jax.EulerParameters())
    rng = np.random.default_rng(2)
    away = jnp.asarray(rng.normal(size=(4, tree.nv)))

    order = []

    @jax.jit
    @jax.vmap
    def both(away):
        q = tree.space.retract(state.q, away)
        rotation, position = tree.poses(q)
        orientation = jax.vmap(lie_jax.groups.quaternion.from_matrix)(rotation)
        own = jnp.concatenate([position, orientation], axis=1).reshape(-1)
        coordinates = tree.joint_coordinates(q)
        order.extend(coordinates)
        return q, coordinates, system.joint_coordinates(own)

    q, of_tree, of_poses = both(away)
    assert {name: values.shape[1] for name, values in of_tree.items()} == {
        ("ground", "mast"): 2,
        ("boom", "mast"): 2,
        ("plate", "boom"): 3,
        ("mast", "arm"): 1,
        ("arm", "shaft"): 2,
        ("wheel", "shaft"): 2,
        ("ground", "sledge"): 3,
    }
    assert order == [kind[1:] for kind in mechanisms.COMPOUND]
    assert_allclose(np.concatenate([of_tree[name] for name in order], axis=1), q, atol=0.0)
    for name, values in of_tree.items():
        # Poses do not tell whole turns; a distance is not off by as much by chance.
        apart = np.asarray(of_poses[name] - values)
        turns = 2.0 * np.pi * np.round(apart / (2.0 * np.pi))
        assert_allclose(apart, turns, atol=10 * ROUNDING, err_msg=str(name))


@pytest.mark.full
def test_a_pendulum_that_goes_round():
    """A pendulum that a motor turns evenly about a tilted axis, and a slider beside it.

    Angles go on beyond a turn, distances of metres are not taken for angles, and the hinge carries
    the weight and the pull of the circle.
    """
    mass, arm, omega, gravity = 2.0, 0.5, 3.0, 9.81
    t = jnp.linspace(0.0, 5.0, 26)
    tilt = lie_jax.groups.quaternion.exp(jnp.asarray([0.3, -0.2, 0.5]))
    axis = lie_jax.groups.quaternion.rotate(tilt, jnp.asarray([0.0, 0.0, 1.0]))
    body = lie_jax.Body("pendulum", mass, np.diag([0.1, 0.1, 0.2]), center_of_mass=(arm, 0.0, 0.0))
    slider = lie_jax.Body("slider", 1.0, np.eye(3))
    hinge = lie_jax.RevoluteJoint("ground", "pendulum", axis, (1.0, 2.0, 3.0), orientation=tilt)
    joints = [
        lie_jax.PrismaticJoint("ground", "slider", (0.0, 0.0, 2.0), (0.0, 0.0, 1.0)),
        hinge,
        lie_jax.JointDriver(hinge, value=lambda t: omega * t),
    ]
    mechanism = lie_jax.Mechanism([body, slider], joints, gravity=(0.0, 0.0, -gravity))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    place = jnp.asarray([1.0, 2.0, 3.0])

    def motion(t):
        turn = lie_jax.groups.quaternion.exp(omega * t * axis)
        own = jnp.concatenate([place, lie_jax.groups.quaternion.multiply(turn, tilt)])
        return jnp.concatenate(
            [own, jnp.stack([0.0 * t, 0.0 * t, 1.0 + 9.0 * jnp.sin(t)]), state.q[10:]]
        )

    order = []

    @jax.jit
    def evaluated(t):
        q = jax.vmap(motion)(t)
        v = jnp.zeros(system.nv).at[5].set(omega)
        found = jax.vmap(lambda t, q: accelerations_and_multipliers(system, t, q, v))(t, q)
        order.extend(system.joint_coordinates(q[0]))
        rotation, _ = jax.vmap(system.poses)(q)
        rates = jnp.broadcast_to(v, (len(t), system.nv))
        return (
            rotation,
            system.joint_coordinates(q, rates, t),
            system.reactions(t, q, rates, *found),
        )

    rotation, coordinates, forces = evaluated(t)
    assert order == [("ground", "slider"), ("ground", "pendulum")]
    # JAX would return plain dictionaries in the order of their keys.
    assert list(coordinates) == order
    assert list(forces) == [*order, ("ground", "pendulum", 2)]
    assert_allclose(coordinates["ground", "pendulum"][:, 0], omega * t, atol=10 * ROUNDING)
    assert_allclose(coordinates["ground", "slider"][:, 0], 9.0 * jnp.sin(t), atol=10 * ROUNDING)
    hinge, motor = jax.tree.map(
        np.asarray, (forces["ground", "pendulum"], forces["ground", "pendulum", 2])
    )
    center, axis = arm * np.asarray(rotation[:, 0, :, 0]), np.asarray(axis)
    weight = np.asarray([0.0, 0.0, -mass * gravity])
    # The force turns the centre of mass on its circle. About the hinge the axis is one of the
    # principal ones: the torques only hold the weight, the motor its part about the axis.
    assert_allclose(hinge.force, -mass * omega**2 * center - weight, atol=REGULARISATION)
    assert_allclose(motor.force, np.zeros_like(center), atol=0.0)
    assert_allclose(hinge.torque + motor.torque, -np.cross(center, weight), atol=REGULARISATION)
    assert_allclose(hinge.torque @ axis, np.zeros(len(t)), atol=REGULARISATION)
    assert_allclose(motor.torque, np.outer(motor.torque @ axis, axis), atol=REGULARISATION)


@pytest.mark.parametrize(
    "formulation",
    cases([lie_jax.Minimal(), lie_jax.R3SO3()], [lie_jax.R3SO3()]),
    ids=repr,
)
def test_readings_have_the_order_of_the_mechanism_in_transformations(formulation):
    """Joints from the tip to the ground, one of which closes a loop."""
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in ("tip", "base", "middle")]
    ends = ("middle", "tip"), ("base", "middle"), ("ground", "tip"), ("ground", "base")
    joints = [lie_jax.RevoluteJoint(*pair, (0.0, 1.0, 0.0)) for pair in ends]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)

    def evaluated(t, q, v, multipliers):
        found = system.joint_coordinates(q), system.reactions(t, q, v, v, multipliers)
        return *found, system.powers(t, q, v, multipliers).joints

    rows = np.zeros(2), *(np.tile(x, (2, 1)) for x in (state.q, state.v, np.zeros(system.nc)))
    # Traced alone: nothing compiles.
    angles, reactions, powers = jax.eval_shape(jax.vmap(evaluated), *rows)
    along = jax.eval_shape(lambda t, q, v: system.joint_coordinates(q, v, t), *rows[:3])
    assert list(angles) == list(along) == list(reactions) == list(ends)
    assert list(powers) == [pair for pair in ends if pair in powers]
    assert powers


# A method of order 4 errs by some (ωh)⁴ωt/120 of the state: with ω = 6 rad/s, h = 1 ms and t = 1 s,
# 7e-11; forces of 10 N change with it by some ten times as much a metre.
FORCE_ERROR = 1e-8


def test_reactions_obey_newton():
    """Two swinging links on ball joints, whose frames are at their centres of mass."""
    system, state = double_pendulum.build()

    @jax.jit
    def evaluated(q, v):
        dv, multipliers = accelerations_and_multipliers(system, 0.0, q, v)
        return dv, system.reactions(0.0, q, v, dv, multipliers)

    dv, forces = evaluated(state.q, state.v)
    assert list(forces) == [("ground", "link 0"), ("link 0", "link 1")]
    free = np.asarray(dv).reshape(2, 6)[:, :3] - np.asarray(double_pendulum.GRAVITY)
    first, second = np.asarray(double_pendulum.MASS)[:, None] * free
    assert_allclose(forces["link 0", "link 1"].force, second, atol=REGULARISATION)
    assert_allclose(forces["ground", "link 0"].force, first + second, atol=REGULARISATION)
    for reaction in forces.values():
        # Ball joints have no torque about their points.
        assert_allclose(reaction.torque, np.zeros(3), atol=FORCE_ROUNDING)


@pytest.mark.full
def test_reactions_of_the_double_pendulum():
    """Against the reference solution; the parent feels the opposite of what the child does."""
    system, state = double_pendulum.build()
    # The run of test_models.py, compiled once for both.
    method = lie_jax.RKMK("rk4")
    run = lie_jax.simulate(system, method, state, dt=1e-3, steps=1000, save=1000)
    rows = run.t, run.q, run.v, run.acceleration, run.multipliers
    forces = jax.jit(lambda *rows: system.reactions(*rows))(*rows)
    assert set(forces) == {("ground", "link 0"), ("link 0", "link 1")}
    on_first, on_first_from_second = double_pendulum.REFERENCE_FORCES[1.0]
    assert_allclose(forces["ground", "link 0"].force[1], on_first, atol=FORCE_ERROR)
    pull = -forces["link 0", "link 1"].force[1]
    assert_allclose(pull, on_first_from_second, atol=FORCE_ERROR)
    for reaction in forces.values():
        # Ball joints have no torque about their points.
        assert_allclose(reaction.torque, np.zeros((2, 3)), atol=FORCE_ROUNDING)
    once = system.reactions(*(x[1] for x in rows))
    for name, reaction in once.items():
        assert_allclose(reaction.force, forces[name].force[1], atol=FORCE_ROUNDING)
