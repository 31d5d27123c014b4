"""Equations of motion of free and joined bodies agree with derivatives and other codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.groups import so3
from lie_jax.mechanics import body as rigid
from lie_jax.numerics import small
from lie_jax.spaces import derivatives as calculus
from tests import golden, mechanisms
from tests.suites import cases

FORMULATIONS = {
    "R3SO3 quaternion": lie_jax.R3SO3(),
    "R3SO3 rotation vector": lie_jax.R3SO3(coordinates="rotation_vector"),
    "SE3 quaternion": lie_jax.SE3(),
    "SE3 rotation vector": lie_jax.SE3(coordinates="rotation_vector"),
}
# Rounding in forces of some hundred newtons.
FORCE_ROUNDING = 1e-11
T = 0.4


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_closed_forms_against_automatic_derivatives(name):
    system, state = mechanisms.two_bodies(FORMULATIONS[name])
    space = system.space
    rng = np.random.default_rng(2)
    a, multipliers = jnp.asarray(rng.normal(size=12)), jnp.asarray(rng.normal(size=6))

    @jax.jit
    def residuals(q, v):
        mass_matrix = system.mass_matrix(q)
        t = jnp.asarray(T)
        b = system.constraint_jacobian(t, q)
        force = system.force(t, q, v)

        def energy_rate(q, v, a):
            """Rate of kinetic and potential energy on a motion with acceleration a."""

            def energy(q, v):
                return system.kinetic_energy(q, v) + system.potential_energy(q)

            return jax.jvp(energy, (q, v), (space.lift(q, v), a))[1]

        # The only forces that are not in the energy: friction between the bodies, and the push.
        free = jnp.linalg.solve(mass_matrix, force)
        rotation, _ = system.poses(q)
        omega = [rotation[i] @ v[6 * i + 3 : 6 * i + 6] for i in (0, 1)]
        friction = -0.7 * jnp.sum((omega[1] - omega[0]) ** 2)

        def pushed_point(q):
            rotation, position = system.poses(q)
            return position[1] + rotation[1] @ jnp.asarray([0.1, -0.2, 0.4])

        push = mechanisms.pushed(t) @ calculus.derivative_along(space, pushed_point, q, v)
        return {
            "kinetic energy is half v M v": system.kinetic_energy(q, v) - 0.5 * v @ mass_matrix @ v,
            "mass matrix is the Hessian": mass_matrix
            - jax.hessian(lambda v: system.kinetic_energy(q, v))(v),
            "constraint Jacobian": b
            - calculus.jacobian_along(space, lambda q: system.constraint(t, q), q),
            "residual": system.residual(t, q, v, a, multipliers)
            - (mass_matrix @ a + b.T @ multipliers - force),
            "power balance": energy_rate(q, v, free) - friction - push,
            "momentum is the derivative of kinetic energy": sum(system.momentum(q, v)[0])
            - sum(
                jax.grad(
                    lambda s: system.kinetic_energy(q, v + _translation(system, q, s * jnp.ones(3)))
                )(0.0)[None]
            ),
        }

    for rule, value in residuals(state.q, state.v).items():
        assert np.max(np.abs(value)) < FORCE_ROUNDING, rule


def _translation(system, q, velocity):
    """Velocities of a common translation of all bodies."""
    rotation, _ = system.poses(q)
    each = q.reshape(2, -1)
    own = [
        system.formulation.velocity(r, q, velocity, jnp.zeros(3))
        for r, q in zip(rotation, each, strict=True)
    ]
    return jnp.concatenate(own)


def test_twists_are_body_fixed():
    system, state = mechanisms.two_bodies(lie_jax.R3SO3())
    (rotation, _), twists = jax.tree.map(
        np.asarray, jax.jit(lambda q, v: (system.poses(q), system.twists(q, v)))(state.q, state.v)
    )
    v = np.asarray(state.v)
    assert_allclose(rotation[1] @ twists[1, :3], v[6:9], atol=1e-14)
    assert_allclose(twists[1, 3:], v[9:], atol=1e-14)


def test_free_bodies_obey_newton_and_euler():
    """Closed-form accelerations of a body without joints against the dense mass matrix."""
    rng = np.random.default_rng(4)
    body = lie_jax.Body(
        "b", 2.0, mechanisms.inertia(rng), (0.1, 0.2, -0.3), omega_body=(1.0, -2.0, 3.0),
        velocity=(0.3, 0.2, 0.1), orientation=mechanisms.quaternion([0.4, 1.0, 2.0]),
    )  # fmt: skip
    mechanism = lie_jax.Mechanism([body], forces=[lie_jax.PointForce("b", (3.0, 1.0, 2.0))])
    systems = [lie_jax.assemble(mechanism, f) for f in (lie_jax.R3SO3(), lie_jax.SE3())]

    def evaluated(system, state):
        t, q, v = jnp.asarray(T), state.q, state.v
        dense = jnp.linalg.solve(system.mass_matrix(q), system.force(t, q, v))
        left = system.residual(t, q, v, dense, jnp.zeros(0))
        return system.acceleration(t, q, v), dense, left

    for acceleration, dense, left in jax.jit(lambda pairs: [evaluated(*p) for p in pairs])(systems):
        assert_allclose(acceleration, dense, atol=1e-12)
        assert_allclose(left, np.zeros(6), atol=FORCE_ROUNDING)


def test_chain_of_six_links_has_the_accelerations_of_other_codes():
    """MuJoCo and Pinocchio agree on these relative angular accelerations."""
    case = golden.SIMULATORS["chain6_ball"]
    relative = np.linspace(0.3, -0.4, 18).reshape(6, 3)
    system, state = mechanisms.ball_chain(lie_jax.R3SO3(), relative)
    a = jax.jit(lambda q, v: system.acceleration(0.0, q, v))(state.q, state.v)
    a = np.asarray(a).reshape(6, 6)[:, 3:]
    omega = np.cumsum(relative, axis=0)
    above = np.concatenate([np.zeros((1, 3)), omega[:-1]])
    change = np.diff(np.concatenate([np.zeros((1, 3)), a]), axis=0)
    # From absolute to relative: all frames are parallel at the start.
    got = change + np.cross(relative, above)
    # The reference is printed with 12 decimals.
    assert_allclose(got.ravel(), case["qacc0"], atol=2e-12)


def test_inertia_about_another_point():
    rng = np.random.default_rng(6)
    inertia, c, mass = jnp.asarray(mechanisms.inertia(rng)), jnp.asarray([0.3, -0.1, 0.7]), 2.5
    expected = inertia - mass * so3.hat(c) @ so3.hat(c)
    assert_allclose(rigid.inertia_about_origin(jnp.asarray(mass), inertia, c), expected)
    assert_allclose(small.inverse(inertia), jnp.linalg.inv(inertia))


# Rounding of float32 in a dozen operations of numbers of one size.
SINGLE = 30 * float(jnp.finfo(jnp.float32).eps)


@pytest.mark.full
def test_small_and_large_inertias_turn_rightly_in_single_precision():
    """Products of three entries leave the range of float32 from 1e-13 kg m² down."""
    shape, omega = np.diag([1.0, 1.5, 2.0]), np.asarray([1.0, 2.0, 3.0])
    expected = -np.cross(omega, shape @ omega) / np.diagonal(shape)

    def turned(inertia, omega):
        none = jnp.zeros_like(omega)
        body = rigid.MassProperties(jnp.ones((), omega.dtype), inertia, none)
        return rigid.forward_dynamics(body, jnp.eye(3, dtype=omega.dtype), omega, none, none)[1]

    derivatives = [jax.jit(d(turned)) for d in (jax.jacrev, jax.jacfwd)]
    exact, acceleration = derivatives[0](shape, omega), jax.jit(turned)
    for size in (3e-13, 1e-13, 1e-20, 1e30):
        single = (size * shape).astype(np.float32), omega.astype(np.float32)
        assert_allclose(acceleration(*single), expected, rtol=SINGLE)
        # Derivatives by the inertia are of the size of its inverse.
        for derivative in derivatives:
            slope = np.asarray(derivative(*single), float)
            assert_allclose(slope * size, exact, rtol=SINGLE, atol=SINGLE)


@pytest.mark.full
def test_inverses_of_blocks_do_not_underflow_in_single_precision():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3):
        a = rng.normal(size=(n, n))
        a = (a @ a.T + np.eye(n))[:, :, None]
        got = small.inverse(jnp.asarray(1e-20 * a, jnp.float32))
        expected = np.linalg.inv(a[:, :, 0]) * 1e20
        assert_allclose(got[:, :, 0], expected, rtol=SINGLE, atol=SINGLE * np.abs(expected).max())


def test_elements_of_one_kind_are_stored_together():
    system, _ = mechanisms.ball_chain(lie_jax.R3SO3(), np.zeros((5, 3)))
    assert [group.count for group in system.joints] == [5]
    assert system.joints[0].bodies == ((-1, 0, 1, 2, 3), (0, 1, 2, 3, 4))
    assert (system.nq, system.nv, system.nc) == (35, 30, 15)


def test_projection_reaches_the_constraints_and_stays_near():
    system, state = mechanisms.two_bodies(lie_jax.R3SO3())
    project = jax.jit(lie_jax.project)
    projected = project(system, state)
    left, jacobian = jax.jit(
        lambda q: (system.constraint(0.0, q), system.constraint_jacobian(0.0, q))
    )(projected.q)
    assert np.max(np.abs(left)) < 1e-13
    assert np.max(np.abs(jacobian @ np.asarray(projected.v))) < 1e-12
    again = project(system, projected)
    assert_allclose(again.q, projected.q, atol=1e-12)
    assert_allclose(again.v, projected.v, atol=1e-12)


# `make test` has types of results, without their values.
@pytest.mark.full
def test_float32_mechanics_stay_float32():
    system, state = jax.tree.map(
        lambda x: x.astype(jnp.float32), mechanisms.two_bodies(lie_jax.SE3())
    )
    double, double_state = mechanisms.two_bodies(lie_jax.SE3())
    t = jnp.zeros((), jnp.float32)
    accelerations = jax.jit(lambda system, *a: system.acceleration(*a))
    got = accelerations(system, t, state.q, state.v)
    assert got.dtype == jnp.float32
    expected = accelerations(double, jnp.zeros(()), double_state.q, double_state.v)
    # The condition of the equations of motion amplifies single-precision rounding (1e-7).
    assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
