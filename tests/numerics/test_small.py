"""Small vectors and matrices with trailing batch axes, and gathers of rows, against NumPy."""

import jax.numpy as jnp
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
    return jnp.asarray(rng.normal(size=shape))


@pytest.mark.parametrize("batch", BATCHES)
def test_products_take_trailing_batch_axes(batch):
    rng = np.random.default_rng(1)
    a, b, x = _random(rng, 3, 4, *batch), _random(rng, 4, 2, *batch), _random(rng, 4, *batch)
    y, z = _random(rng, 3, *batch), _random(rng, 3, *batch)
    matrix, p, q = _random(rng, 3, 3, *batch), _random(rng, 4, *batch), _random(rng, 4, *batch)
    pairs = {
        "matmul": (small.matmul(a, b), np.einsum("mn...,np...->mp...", a, b)),
        "matvec": (small.matvec(a, x), np.einsum("mn...,n...->m...", a, x)),
        "dot": (small.dot(y, z), np.sum(np.asarray(y) * z, axis=0)),
        "outer": (small.outer(x, y), np.einsum("m...,n...->mn...", x, y)),
        "cross": (small.cross(y, z), np.cross(y, z, axis=0)),
        "hat": (small.matvec(small.hat(y), z), np.cross(y, z, axis=0)),
        "axial": (small.axial(small.hat(y)), -2.0 * y),
        "hamilton product": (
            small.hamilton_product(p, q)[0],
            p[0] * q[0] - np.sum(np.asarray(p[1:]) * q[1:], axis=0),
        ),
        "solution": (small.matvec(matrix, small.solve_3(matrix, y)), y),
    }
    for name, (value, expected) in pairs.items():
        assert_allclose(value, expected, atol=ROUNDING, rtol=INVERSE, err_msg=name)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 12])
def test_inverse_of_definite_matrices(n):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(5, n, n))
    a = a @ a.swapaxes(1, 2) + n * np.eye(n)
    # The first block need not be symmetric.
    a[:, 0, -1] *= 0.9
    inverse = small.inverse(jnp.asarray(a.transpose(1, 2, 0)))
    assert_allclose(jnp.moveaxis(inverse, -1, 0), np.linalg.inv(a), atol=INVERSE)


@pytest.mark.parametrize("indices", [(1, 2), (-1, 0, 1), (2, 0, -1, 2), (-1,), (3, 2, 1, 0)])
def test_rows_are_picked_and_added_up(indices):
    rng = np.random.default_rng(2)
    rows, picked = rng.normal(size=(2, 4)), rng.normal(size=(2, len(indices)))
    selection = np.asarray(indices)[:, None] == np.arange(4)
    got = gather.pick(indices, jnp.asarray(rows), axis=1)
    assert_allclose(got, rows @ selection.T, atol=ROUNDING)
    sums = gather.add_up(indices, jnp.asarray(picked), 4, axis=1)
    assert_allclose(sums, picked @ selection, atol=ROUNDING)
