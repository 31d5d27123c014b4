"""Stabilised steps and constraints among coordinates, in blocks and in full."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.numerics import rules
from lie_jax.numerics.block_graph import BlockGraph
from models import chain
from tests import mechanisms

# Rounding in sums of some ten products.
ROUNDING = 1e-13
# Rounding in solutions of some hundred equations without pivots, relative to their terms.
SOLVED = 1e-10
# Two searches of one root, whose last corrections differ by rounding.
STEP = 1e-11
# Derivatives have the regularised matrix: 2e-12 times the condition of B M⁻¹ Bᵀ.
DERIVATIVES = 1e-9
STIFFNESS, DAMPING = 0.13, 0.6
# Those of a step of 0.1 s and more: without pivots elimination needs the masses to count.
OF_LONG_STEP = 1e-2, 0.1


def _mechanism(closed, rolling):
    """Four bodies on balls and a hinge, with springs and a bushing; two loops if `closed`."""
    rng = np.random.default_rng(3)
    bodies = [
        lie_jax.Body(
            name,
            1.5,
            np.diag([1.0, 1.3, 1.1]),
            (0.1, 0.2, 0.0),
            position=rng.normal(size=3),
            orientation=(lambda p: p / np.linalg.norm(p))(rng.normal(size=4)),
            velocity=rng.normal(size=3),
            omega_body=rng.normal(size=3),
        )
        for name in "abcd"
    ]

    def ball(a, b):
        return lie_jax.SphericalJoint(a, b, rng.normal(size=3), rng.normal(size=3))

    pairs = [("ground", "a"), ("a", "b"), ("c", "d")]
    pairs += [("b", "ground"), ("c", "a")] if closed else []
    hinge = lie_jax.RevoluteJoint("b", "c", (1, 2, 0.5))
    joints = [hinge, *itertools.starmap(ball, pairs)]
    if rolling:
        axis = (0.0, 0.6, 0.8)
        joints.append(lie_jax.RollingDisc("ground", "d", 0.3, (0.0, 0.0, 1.0), axis))
    forces = [
        lie_jax.LinearSpringDamper("a", "b", 90.0, 4.0, 0.7, (0.1, 0.2, 0.3), (0.0, 0.3, 0.1)),
        lie_jax.JointSpring(hinge, stiffness=3.0, damping=0.2),
        lie_jax.ViscousFriction("c", "d", 0.2),
        lie_jax.CartesianSpringDamper("ground", "c", (3.0, 4.0, 5.0), (0.1, 0.2, 0.3)),
        lie_jax.Torque("d", (1.0, -0.4, 0.7)),
    ]
    if closed:
        forces.append(lie_jax.LinearSpringDamper("a", "d", 50.0, 1.0, 0.7, (0.1, 0.2, 0.3)))
    return lie_jax.Mechanism(bodies, joints, forces)


FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(chart="cayley"),
    "Euler parameters": lie_jax.EulerParameters(),
    "Tait-Bryan": lie_jax.TaitBryan(),
    "unified": lie_jax.UnifiedVelocity(),
}
MECHANISMS = {"tree": (False, False), "loops": (True, False), "loops, rolling": (True, True)}
CASES = list(itertools.product(FORMULATIONS, MECHANISMS))


@pytest.mark.full
@pytest.mark.parametrize(("formulation", "mechanism"), CASES)
def test_matrices_are_those_of_full_size(formulation, mechanism):
    """Of stabilised and other steps, and of the equations of motion."""
    mechanism = _mechanism(*MECHANISMS[mechanism])
    system, state = lie_jax.assemble(mechanism, FORMULATIONS[formulation])
    full, rng = mechanisms.with_full_matrices(system), np.random.default_rng(4)
    q = system.space.flow(state.q, jnp.asarray(0.2 * rng.normal(size=system.nv)))
    x, acceleration = jnp.asarray(0.3 * rng.normal(size=(2, system.nv)))
    multipliers = jnp.asarray(rng.normal(size=system.nc))
    positions = system.nc - system.velocity_rows
    size = system.nv + system.nc
    b = jnp.asarray(rng.normal(size=size + positions))

    @jax.jit
    def all_of(b):
        point = 0.1, q, state.v, acceleration, multipliers, None
        factors = STIFFNESS, DAMPING
        pairs: list[tuple[Any, Any]] = []
        linear, dense = (s.linearization(*point) for s in (system, full))
        reactions, jacobian = (s.algebra.position_reactions(0.0, state.q) for s in (system, full))
        pairs.append(
            (
                linear.stabilized_matrix(x, *factors, reactions),
                dense.stabilized_matrix(x, *factors, jacobian),
            )
        )
        pairs.append(tuple(each.step_matrix(x, *factors) for each in (linear, dense)))
        pairs.append((system.algebra.saddle(0.1, q), full.algebra.saddle(0.1, q)))
        results = []
        for ours, theirs in pairs:
            part = b[: theirs.entries.shape[0]]
            products = ours.matvec(part), ours.transpose().matvec(part)
            results.append((theirs.entries, part, products))
        long = [
            s.stabilized_matrix(x, *OF_LONG_STEP, r)
            for s, r in ((linear, reactions), (dense, jacobian))
        ]
        same = reactions.of(b[:positions]), jacobian.of(b[:positions]), reactions.rows
        return results, same, jacobian.rows, (long[1].entries, long[0].solve(b))

    results, (pulled, expected, rows), all_rows, (long, solution) = all_of(b)
    assert_allclose(pulled, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))
    assert_allclose(rows, all_rows, rtol=0, atol=ROUNDING)
    for entries, part, products in results:
        for a, product in zip((entries, entries.T), products, strict=True):
            expected = a @ part
            assert_allclose(product, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))
    left = long @ solution - b
    assert np.max(np.abs(left) / (np.abs(long) @ np.abs(solution))) < SOLVED


WAYS = {
    "stabilised": (lie_jax.R3SO3(), {"index": 2}),
    "stabilised, Euler parameters": (lie_jax.EulerParameters(), {"index": 2}),
    "Euler parameters": (lie_jax.EulerParameters(), {}),
    "modified, Euler parameters": (lie_jax.EulerParameters(), {"newton": "modified"}),
    "modified, stabilised": (lie_jax.R3SO3(), {"newton": "modified", "index": 2}),
}


def _ends(formulation, options):
    system, state = chain.build(formulation, n=3, joint="revolute")
    integrator = lie_jax.GeneralizedAlpha(0.8, **options)

    def end(system, gravity):
        system, zero = dataclasses.replace(system, gravity=gravity), jnp.zeros(())
        dt = zero + 2e-3
        # Derivatives of the start would double the program.
        carry = rules.stop_gradient(integrator.init(system, zero, dt, state, None))
        step = integrator.step(system, zero, dt, state, carry, None)
        return jnp.concatenate([step.state.q, step.state.v]), step.newton_iterations

    return system, end


@pytest.mark.full
@pytest.mark.parametrize("name", WAYS)
def test_steps_and_their_derivatives_are_those_of_full_size(name):
    """Value, count of iterations, gradient, directional derivative and Hessian-vector product."""
    system, end = _ends(*WAYS[name])
    direction = jnp.asarray([0.3, -0.5, 0.8])

    def all_of(system):
        def cost(gravity):
            at, _ = end(system, gravity)
            return jnp.sum(jnp.arange(len(at), dtype=at.dtype) * at) + jnp.sum(at**2)

        changes = jax.jvp(jax.value_and_grad(cost), (system.gravity,), (direction,))
        return end(system, system.gravity), changes

    (ours, count), changes = jax.jit(all_of)(system)
    (theirs, full_count), full_changes = jax.jit(all_of)(mechanisms.with_full_matrices(system))
    assert int(count) == int(full_count)
    assert_allclose(ours, theirs, rtol=0, atol=STEP)
    for a, b in zip(jax.tree.leaves(changes), jax.tree.leaves(full_changes), strict=True):
        assert_allclose(a, b, rtol=0, atol=DERIVATIVES * np.max(np.abs(b)))


def test_coordinates_with_constraints_are_eliminated_at_every_orientation():
    """The mass matrix is singular along p, whose leading numbers may be the only ones."""
    system, state = lie_jax.assemble(_mechanism(True, False), lie_jax.EulerParameters())
    assert isinstance(jax.eval_shape(lambda q: system.algebra.saddle(0.0, q), state.q), BlockGraph)
    rng = np.random.default_rng(2)
    b = jnp.asarray(rng.normal(size=system.nv + system.nc))
    solve = jax.jit(lambda q: system.algebra.saddle(0.0, q).solve(b))
    entries = jax.jit(
        lambda q: mechanisms.with_full_matrices(system).algebra.saddle(0.0, q).entries
    )
    for axis, sign in itertools.product(range(4), (1.0, -1.0)):
        parameters = sign * np.eye(4)[axis]
        q = np.asarray(state.q).reshape(4, 7).copy()
        q[:, 3:] = parameters
        expected = np.linalg.solve(entries(jnp.asarray(q.reshape(-1))), b)
        found = solve(jnp.asarray(q.reshape(-1)))
        assert_allclose(found, expected, rtol=0, atol=SOLVED * np.max(np.abs(expected)))
