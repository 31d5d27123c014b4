"""Random programs, batched, compute what jax.vmap of them computes."""

import jax
import numpy as np
import pytest

import lie_jax
from tests.sweeps import random_programs

# Sums are added in another order, in single precision too, and loops are short and contract.
TOLERANCES = {"float64": 1e-11, "float32": 1e-4}
# One more than what is no vector of numbers.
MEMBERS = 9
# Small programs and others that share a loop, and so a compilation: as many as loops that are taken
# apart have room for. Of four such loops one keeps signs of zeros.
SMALL_TOGETHER, TOGETHER, PART_EXACT = 30, 10, 4


def _check(seeds, exact, count, depth):
    fn = random_programs.programs(seeds, exact, count, depth)
    members = random_programs.arguments(seeds[0], MEMBERS)
    got = jax.jit(lie_jax.batched(fn))(*members)
    expected = jax.jit(jax.vmap(fn))(*members)
    for (path, y), x in zip(
        jax.tree_util.tree_flatten_with_path(expected)[0], jax.tree.leaves(got), strict=True
    ):
        name = f"seed and place {jax.tree_util.keystr(path)}"
        assert x.shape == y.shape and x.dtype == y.dtype, name
        # Integers and flags are equal.
        tolerance = TOLERANCES.get(str(x.dtype), 0.0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=name)
        if exact and str(x.dtype) in TOLERANCES:
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y), err_msg=name)


def _check_all(first, groups, together, count, depth, kernel_count):
    apart = 0
    for group in range(groups):
        start = first + group * together
        kernel_count.clear()
        _check(range(start, start + together), group % PART_EXACT == 0, count, depth)
        apart += bool(kernel_count)
    # Nearly all loops are taken apart: the others would be compared with themselves.
    assert apart >= 0.9 * groups


@pytest.mark.parametrize("part", range(2))
def test_300_small_programs(part, kernel_count):
    _check_all(150 * part, 5, SMALL_TOGETHER, 1, 1, kernel_count)


@pytest.mark.full
@pytest.mark.parametrize("part", range(100))
def test_10_000_programs_of_loops_in_loops(part, kernel_count):
    _check_all(1000 + 100 * part, 10, TOGETHER, 2, 2, kernel_count)
