"""Matrices M, K and C of trees by composite bodies are derivatives of the residual."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.multibody.minimal import linearization
from lie_jax.systems.system import AbstractSystem
from tests import mechanisms

# Rounding in sums of some hundred products, relative to the largest entry.
ROUNDING = 1e-13
SINGLE_ROUNDING = 1e-4
T = 0.4
# Factors of K and C in a step's matrix.
STIFFNESS, DAMPING = 0.3, 0.7
# Two neighbours, and two bodies far apart: forces act between each two.
MECHANISMS = {
    "single joints": (mechanisms.forest, ("upper arm", "hand"), ("toe", "mast")),
    "joints of several numbers": (mechanisms.compound_forest, ("mast", "plate"), ("wheel", "mast")),
}


def _forces(near, far):
    """One of each kind between two neighbours, two bodies far apart, and a body and the ground."""
    rng = np.random.default_rng(4)
    forces = []
    for parent, child in (near, far, ("ground", far[0])):
        points = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
        axis, orientation = rng.normal(size=3), mechanisms.quaternion(rng.normal(size=3))
        forces += [
            lie_jax.LinearSpringDamper(parent, child, 9.0, 0.4, 0.7, **points),
            lie_jax.CartesianSpringDamper(
                parent, child, (3.0, 4.0, 5.0), (1.0, 2.0, 3.0), **points
            ),
            lie_jax.Bushing(
                parent, child, (1.0, 2.0, 3.0), (0.2, 0.1, 0.3), (0.1, 0.2, 0.3), (0.3, 0.1, 0.2),
                orientation=orientation, **points,
            ),
            lie_jax.RevoluteBushing(
                parent, child, axis, (1.0, 2.0, 3.0), 0.4, (0.1, 0.2, 0.3), 0.3, **points
            ),
            lie_jax.ViscousFriction(parent, child, 0.6),
        ]  # fmt: skip
    load = (1.0, -2.0, 0.5)
    return [
        *forces,
        lie_jax.PointForce(near[1], load, point=load, frame="body"),
        lie_jax.Torque(near[1], load),
    ]


def _along(joints):
    """A spring along each coordinate, and a motor or a controller."""
    coordinates = [(joint, k) for joint in joints for k in range(len(joint.coordinate_units))]
    forces, gains = [], {"proportional": 6.0, "derivative": 0.8}
    for number, along in enumerate(coordinates):
        forces.append(lie_jax.JointSpring(*along, stiffness=3.0, damping=0.2, relaxed=0.3))
        if number % 2:
            forces.append(lie_jax.JointMotor(*along, input=number // 2 % 2))
        else:
            forces.append(lie_jax.JointController(*along, reference=0.2, **gains))
    return forces


def _fields(joint):
    return {field.name for field in dataclasses.fields(joint) if field.init}


def _assembled(name):
    """The system with armatures and forces, and its state."""
    build, near, far = MECHANISMS[name]
    mechanism = build()
    joints = [
        dataclasses.replace(joint, armature=0.3) if "armature" in _fields(joint) else joint
        for joint in mechanism.joints
    ]
    whole = dataclasses.replace(
        mechanism,
        joints=joints,
        forces=[*mechanism.forces, *_forces(near, far), *_along(joints)],
    )
    return lie_jax.assemble(whole, lie_jax.Minimal())


def _matrices(linear, x):
    """M, C, K and the residual, and a step's matrix at local coordinates x."""
    dense, unit = linear.dense(), jnp.eye(len(linear.residual), dtype=linear.residual.dtype)
    mass, *both = (dense.combined(unit, *pair) for pair in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)))
    step = linear.step_matrix(x, STIFFNESS, DAMPING).entries
    return [mass, *(part - mass for part in both), linear.residual, step]


def _points(system, state):
    """Configurations, velocities, accelerations and increments: at rest, slow and fast."""
    rng = np.random.default_rng(11)
    away, accelerations, x = rng.normal(size=(3, 3, system.nv))
    v = np.asarray([[0.0], [1.0], [30.0]]) * rng.normal(size=(3, system.nv))
    q = jax.vmap(system.space.retract, (None, 0))(state.q, 0.5 * away)
    return tuple(map(jnp.asarray, (q, v, accelerations, 0.4 * x)))


@pytest.mark.full
def test_a_step_has_the_matrix_of_derivatives_of_the_residual():
    """On a branch with a joint of each kind, in motion."""
    system, state = lie_jax.assemble(mechanisms.branch(), lie_jax.Minimal())
    rng = np.random.default_rng(3)
    v, acceleration, x = map(jnp.asarray, rng.normal(size=(3, system.nv)))
    q = system.space.retract(state.q, 0.3 * v)

    @jax.jit
    def both(q, v, acceleration, x):
        point = jnp.asarray(T), q, v, acceleration, jnp.zeros(0), None
        ways = system.linearization(*point), AbstractSystem.linearization(system, *point)
        return [way.step_matrix(x, STIFFNESS, DAMPING).entries for way in ways]

    got, expected = both(q, v, acceleration, 0.4 * x)
    assert_allclose(got, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.full
@pytest.mark.parametrize("name", MECHANISMS)
def test_matrices_are_derivatives_of_the_residual(name):
    system, state = _assembled(name)
    u = jnp.asarray([0.7, -0.4])

    def both(system, q, v, acceleration, x):
        point = (
            jnp.asarray(T, q.dtype),
            q,
            v,
            acceleration,
            jnp.zeros(0, q.dtype),
            u.astype(q.dtype),
        )
        ways = system.linearization, lambda *point: AbstractSystem.linearization(system, *point)
        return [_matrices(way(*point), x) for way in ways]

    evaluated = jax.jit(jax.vmap(both, (None, 0, 0, 0, 0)))
    points = _points(system, state)
    got, expected = evaluated(system, *points)
    for a, b in zip(got, expected, strict=True):
        size = np.max(np.abs(b), axis=tuple(range(1, b.ndim)), keepdims=True)
        assert np.all(size > 0.1)
        assert np.all(np.abs(a - b) <= ROUNDING * size)
    single = jax.tree.map(
        lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x,
        (system, *points),
    )
    for a, b in zip(evaluated(*single)[0], got, strict=True):
        assert a.dtype == jnp.float32
        assert_allclose(a, b, rtol=0, atol=SINGLE_ROUNDING * np.max(np.abs(b)))


def test_frames_and_velocities_of_a_mesh_are_paired_once(monkeypatch):
    """Searches for each pair took minutes for the free nodes of a shell of 40 elements."""
    nodes = np.asarray([[i, j, 0.0] for i in range(4) for j in range(3)])
    first = np.asarray([3 * i + j for i in range(3) for j in range(2)])
    quads = np.stack([first, first + 3, first + 4, first + 1], axis=1)
    sheet = lie_jax.shells.surface("s", (nodes, quads), 0.01, 1e7, 0.3, 1e3)
    mechanism = lie_jax.Mechanism(sheet.nodes, forces=sheet.elements)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    searches = []
    before = linearization._before
    monkeypatch.setattr(
        linearization, "_before", lambda *given: (searches.append(given), before(*given))[1]
    )
    linearization._movers.cache_clear()
    still = jnp.zeros(system.nv)
    jax.eval_shape(
        lambda q: system.linearization(T, q, still, still, jnp.zeros(0), None).dense().stiffness,
        state.q,
    )
    assert len(searches) == len(nodes)
