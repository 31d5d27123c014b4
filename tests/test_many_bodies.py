"""Many bodies: equations of motion in blocks along the joints, against the full matrices."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators import alpha_step
from lie_jax.mechanics.formulations.absolute import RigidBodySystem
from lie_jax.system import accelerations_and_multipliers
from models import chain
from tests import mechanisms

# Rounding in solutions of some hundred equations, relative to the largest entry.
SOLVED = 1e-10
# Rounding in sums of some ten products.
ROUNDING = 1e-13
# Both ways regularise alike, and end Newton's method at the level of rounding.
RUN = 1e-9


class _Full(RigidBodySystem):
    """The same system, solved by full matrices."""

    def saddle_tree(self, t, q):
        return None

    def step_tree(self, *arguments):
        return None


def _full(system):
    return _Full(
        **{field.name: getattr(system, field.name) for field in dataclasses.fields(system)}
    )


def _forest():
    """A floating tree with branches and one on the ground, joints of four kinds, springs."""
    mechanism = mechanisms.forest()
    springs = [
        lie_jax.LinearSpringDamper(
            parent, child, 90.0, 4.0, 0.7, parent_point=(0.1, 0.2, 0.3), child_point=(0.0, 0.3, 0.1)
        )
        for parent, child in (("leg", "trunk"), ("hand", "boom"), ("ground", "boom"))
    ]
    return lie_jax.Mechanism(
        mechanism.bodies, mechanism.joints, [*mechanism.forces, *springs], mechanism.gravity
    )


CASES = {
    "balls, R3SO3": lambda: chain.build(n=9),
    "balls, SE3": lambda: chain.build(lie_jax.SE3(chart="cayley"), n=9),
    "hinges, SE3": lambda: chain.build(lie_jax.SE3(), n=9, joint="revolute"),
    "forest, R3SO3": lambda: lie_jax.assemble(_forest(), lie_jax.R3SO3()),
    "forest, unified velocities": lambda: lie_jax.assemble(_forest(), lie_jax.UnifiedVelocity()),
}


def _problem(system, state, rng):
    """A step of 1 ms with rotations of some tenths."""
    dt = 1e-3
    return alpha_step.Problem(
        system,
        jnp.asarray(0.1),
        None,
        state.q,
        jnp.asarray(0.2 * rng.normal(size=system.nv)),
        state.v,
        jnp.asarray(1.0 / dt**2),
        jnp.asarray(2.0 / dt),
        None,
    )


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_those_of_the_full_matrix(name):
    system, state = CASES[name]()
    rng = np.random.default_rng(4)
    problem = _problem(system, state, rng)
    y, b = jnp.asarray(rng.normal(size=(2, system.nv + system.nc)))

    def both(y, b):
        tree = alpha_step.analytic(0.1 * y, problem)[1]
        full = alpha_step.analytic(0.1 * y, problem._replace(system=_full(system)))[1]
        saddle = system.saddle_tree(0.1, state.q)
        ours = tree.matvec(b), tree.transpose().matvec(b), tree.solve(b), saddle.matvec(b)
        dense = accelerations_and_multipliers(_full(system), 0.1, state.q, state.v)
        return (
            (*ours, *accelerations_and_multipliers(system, 0.1, state.q, state.v)),
            (full @ b, full.T @ b, jnp.linalg.solve(full, b), _saddle(system, state.q) @ b, *dense),
            tree.transpose().solve(b),
            jnp.linalg.solve(full.T, b),
        )

    ours, theirs, transposed, expected = jax.jit(both)(y, b)
    for k, (a, c) in enumerate(zip((*ours, transposed), (*theirs, expected), strict=True)):
        slack = ROUNDING if k in (0, 1, 3) else SOLVED
        assert_allclose(a, c, rtol=0, atol=slack * np.max(np.abs(c)))


def _saddle(system, q):
    b = system.constraint_jacobian(0.1, q)
    none = jnp.zeros((system.nc, system.nc))
    return jnp.block([[system.mass_matrix(q), b.T], [b, none]])


def _end(system, state, gravity, **options):
    system = dataclasses.replace(system, gravity=gravity)
    trajectory = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.8, **options), state, dt=2e-3, steps=3, throw=False
    )
    return jnp.concatenate([trajectory.q[-1], trajectory.v[-1], trajectory.multipliers[-1]])


@pytest.mark.parametrize("name", ["balls, R3SO3"])
def test_derivatives_of_a_run_are_those_of_the_full_matrix(name):
    """Values, forward and reverse mode and a Hessian-vector product."""
    system, state = CASES[name]()
    weights = jnp.asarray(np.random.default_rng(7).normal(size=system.nq + system.nv))
    direction = jnp.asarray([0.3, -0.5, 0.8])

    def all_of(system):
        def cost(gravity):
            end = _end(system, state, gravity)[: weights.shape[0]]
            return jnp.sum(weights * end) + jnp.sum(end**2)

        gradient = jax.grad(cost)
        forward = jax.jvp(cost, (system.gravity,), (direction,))
        return (
            _end(system, state, system.gravity),
            *jax.jvp(gradient, (system.gravity,), (direction,)),
            *forward,
        )

    ours, theirs = (jax.jit(all_of)(s) for s in (system, _full(system)))
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose(a, b, rtol=0, atol=RUN * np.max(np.abs(b)))
    assert_allclose(jnp.sum(ours[1] * direction), ours[4], rtol=RUN)
    assert np.all(np.abs(ours[2]) > 1e-6)
