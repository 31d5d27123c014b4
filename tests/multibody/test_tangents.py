"""Tangent stiffness and damping, internal forces, and whose an equation is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.spaces.base import Rn
from models import (
    chain,
    double_pendulum,
    follower_torque,
    free_body,
    heavy_top,
    pinned_body,
    rotor,
    three_bodies,
)
from tests import mechanisms
from tests.suites import cases

# Models are in R3SO3, the mechanism with many kinds of elements in SE3 with rotation vectors.
FORMULATIONS = {
    "R3SO3 rotation vector": lie_jax.R3SO3(coordinates="rotation_vector"),
    "SE3": lie_jax.SE3(),
    "unified velocities": lie_jax.UnifiedVelocity(),
    "angles": lie_jax.TaitBryan(),
    "Euler parameters": lie_jax.EulerParameters(),
}
MODELS = {
    "chain": chain.build,
    "double pendulum": double_pendulum.build,
    "follower torque": follower_torque.build,
    "free body": free_body.build,
    "heavy top": heavy_top.build,
    "pinned body": lambda: pinned_body.build(
        constrained=True,
        center_of_mass=(0.02, -0.03, 0.2),
        inertia=np.diag([0.03, 0.04, 0.025]),
        friction=0.02,
        orientation=(1.0, 0.0, 0.0, 0.0),
        omega_body=(1.0, -2.0, 5.0),
    ),
    "rotor": rotor.build,
    "three bodies": lambda: three_bodies.build(lie_jax.R3SO3()),
}
# Rounding in sums of some hundred products, relative to the largest entry.
ROUNDING = 1e-13
# The same in single precision.
SINGLE_ROUNDING = 1e-5
T = 0.4


def _ball_joints(formulation):
    """Bodies on ball joints with friction between them, and no force that is given."""
    system, state = mechanisms.two_bodies(formulation)
    friction = [group for group in system.forces if not group.element.is_load]
    assert len(friction) == 1
    return dataclasses.replace(system, forces=tuple(friction)), state


def _many_kinds():
    """Three bodies in a loop, joints and forces of several kinds, far from where joints hold."""
    rng = np.random.default_rng(3)
    points = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
    axes = {"axis": rng.normal(size=3), "child_axis": rng.normal(size=3)}
    joints = [
        lie_jax.RevoluteJoint("ground", "a", axes["axis"], **points),
        lie_jax.RevoluteJoint("b", "a", axes["child_axis"]),
        lie_jax.PrismaticJoint("b", "c", axes["axis"], **points),
        lie_jax.UniversalJoint("c", "a", **axes, **points),
    ]
    forces = [
        lie_jax.LinearSpringDamper("a", "b", 90.0, 4.0, 0.7, **points),
        lie_jax.LinearSpringDamper("c", "ground", 20.0, 7.0, 0.2, **points),
        lie_jax.JointSpring(joints[1], stiffness=30.0, damping=2.0, relaxed=0.3),
    ]
    mechanism = lie_jax.Mechanism(
        [mechanisms.random_body(name, rng) for name in "abc"], joints, forces
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3(coordinates="rotation_vector"))


def _point(system, state):
    """q, v, v̇ and λ at which nothing vanishes; Euler parameters are off their norm."""
    rng = np.random.default_rng(11)
    scale = 1.05 if isinstance(system.formulation, lie_jax.EulerParameters) else 1.0
    q, v = scale * np.asarray(state.q), np.asarray(state.v)
    rates, acceleration = rng.normal(size=(2, system.nv))
    return tuple(map(jnp.asarray, (q, v + rates, acceleration, rng.normal(size=system.nc))))


def _compiled(function, *arguments):
    # What runs once is not worth the optimisation of its code, a third of the time.
    return jax.jit(function)(*arguments)


def _assembled(system, q, v, *rest):
    """Stiffness and damping (2, nv, nv)."""
    matrices = system.linearization(T, q, v, *rest, None).dense()
    return jnp.stack([matrices.stiffness, matrices.damping])


def _derivatives(system, q, v, *rest):
    """The same by derivatives of the whole residual."""

    def residual(q, v):
        return system.residual(T, q, v, *rest, None)

    def column(direction):
        along, rate = jnp.split(direction, 2)
        return jax.jvp(residual, (q, v), (system.space.lift(q, along), rate))[1]

    both = jax.vmap(column)(jnp.eye(2 * system.nv))
    return both.reshape(2, system.nv, system.nv).swapaxes(1, 2)


def _assert_alike(system, state):
    got, expected = _compiled(
        lambda *point: (_assembled(system, *point), _derivatives(system, *point)),
        *_point(system, state),
    )
    for a, b in zip(got, expected, strict=True):
        assert_allclose(a, b, rtol=0, atol=ROUNDING * np.max(np.abs(b)))
    return got


@pytest.mark.parametrize("name", cases(FORMULATIONS, ["Euler parameters"]))
def test_assembled_matrices_are_derivatives_of_the_residual(name):
    matrices = _assert_alike(*_ball_joints(FORMULATIONS[name]))
    # Neither matrix is that of bodies alone: blocks that couple the two are there.
    half = matrices.shape[1] // 2
    for matrix in matrices:
        assert np.max(np.abs(matrix[:half, half:])) > 0.1


@pytest.mark.full
def test_matrices_in_single_precision():
    system, state = MODELS["pinned body"]()
    point = _point(system, state)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (system, point))
    got, expected = (
        _compiled(lambda *point, system=system: _assembled(system, *point), *point)
        for system, point in (single, (system, point))
    )
    assert got.dtype == jnp.float32
    for a, b in zip(got, expected, strict=True):
        assert_allclose(a, b, rtol=0, atol=SINGLE_ROUNDING * np.max(np.abs(b)))


def test_matrices_stay_in_single_precision():
    system, state = MODELS["pinned body"]()
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (system, _point(system, state)))
    matrices = jax.eval_shape(lambda system, point: _assembled(system, *point), *single)
    assert matrices.dtype == jnp.float32


# `make test` has K of each joint against its inherited derivatives; forces share one rule.
@pytest.mark.full
def test_matrices_of_joints_and_forces_of_many_kinds():
    stiffness, damping = _assert_alike(*_many_kinds())
    assert np.all(np.max(np.abs(stiffness), axis=(0, 1)) > 0.1)
    assert np.all(np.max(np.abs(damping), axis=(0, 1)) > 0.1)


@pytest.mark.parametrize("name", cases(MODELS, []))
def test_matrices_of_models(name):
    _assert_alike(*MODELS[name]())


def _by_parts(system, *point):
    """Stiffness and damping of a linearization that gives M + d C + k K alone."""
    combined, along = system.linearization(T, *point, None).dense().combined, jnp.eye(system.nv)
    mass = combined(along, 0.0, 0.0)
    return combined(along, 1.0, 0.0) - mass, combined(along, 0.0, 1.0) - mass


class _Pendulum(lie_jax.extend.AbstractSystem):
    """A system of a user: φ̈ + d φ̇² + s sin φ = 0 with the constraint φ² = 1."""

    @property
    def space(self):
        return Rn(1)

    @property
    def nc(self):
        return 1

    def mass_matrix(self, q):
        return jnp.cos(q)[None]

    def force(self, t, q, v, u):
        return -3.0 * v**2 - 5.0 * jnp.sin(q)

    def constraint(self, t, q):
        return q**2 - 1.0


def test_systems_of_users_have_matrices():
    """By the default: K = 5 cos φ - φ̈ sin φ + 2 λ and C = 6 φ̇."""
    q, v, acceleration, multiplier = jnp.asarray([[0.3], [0.7], [2.0], [-4.0]])
    stiffness, damping = jax.jit(lambda *point: _by_parts(_Pendulum(), *point))(
        q, v, acceleration, multiplier
    )
    expected = 5.0 * np.cos(0.3) - 2.0 * np.sin(0.3) - 8.0
    assert_allclose(stiffness, [[expected]], rtol=ROUNDING)
    assert_allclose(damping, [[4.2]], rtol=ROUNDING)


# Forces that are given and one that is not, on bodies whose joints are hinges and a ball joint, one
# of them listed from the far to the near body, with frames that coincide at the start.
PUSH, POINT, TORQUE = (1.0, 2.0, -3.0), (0.3, 0.1, 0.0), (0.5, 2.0, -1.0)
GRAVITY = (0.3, -0.2, -9.81)
FREE = lie_jax.Mechanism(
    [
        lie_jax.Body(
            name,
            mass,
            np.diag([0.2, 0.3, 0.4]),
            center_of_mass=(0.1, -0.2, mass),
            omega_body=(0.4, -0.1, 0.7),
        )
        for name, mass in (("base", 1.0), ("rod", 2.0), ("disc", 0.5))
    ],
    [lie_jax.RevoluteJoint("rod", "disc", (0, 0, 1)), lie_jax.SphericalJoint("base", "disc")],
    [
        lie_jax.PointForce("rod", PUSH, point=POINT),
        lie_jax.Torque("disc", TORQUE),
        lie_jax.ViscousFriction("base", "disc", 0.3),
    ],
    GRAVITY,
)


@pytest.mark.parametrize(
    "formulation",
    [lie_jax.R3SO3(), pytest.param(lie_jax.Minimal(), marks=pytest.mark.full)],
    ids=lambda f: type(f).__name__,
)
def test_what_loads_add_is_their_power(formulation):
    """What is missing does the work of gravity, the given force and the given torque."""
    system, state = lie_jax.assemble(FREE, formulation)
    directions = jnp.eye(system.nv)

    def all_of(q, v):
        unloaded = system.under_loads(jnp.zeros(()))
        loads = system.force(T, q, v, None) - unloaded.force(T, q, v, None)
        return loads, system.poses(q)[0], jax.vmap(system.twists, (None, 0))(q, directions)

    loads, rotation, twists = jax.tree.map(np.asarray, _compiled(all_of, state.q, state.v))

    def moves(body, point):
        """Inertial velocity of a point for each direction."""
        return (twists[:, body, :3] + np.cross(twists[:, body, 3:], point)) @ rotation[body].T

    power = moves(1, POINT) @ np.asarray(PUSH)
    power = power + twists[:, 2, 3:] @ rotation[2].T @ np.asarray(TORQUE)
    for i, body in enumerate(FREE.bodies):
        weight = body.mass * np.asarray(GRAVITY)
        power = power + moves(i, np.asarray(body.center_of_mass)) @ weight
    assert_allclose(loads, power, rtol=0, atol=ROUNDING * np.max(np.abs(power)))


def test_owners_of_equations():
    system, _ = lie_jax.assemble(FREE, lie_jax.EulerParameters())
    assert [system.owner(i) for i in (0, 6, 7, 20)] == [
        *("body 'base'", "body 'base'", "body 'rod'", "body 'disc'")
    ]
    hinge, ball = "RevoluteJoint('rod', 'disc')", "SphericalJoint('base', 'disc')"
    constraints = [system.owner(system.nv + i) for i in range(system.nc)]
    assert constraints[:8] == 5 * [hinge] + 3 * [ball]
    assert constraints[8:] == [f"the coordinates of {system.owner(7 * k)}" for k in range(3)]
    # The base is the first body that is no joint's child; the hinge leads back to the rod.
    tree, _ = lie_jax.assemble(FREE, lie_jax.Minimal())
    assert [tree.owner(i) for i in range(tree.nv)] == 6 * ["body 'base'"] + [hinge] + 3 * [ball]
    stacked, _ = chain.build(n=3)
    assert stacked.owner(stacked.nv) == "SphericalJoint('ground', 'link 0')"
    assert stacked.owner(stacked.nv + 8) == "SphericalJoint('link 1', 'link 2')"
