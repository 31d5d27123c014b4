"""Joints as constraints: their reactions, and motions that have a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import calculus
from tests import mechanisms

KINDS = (
    lie_jax.SphericalJoint,
    lie_jax.RevoluteJoint,
    lie_jax.PrismaticJoint,
    lie_jax.RigidJoint,
)
FORMULATIONS = {"R3SO3": lie_jax.R3SO3(), "SE3": lie_jax.SE3()}
# Rounding of products of a few numbers of the order one.
ROUNDING = 1e-13
# The same in accelerations, through the solution for the multipliers.
ACCELERATION_ROUNDING = 1e-12


def _joint(kind, parent, child, rng):
    numbers = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
    if kind is not lie_jax.SphericalJoint:
        numbers["orientation"] = lie_jax.quaternion.exp(jnp.asarray(rng.normal(size=3)))
    if kind in (lie_jax.RevoluteJoint, lie_jax.PrismaticJoint):
        numbers["axis"] = rng.normal(size=3)
    return kind(parent, child, **numbers)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_reactions_are_the_transposed_jacobian(name):
    """Next to poses that satisfy the joints and far from them; parents are bodies and ground."""
    rng = np.random.default_rng(8)
    joints = [_joint(kind, "a", "b", rng) for kind in KINDS]
    joints += [_joint(kind, "ground", "a", rng) for kind in KINDS]
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), FORMULATIONS[name])
    assert system.nc == 2 * (3 + 5 + 5 + 6)
    q = jax.vmap(system.space.retract, (None, 0))(state.q, jnp.asarray(rng.normal(size=(4, 12))))

    @jax.jit
    @jax.vmap
    def defect(q):
        t = jnp.zeros(())
        expected = calculus.jacobian_along(system.space, lambda q: system.constraint(t, q), q)
        return system.constraint_jacobian(t, q) - expected

    assert float(jnp.max(jnp.abs(defect(q)))) < ROUNDING


def test_constraints_hold_on_the_motions_that_joints_allow():
    """A forest with every kind of joint, moved joint by joint: constraints and their rates."""
    system, state = lie_jax.assemble(mechanisms.forest(), lie_jax.R3SO3())
    t = jnp.zeros(())

    @jax.jit
    def values(q, v):
        constraint = system.constraint(t, q)
        return constraint, calculus.time_derivative(system.space, system.constraint, t, q, v)

    for value in values(state.q, state.v):
        # Positions of a few metres, velocities of some ten.
        assert float(jnp.max(jnp.abs(value))) < 10 * ROUNDING


def _both_formulations(bodies, joints, gravity):
    """World accelerations (ṙ, body ω̇ of the last body) of one mechanism, as constraints and not."""
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=gravity)
    for formulation in (lie_jax.R3SO3(), lie_jax.Minimal()):
        system, state = lie_jax.assemble(mechanism, formulation)
        acceleration = jax.jit(lambda q, v, system=system: system.acceleration(0.0, q, v))
        yield system, np.asarray(acceleration(state.q, state.v))


def test_a_hinged_body_is_a_physical_pendulum():
    """About a tilted axis: φ̈ = -m |c| g cos(tilt) sin φ / J, for the axis through the pivot."""
    mass, moment, length, tilt, angle, gravity = 2.0, 0.7, 0.4, 0.3, 0.8, 9.81
    axis = jnp.asarray([0.0, np.cos(tilt), np.sin(tilt)])
    turn = lie_jax.quaternion.exp(angle * axis)
    # The centre of mass hangs across the axis, in the vertical plane that holds the axis.
    center = jnp.asarray([0.0, length * np.sin(tilt), -length * np.cos(tilt)])
    inertia = moment * np.eye(3)
    body = lie_jax.Body("b", mass, inertia, center_of_mass=center, orientation=turn)
    joint = lie_jax.RevoluteJoint("ground", "b", 5.0 * axis)
    own = moment + mass * length**2
    expected = -mass * length * gravity * np.cos(tilt) * np.sin(angle) / own
    (_, constrained), (system, free) = _both_formulations([body], [joint], (0.0, 0.0, -gravity))
    assert system.nv == 1
    assert_allclose(free, [expected], rtol=ACCELERATION_ROUNDING)
    assert_allclose(constrained[3:], expected * axis, atol=ACCELERATION_ROUNDING)


def test_a_slider_falls_along_its_axis():
    axis = np.asarray([0.6, 0.0, -0.8])
    orientation = lie_jax.quaternion.exp(jnp.asarray([0.3, -0.5, 0.2]))
    body = lie_jax.Body("b", 3.0, np.eye(3), (0.1, 0.2, 0.3), orientation=orientation)
    joint = lie_jax.PrismaticJoint("ground", "b", axis, orientation=orientation)
    (_, constrained), (_, free) = _both_formulations([body], [joint], (0.0, 0.0, -10.0))
    assert_allclose(free, [8.0], rtol=ACCELERATION_ROUNDING)
    assert_allclose(constrained, [*(8.0 * axis), 0.0, 0.0, 0.0], atol=10 * ACCELERATION_ROUNDING)


def test_welded_bodies_move_as_one():
    """A dumbbell of two welded bodies: Euler's equations of the whole, about its centre of mass."""
    omega = np.asarray([0.3, -0.7, 1.1])
    ends = np.asarray([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    center = ends.mean(axis=0)
    bodies = [
        lie_jax.Body(
            name, 1.5, 0.2 * np.eye(3), position=end, omega_body=omega,
            velocity=np.cross(omega, end - center),
        )
        for name, end in zip("ab", ends, strict=True)
    ]  # fmt: skip
    joint = lie_jax.RigidJoint("a", "b", ends[1])
    across = 2 * 0.2 + 2 * 1.5 * 1.0
    whole = np.diag([across, across, 2 * 0.2])
    domega = -np.linalg.solve(whole, np.cross(omega, whole @ omega))
    arm = ends[1] - center
    linear = np.cross(domega, arm) + np.cross(omega, np.cross(omega, arm))
    (_, constrained), (system, free) = _both_formulations(bodies, [joint], np.zeros(3))
    assert_allclose(constrained[6:], [*linear, *domega], atol=10 * ACCELERATION_ROUNDING)
    assert system.nv == 6
    assert_allclose(free[3:], domega, atol=ACCELERATION_ROUNDING)


def test_multipliers_are_forces_and_torques():
    """A body welded to the ground: the weight, and its moment about the frame's origin."""
    body = lie_jax.Body("b", 2.0, np.eye(3), center_of_mass=(0.5, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([body], [lie_jax.RigidJoint("ground", "b")])
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    trajectory = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-2, steps=1)
    weight = 2.0 * 9.81
    expected = [0.0, 0.0, -weight, 0.0, 0.5 * weight, 0.0]
    assert_allclose(trajectory.multipliers[0], expected, atol=1e-11)
