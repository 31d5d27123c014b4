"""Many bodies: equations of motion in blocks along the joints, against the full matrices."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators.generalized_alpha import equations
from lie_jax.integrators.generalized_alpha.start import initial_carry
from lie_jax.multibody.absolute.elimination import MANY_BODIES
from lie_jax.numerics import gather
from lie_jax.numerics.block_graph import BlockGraph
from lie_jax.numerics.block_matrix import BlockTree
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.systems import index1
from models import chain
from tests import mechanisms
from tests.suites import cases

# Rounding in solutions of some hundred equations, relative to the largest entry.
SOLVED = 1e-10
# Rounding in sums of some ten products.
ROUNDING = 1e-13
# Both ways regularise alike, and end Newton's method at the level of rounding.
RUN = 1e-9
# Links of a chain with several levels.
LINKS = 6


def _forest():
    """A floating tree with branches and one on the ground, joints of four kinds, springs."""
    mechanism = mechanisms.forest()
    springs = [
        lie_jax.LinearSpringDamper(*pair, 90.0, 4.0, 0.7, (0.1, 0.2, 0.3), (0.0, 0.3, 0.1))
        for pair in (("leg", "trunk"), ("hand", "boom"), ("ground", "boom"))
    ]
    return lie_jax.Mechanism(
        mechanism.bodies, mechanism.joints, [*mechanism.forces, *springs], mechanism.gravity
    )


def _sprung(*joints):
    """Three bodies in a row of springs."""
    rng = np.random.default_rng(2)
    names = "abc"
    bodies = [lie_jax.Body(n, 1.5, np.eye(3), position=rng.normal(size=3)) for n in names]
    springs = [
        lie_jax.LinearSpringDamper(*pair, 90.0, 4.0, 0.7, (0.1, 0.2, 0.3), (0.0, 0.3, 0.1))
        for pair in itertools.pairwise(("ground", *names))
    ]
    return lie_jax.Mechanism(bodies, joints, springs)


def _loops(*more):
    """Two loops through one body, without redundant rows, and springs across them."""
    rng = np.random.default_rng(3)
    names = "abcd"
    bodies = [lie_jax.Body(n, 1.5, np.diag([1.0, 1.3, 1.1]), position=rng.normal(size=3),
                           velocity=rng.normal(size=3), omega_body=rng.normal(size=3))
              for n in names]  # fmt: skip
    places = {body.name: np.asarray(body.position) for body in bodies} | {"ground": np.zeros(3)}

    def ball(a, b):
        point = rng.normal(size=3)
        return lie_jax.SphericalJoint(a, b, point - places[a], point - places[b])

    pairs = [("ground", "a"), ("a", "b"), ("b", "ground"), ("b", "c"), ("c", "a"), ("c", "d")]
    springs = [
        lie_jax.LinearSpringDamper(*pair, 90.0, 4.0, 0.7, (0.1, 0.2, 0.3), (0.0, 0.3, 0.1))
        for pair in (("a", "d"), ("b", "d"), ("ground", "c"))
    ]
    return lie_jax.Mechanism(bodies, [*itertools.starmap(ball, pairs), *more], springs)


_DISC = lie_jax.RollingDisc("ground", "d", 0.3, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
LOOPS = {
    "loops, R3SO3": lambda: lie_jax.assemble(_loops(), lie_jax.R3SO3()),
    "loops, SE3, rolling": lambda: lie_jax.assemble(_loops(_DISC), lie_jax.SE3()),
}
CASES = LOOPS | {
    "balls, R3SO3": lambda: chain.build(n=9),
    "balls, SE3": lambda: chain.build(lie_jax.SE3(chart="cayley"), n=9),
    "hinges, SE3": lambda: chain.build(lie_jax.SE3(), n=9, joint="revolute"),
    "springs alone": lambda: lie_jax.assemble(_sprung(), lie_jax.SE3()),
    # A body whose parent is one by its spring, not by its joint.
    "springs between joints of the ground": lambda: lie_jax.assemble(
        _sprung(
            lie_jax.SphericalJoint("ground", "a"), lie_jax.RevoluteJoint("c", "ground", (0, 0, 1))
        ),
        lie_jax.R3SO3(),
    ),
    "forest, R3SO3": lambda: lie_jax.assemble(_forest(), lie_jax.R3SO3()),
    "forest, unified velocities": lambda: lie_jax.assemble(_forest(), lie_jax.UnifiedVelocity()),
}


def _problem(system, state, rng):
    """A step of 1 ms with rotations of some tenths."""
    dt = 1e-3
    return equations.StepParameters(
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


# `make test` has the accelerations of a chain that other codes have, and solutions along loops
# against LAPACK.
@pytest.mark.parametrize("name", cases(CASES, []))
def test_blocks_are_those_of_the_full_matrix(name):
    """Of a step and of the equations of motion, their transposes and solutions."""
    system, state = CASES[name]()
    rng = np.random.default_rng(4)
    problem = _problem(system, state, rng)
    y, b = jnp.asarray(rng.normal(size=(2, system.nv + system.nc)))

    @jax.jit
    def both(y, b):
        end = equations.end(0.1 * y, problem)
        point = problem.t, end.q, end.v, end.acceleration, end.multipliers, None
        linear: Any = system.linearization(*point)
        x = system.space.rate_at_zero(equations.increment(0.1 * y, problem))
        step, full_step = (
            storage.step_matrix(x, 1.0 / problem.beta, problem.gamma / problem.beta)
            for storage in (linear, dataclasses.replace(linear, order=None))
        )
        saddle, full_saddle = (
            each.algebra.saddle(0.1, state.q)
            for each in (system, mechanisms.with_full_matrices(system))
        )
        kind = BlockGraph if name in LOOPS else BlockTree
        assert isinstance(step, kind)
        assert isinstance(saddle, kind)
        products = [p for a in (step, saddle) for p in (a.matvec(b), a.transpose().matvec(b))]
        solved = step.solve(b), step.transpose().solve(b), saddle.solve_constrained(b)
        return products, solved, (full_step.entries, full_saddle.entries)

    products, solved, (step, saddle) = both(y, b)
    for got, a in zip(products, (step, step.T, saddle, saddle.T), strict=True):
        expected = a @ b
        assert_allclose(got, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))
    for got, a in zip(solved, (step, step.T, saddle), strict=True):
        expected = np.linalg.solve(a, b)
        assert_allclose(got, expected, rtol=0, atol=SOLVED * np.max(np.abs(expected)))


def _end(system, state, gravity):
    """Configuration and velocity after a step from accelerations and multipliers of zero."""
    system = dataclasses.replace(system, gravity=gravity)
    rest = jnp.zeros(system.nv)
    carry = initial_carry(rest, jnp.zeros(system.nc), rest)
    end = lie_jax.GeneralizedAlpha(0.8).step(system, rest[0], rest[0] + 2e-3, state, carry, None)
    return jnp.concatenate([end.state.q, end.state.v])


@pytest.mark.full
def test_derivatives_of_a_step_are_those_of_the_full_matrix():
    """Value, forward and reverse mode and a Hessian-vector product."""
    system, state = chain.build(n=LINKS)
    weights = jnp.asarray(np.random.default_rng(7).normal(size=system.nq + system.nv))
    direction = jnp.asarray([0.3, -0.5, 0.8])

    def all_of(system):
        def cost(gravity):
            end = _end(system, state, gravity)
            return jnp.sum(weights * end) + jnp.sum(end**2)

        return jax.jvp(jax.value_and_grad(cost), (system.gravity,), (direction,))

    ours, theirs = (jax.jit(all_of)(s) for s in (system, mechanisms.with_full_matrices(system)))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert_allclose(a, b, rtol=0, atol=RUN * np.max(np.abs(b)))
    (_, gradient), (slope, product) = ours
    assert_allclose(jnp.sum(gradient * direction), slope, rtol=RUN)
    assert np.any(np.abs(product) > 1e-9)


@pytest.mark.full
def test_modified_newton_keeps_factors():
    """It arrives where full Newton does."""
    system, state = chain.build(n=LINKS)

    def end(newton):
        integrator = lie_jax.GeneralizedAlpha(0.8, newton=newton)
        return lie_jax.simulate(system, integrator, state, dt=2e-3, steps=5, throw=False)

    both = jax.jit(lambda: [end("full"), end("modified")])
    ends = both()
    assert_allclose(ends[0].q[-1], ends[1].q[-1], rtol=0, atol=RUN)
    assert np.sum(ends[1].stats.newton_iterations) > np.sum(ends[0].stats.newton_iterations)


def _saddle(system, state) -> Any:
    return jax.eval_shape(lambda q: system.algebra.saddle(0.0, q), state.q)


def test_storage_follows_bodies_and_joints():
    few, state = chain.build(n=MANY_BODIES - 1)
    assert isinstance(_saddle(few, state), DenseMatrix)
    names = [f"body {i}" for i in range(LINKS)]
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in names]
    ring = [lie_jax.SphericalJoint(a, b) for a, b in zip(names, names[1:] + names[:1], strict=True)]
    for joints, kind in ((ring[:-1], BlockTree), (ring, BlockGraph)):
        system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.R3SO3())
        assert isinstance(_saddle(system, state), kind)


@pytest.mark.full
def test_a_singular_joint_is_found_redundant():
    """A universal joint whose axes are parallel."""
    names = [f"body {i}" for i in range(LINKS)]
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in names]
    pairs = list(zip(["ground", *names], names, strict=False))
    for child_axis, expected in (((0, 1, 0), False), ((1, 0, 0), True)):
        joints = [
            *(lie_jax.SphericalJoint(*pair) for pair in pairs[1:]),
            lie_jax.UniversalJoint("ground", names[0], (1, 0, 0), child_axis),
        ]
        system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.R3SO3())
        zero = jnp.zeros(())
        assert bool(index1.redundant(system, zero, state.q)) == expected
        assert (
            bool(index1.redundant(mechanisms.with_full_matrices(system), zero, state.q)) == expected
        )


def test_rows_of_many_bodies_are_looked_up_in_batches_too():
    rng = np.random.default_rng(3)
    n, places = 50, tuple(int(place) for place in rng.integers(-1, 50, 60))
    assert len(places) * n > gather._LARGE
    values = rng.normal(size=(2, n, 3))
    chosen = (np.asarray(places)[:, None] == np.arange(n)).astype(float)

    def there_and_back(x):
        picked, back = jax.vjp(lambda x: gather.pick(places, x), x)
        return back(picked)[0], gather.add_up(places, picked, n)

    expected = np.einsum("kn,km,bmi->bni", chosen, chosen, values)
    for got in jax.jit(jax.vmap(there_and_back))(values):
        assert_allclose(got, expected, rtol=0, atol=ROUNDING)
