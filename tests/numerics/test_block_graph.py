"""Elimination along graphs of bodies and joints, against LAPACK with the full matrix."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.numerics import block_graph, graphs
from lie_jax.numerics.block_graph import BlockGraph, Blocks
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.numerics.graphs import Graph
from tests.suites import cases

# Rounding in solutions of some hundred equations without pivots, relative to the largest entry.
SOLVED = 1e-9
# What solutions of equations with redundant rows leave, relative to the largest entry: pivots with
# a condition of eps^(-2/3) are inverted to eps^(1/3); corrections leave its second and third power.
ONCE, TWICE = 1e-9, 1e-12

# Bodies, joints as two bodies (-1 for the ground) and a number of rows, forces between two bodies.
GRAPHS = {
    "one loop": (3, [(-1, 0, 5), (0, 1, 5), (1, 2, 3), (2, -1, 4)], []),
    "three loops through one body": (
        5, [(-1, 0, 3), (0, 1, 2), (1, -1, 3), (0, 2, 5), (2, -1, 2), (0, 3, 3), (3, 4, 2),
            (4, 0, 1)], [],
    ),
    "two joints between the same two bodies": (
        3, [(0, 1, 2), (1, 0, 2), (1, 2, 3), (-1, 2, 1), (-1, 2, 2)], []
    ),
    "two components, forces, a free body": (
        6, [(-1, 0, 2), (0, 1, 3), (1, -1, 3), (2, 3, 3)], [(1, 3), (3, 4), (4, 1), (0, 1)]
    ),
}  # fmt: skip


def _graph(n, joints):
    """Unknowns of joints in an order of their own, as those of velocity constraints are."""
    rows = np.cumsum([6 * n, *(count for *_, count in joints)])
    order = np.random.default_rng(len(joints)).permutation(rows[-1] - rows[0]) + rows[0]
    starts = rows - rows[0]
    numbers = [tuple(range(6 * body, 6 * body + 6)) for body in range(n)]
    numbers += [tuple(order[a:b].tolist()) for a, b in itertools.pairwise(starts)]
    after = [tuple({body for body in pair[:2] if body >= 0}) for pair in joints]
    return Graph(tuple(numbers), (*[()] * n, *after), bodies=n, size=int(rows[-1]))


def _matrix(name, seed=0, dtype=float, redundant=False) -> tuple[BlockGraph, np.ndarray]:
    """A matrix that is not symmetric, and the same as NumPy adds it up, entry by entry."""
    n, joints, forces = GRAPHS[name]
    graph, rng = _graph(n, joints), np.random.default_rng(seed)
    full = np.zeros((graph.size, graph.size))
    blocks: list[Blocks] = []

    def add(row, column, values):
        values = np.pad(values, [(0, 6 - k) for k in values.shape])
        blocks.append(Blocks((row,), (column,), jnp.asarray(values[:, :, None], dtype)))
        if min(row, column) >= 0:
            i, j = graph.numbers[row], graph.numbers[column]
            full[np.ix_(i, j)] += values[: len(i), : len(j)]

    for body in range(n):
        root = rng.normal(size=(6, 6))
        add(body, body, root @ root.T + 3.0 * np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
    for a, b in forces:
        for pair in itertools.product((a, b), repeat=2):
            add(*pair, 0.1 * rng.normal(size=(6, 6)))
    for number, (a, b, count) in enumerate(joints, n):
        for body in (a, b):
            columns = rng.normal(size=(6, count))
            if redundant and count > 1:
                columns[:, -1] = columns[:, 0]
            add(body, number, columns)
            add(number, body, columns.T + (0.0 if redundant else 0.05) * columns[::-1].T)
    return block_graph.block_graph(graph, [block_graph.sum_by_place(blocks)]), full


@pytest.mark.parametrize("name", cases(GRAPHS, ["three loops through one body"]))
def test_solutions_are_those_of_lapack(name):
    matrix, full = _matrix(name)
    b = jnp.asarray(np.random.default_rng(5).normal(size=len(full)))

    @jax.jit
    def all_of(matrix, b):
        factors = matrix.inverse()
        both = [
            (each.matvec(b), each.solve(b), inverse @ b)
            for each, inverse in ((matrix, factors), (matrix.transpose(), factors.transpose()))
        ]
        lowered = matrix.corner - matrix.regularize().lowered
        lowered = dataclasses.replace(matrix, corner=lowered)
        return both, matrix.full().entries, lowered.full().entries

    both, entries, regularized = all_of(matrix, b)
    assert_allclose(entries, full, rtol=0, atol=1e-15)
    rows = len(full) - 6 * matrix.graph.bodies
    expected = DenseMatrix(jnp.asarray(full), rows).regularize().entries - full
    more = np.finfo(float).eps ** (2 / 3 - 3 / 4)
    assert_allclose(regularized - full, more * expected, rtol=1e-10, atol=1e-18)
    for (product, *solutions), a in zip(both, (full, full.T), strict=True):
        assert_allclose(product, a @ b, rtol=0, atol=1e-13)
        solution = np.linalg.solve(a, b)
        for x in solutions:
            assert_allclose(x, solution, rtol=0, atol=SOLVED * np.max(np.abs(solution)))


@pytest.mark.full
def test_redundant_rows_leave_what_corrections_remove():
    """One row of each joint twice: the multipliers are not unique."""
    matrix, full = _matrix("three loops through one body", redundant=True)
    assert np.linalg.matrix_rank(full) < len(full)
    b = full @ np.random.default_rng(6).normal(size=len(full))
    x, once = jax.jit(
        lambda m, b: (m.solve_constrained(b), m.regularize().solve(b))
    )(matrix, b)  # fmt: skip
    assert np.max(np.abs(full @ x - b)) < TWICE * np.max(np.abs(b))
    assert np.max(np.abs(full @ once - b)) < ONCE * np.max(np.abs(b))
    velocities = 6 * matrix.graph.bodies
    least = np.linalg.lstsq(full, b, rcond=1e-12)[0]
    assert_allclose(x[:velocities], least[:velocities], rtol=0, atol=TWICE)


@pytest.mark.full
def test_derivatives_of_a_solution():
    """In both modes and to second order, by entries of the matrix and by the right-hand side."""
    name = "two joints between the same two bodies"
    matrix, full = _matrix(name)
    change, full_change = _matrix(name, seed=1)
    b = jnp.asarray(np.random.default_rng(7).normal(size=len(full)))

    def ours(s):
        moved = dataclasses.replace(matrix, values=matrix.values + s * change.values)
        return jnp.sum(jnp.sin(moved.solve(jnp.cos(s) * b)))

    def oracle(s):
        return jnp.sum(jnp.sin(jnp.linalg.solve(full + s * full_change, jnp.cos(s) * b)))

    def derivatives(f):
        twice = jax.jacfwd(jax.grad(f)), jax.grad(jax.grad(f)), jax.jacfwd(jax.jacfwd(f))
        return jax.jit(lambda s: [g(s) for g in (jax.grad(f), jax.jacfwd(f), *twice)])(0.02)

    assert_allclose(derivatives(ours), derivatives(oracle), rtol=1e-8)


@pytest.mark.full
def test_single_precision():
    matrix, full = _matrix("two components, forces, a free body", dtype=np.float32)
    b = jnp.ones(len(full), jnp.float32)
    x, constrained = jax.jit(lambda m: (m.solve(b), m.solve_constrained(b)))(matrix)
    assert x.dtype == constrained.dtype == jnp.float32
    for found in map(np.asarray, (x, constrained)):
        size = np.abs(full) @ np.abs(found) + 1.0
        assert np.max(np.abs(full @ found - 1.0) / size) < 1e-5


def test_a_singular_block_gives_no_finite_numbers():
    matrix, full = _matrix("one loop")
    place = matrix.places.index((1, 1))
    values = matrix.values.at[:, :, place].set(0.0)
    singular = dataclasses.replace(matrix, values=values)
    x = jax.jit(lambda m: m.solve(jnp.ones(len(full))))(singular)
    assert not np.isfinite(x).any()


def test_a_plan_that_does_not_fit_is_refused(monkeypatch):
    matrix, _ = _matrix("one loop")
    monkeypatch.setattr(graphs, "MOST_OPERATIONS", 20)
    graphs.plan_of.cache_clear()
    with pytest.raises(ValueError, match="3 bodies and 4 joints take more than 20 operations"):
        matrix.inverse()
    graphs.plan_of.cache_clear()


def _of_mesh(first, second):
    """Places and graph of the nodes of a mesh of first × second quadrilaterals."""
    row = second + 1
    corners = [
        [i * row + j, (i + 1) * row + j, (i + 1) * row + j + 1, i * row + j + 1]
        for i in range(first)
        for j in range(second)
    ]
    places = {pair for quad in corners for pair in itertools.product(quad, repeat=2)}
    count = (first + 1) * row
    numbers = tuple(tuple(range(6 * k, 6 * k + 6)) for k in range(count))
    return Graph(numbers, ((),) * count, count, 6 * count), tuple(sorted(places))


def test_long_meshes_are_eliminated_along_their_length():
    graph, places = _of_mesh(60, 8)
    # A band: each of 549 nodes has at most 11 neighbours after it.
    assert len(graphs.plan_of(graph, places).factor) < 549 * (1 + 11 + 11**2)


def test_rows_of_elements_are_eliminated_without_filling_in():
    graph, places = _of_mesh(40, 1)
    assert graphs.plan_of(graph, places).filled == 0
