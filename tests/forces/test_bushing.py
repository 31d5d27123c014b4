"""Bushings: their potential, the power of their dampers, and oscillations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.spaces import derivatives as calculus
from tests import mechanisms
from tests.suites import cases

# Rounding in forces of some hundred newtons.
FORCE_ROUNDING = 1e-11
T = 0.4


def _semidefinite(rng, size):
    root = rng.normal(size=(3, 3))
    return size * root @ root.T


def _bushing(parent, child, rng, **dampers):
    return lie_jax.Bushing(
        parent,
        child,
        _semidefinite(rng, 30.0),
        _semidefinite(rng, 5.0),
        parent_point=rng.normal(size=3),
        child_point=rng.normal(size=3),
        orientation=lie_jax.groups.quaternion.exp(jnp.asarray(0.3 * rng.normal(size=3))),
        **dampers,
    )


def _two_bodies(forces, rng, formulation):
    bodies = [mechanisms.random_body(name, rng, turn=0.5) for name in "ab"]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, (), forces), formulation)


# `make test` has the potential with those of the other springs, and the dampers at rest.
@pytest.mark.full
def test_springs_are_gradients_and_dampers_take_energy():
    """Between two bodies and to the ground; power against that of the damper from its definition.

    Momenta tell that what acts on the parent is opposite, at the same place.
    """
    rng = np.random.default_rng(3)
    damping, rotational = _semidefinite(rng, 2.0), _semidefinite(rng, 0.5)
    inner = _bushing("a", "b", rng, damping=damping, rotational_damping=rotational)
    outer = _bushing("ground", "a", rng)
    system, state = _two_bodies([inner], rng, lie_jax.SE3())
    held, _ = _two_bodies([inner, outer], rng, lie_jax.SE3())
    q = jax.jit(jax.vmap(system.space.retract, (None, 0)))(
        state.q, jnp.asarray(0.5 * rng.normal(size=(4, 12))).at[0].set(0.0)
    )

    @jax.jit
    @jax.vmap
    def defects(q):
        v = state.v
        gradient = calculus.jacobian_along(held.space, held.potential_energy, q)
        dv = system.acceleration(T, q, v)

        def along_motion(function):
            return jax.jvp(function, (q, v), (system.space.lift(q, v), dv))[1]

        def seen_from_parent(q):
            rotation, position = system.poses(q)
            ends = [
                position[i] + rotation[i] @ point
                for i, point in enumerate((inner.parent_point, inner.child_point))
            ]
            return rotation[0].T @ (ends[1] - ends[0]), rotation[0].T @ rotation[1]

        (_, turn), (rate, turning) = jax.jvp(seen_from_parent, (q,), (system.space.lift(q, v),))
        omega = lie_jax.groups.so3.vee(turning @ turn.T)
        dissipated = rate @ damping @ rate + omega @ rotational @ omega
        energy = along_motion(lambda q, v: system.kinetic_energy(q, v) + system.potential_energy(q))
        linear, angular = along_motion(system.momentum)
        mass, weight = system.bodies.mass, system.gravity
        rotation, position = system.poses(q)
        center = position + jnp.einsum("nij,nj->ni", rotation, system.bodies.center_of_mass)
        moment = jnp.sum(mass[:, None] * jnp.cross(center, weight[None]), axis=0)
        return {
            "gradient": held.force(T, q, jnp.zeros(12)) + gradient,
            "energy": energy + dissipated,
            "linear momentum": linear - jnp.sum(mass) * weight,
            "angular momentum": angular - moment,
        }, gradient

    values, gradient = defects(q)
    assert float(jnp.max(jnp.abs(gradient))) > 100.0
    for rule, value in values.items():
        assert float(jnp.max(jnp.abs(value))) < FORCE_ROUNDING, rule


@pytest.mark.parametrize("order", cases([1, 2], [1]))
def test_a_body_on_a_bushing_is_six_oscillators(order):
    """At rest and next to it: accelerations of -K/m, -C/J, -D/m and -B/J, also by second order."""
    k, c, d, b = (np.asarray(x) for x in ((40, 50, 60), (3, 4, 5), (0.1, 0.2, 0.3), (0.4, 0.5, 1)))
    mass, moments = 2.0, np.asarray([0.3, 0.4, 0.5])
    home = lie_jax.groups.quaternion.exp(jnp.asarray([0.4, -0.2, 0.7]))
    axes = np.asarray(lie_jax.groups.quaternion.to_matrix(home))
    inertia = axes.T @ np.diag(moments) @ axes
    support = lie_jax.Bushing("ground", "b", k, c, d, b, orientation=home)
    body = lie_jax.Body("b", mass, inertia, orientation=home)
    mechanism = lie_jax.Mechanism([body], (), [support], np.zeros(3))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())

    @jax.jit
    def derivatives(q, v):
        def moved(x, v):
            return system.acceleration(0.0, system.space.retract(q, x), v)

        zero = jnp.zeros(6)
        first = jax.jacfwd(moved, (0, 1))
        second = jax.jacfwd(jax.jacfwd(moved))(zero, v) if order == 2 else None
        return moved(zero, v), first(zero, v), second

    rest, (stiff, damped), second = derivatives(state.q, state.v)
    assert_allclose(rest, np.zeros(6), atol=FORCE_ROUNDING)
    none = np.zeros((3, 3))

    def block(linear, angular):
        turning = axes.T @ np.diag(-angular / moments) @ axes
        return np.block([[np.diag(-linear / mass), none], [none, turning]])

    assert_allclose(stiff, block(k, c), atol=FORCE_ROUNDING)
    assert_allclose(damped, block(d, b), atol=FORCE_ROUNDING)
    if order == 1:
        return
    # Body-fixed accelerations of second order: those of -dexp⁻¹(θ)ᵀ C θ = -C θ - ½ θ × C θ turned
    # back by θ, which leaves ½ θ × C θ.
    for i, j in ((0, 1), (1, 2), (2, 2)):
        x, y = axes[:, i], axes[:, j]
        torque = 0.5 * (np.cross(x, c * y) + np.cross(y, c * x))
        expected = axes.T @ (torque / moments)
        assert_allclose(second[3:, 3 + i, 3 + j], expected, atol=FORCE_ROUNDING)
