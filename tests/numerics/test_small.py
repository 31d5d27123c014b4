"""Small vectors and matrices with trailing batch axes, and gathers of rows, against NumPy."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.numerics import gather, small

# A few units in the last place, for sums of a dozen terms of order one.
ROUNDING = 1e-14
# Blocks are inverted without pivots; the definite matrices here have condition numbers below 100.
INVERSE = 1e-12

BATCHES = ((), (4,), (2, 3))


def _random(rng, *shape):
    return rng.normal(size=shape)


@pytest.mark.parametrize("batch", BATCHES)
def test_products_take_trailing_batch_axes(batch):
    rng = np.random.default_rng(1)
    a, b, x = _random(rng, 3, 4, *batch), _random(rng, 4, 2, *batch), _random(rng, 4, *batch)
    y, z = _random(rng, 3, *batch), _random(rng, 3, *batch)
    matrix, p, q = _random(rng, 3, 3, *batch), _random(rng, 4, *batch), _random(rng, 4, *batch)

    @jax.jit
    def computed(a, b, x, y, z, matrix, p, q):
        return {
            "matmul": small.matmul(a, b),
            "matvec": small.matvec(a, x),
            "dot": small.dot(y, z),
            "outer": small.outer(x, y),
            "cross": small.cross(y, z),
            "hat": small.matvec(small.hat(y), z),
            "axial": small.axial(small.hat(y)),
            "hamilton product": small.hamilton_product(p, q)[0],
            "solution": small.matvec(matrix, small.solve_3(matrix, y)),
        }

    expected = {
        "matmul": np.einsum("mn...,np...->mp...", a, b),
        "matvec": np.einsum("mn...,n...->m...", a, x),
        "dot": np.sum(y * z, axis=0),
        "outer": np.einsum("m...,n...->mn...", x, y),
        "cross": np.cross(y, z, axis=0),
        "hat": np.cross(y, z, axis=0),
        "axial": -2.0 * y,
        "hamilton product": p[0] * q[0] - np.sum(p[1:] * q[1:], axis=0),
        "solution": y,
    }
    for name, value in computed(a, b, x, y, z, matrix, p, q).items():
        assert_allclose(value, expected[name], atol=ROUNDING, rtol=INVERSE, err_msg=name)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 12])
def test_inverse_of_definite_matrices(n):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(5, n, n))
    a = a @ a.swapaxes(1, 2) + n * np.eye(n)
    # The first block need not be symmetric.
    a[:, 0, -1] *= 0.9
    inverse = np.asarray(jax.jit(small.inverse)(a.transpose(1, 2, 0)))
    assert_allclose(np.moveaxis(inverse, -1, 0), np.linalg.inv(a), atol=INVERSE)


@pytest.mark.parametrize(
    ("indices", "n"),
    [
        *(((1, 2), 4), ((-1, 0, 1), 4), ((2, 0, -1, 2), 4), ((-1,), 4), ((3, 2, 1, 0), 4)),
        # Runs of many rows are joined; two of them overlap.
        ((*range(5, 12), -1, -1, *range(8, 20), 0, 1), 20),
        # Many times one row.
        *((9 * (2,), 4), (70 * (0,), 1)),
    ],
)
def test_rows_are_picked_and_added_up(indices, n):
    rng = np.random.default_rng(2)
    rows, picked = rng.normal(size=(2, n)), rng.normal(size=(2, len(indices)))
    selection = np.asarray(indices)[:, None] == np.arange(n)
    got, *sums = jax.jit(
        lambda rows, picked: (
            gather.pick(indices, rows, axis=1),
            gather.add_up(indices, picked, n, axis=1),
            gather.add_up_by_table(indices, picked, n, axis=1),
        )
    )(rows, picked)
    assert_allclose(got, rows @ selection.T, atol=ROUNDING)
    for got in sums:
        assert_allclose(got, picked @ selection, atol=ROUNDING)
