"""Random programs, batched, compute what jax.vmap of them computes."""

import jax
import jaxtyping
import numpy as np
import pytest

import lie_jax
from tests.sweeps import random_programs
from tests.sweeps.random_programs import Form

# Sums are added in another order, in single precision too, and loops are short and contract.
TOLERANCES = {"float64": 1e-11, "float32": 1e-4}
# One more than what is no vector of numbers.
MEMBERS = 9
# Small programs and others that share a loop, and so a compilation: as many as loops that are taken
# apart have room for.
SMALL_TOGETHER, TOGETHER = 30, 10
# Forms of ten loops, and whether their programs keep signs of zeros. Those of constants inside of a
# jitted function XLA itself does not keep: 0 - x may be -0 for x = 0.
FORMS = (
    (Form.NUMBERS, True),
    (Form.CALLS, False),
    (Form.ARRAYS, False),
    (Form.NUMBERS, False),
    (Form.ARRAYS, True),
    (Form.NUMBERS, False),
    (Form.CALLS, False),
    (Form.ARRAYS, False),
    (Form.NUMBERS, False),
    (Form.ARRAYS, False),
)
# A loop with several sets of constants counts as so many.
SETS = {Form.NUMBERS: 1, Form.ARRAYS: 1, Form.CALLS: 3}


def _check(seeds, form, exact, count, depth):
    fn = random_programs.programs(seeds, form, exact, count, depth)
    members = random_programs.arguments(seeds[0], MEMBERS)
    got = jax.jit(lie_jax.batched(fn))(*members)
    expected = jax.jit(jax.vmap(fn))(*members)
    for (path, y), x in zip(
        jax.tree_util.tree_flatten_with_path(expected)[0], jax.tree.leaves(got), strict=True
    ):
        name = f"seed and place {jax.tree_util.keystr(path)}, {form}"
        assert x.shape == y.shape and x.dtype == y.dtype, name
        # Integers and flags are equal.
        tolerance = TOLERANCES.get(str(x.dtype), 0.0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=name)
        if exact and str(x.dtype) in TOLERANCES:
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y), err_msg=name)


def _check_all(first, groups, together, count, depth, kernel_count):
    as_meant = 0
    for group in groups:
        form, exact = FORMS[group]
        start = first + group * together
        kernel_count.clear()
        _check(range(start, start + -(-together // SETS[form])), form, exact, count, depth)
        as_meant += bool(kernel_count) == (form is not Form.ARRAYS)
    # Nearly all loops are evaluated as meant: others would be compared with themselves.
    assert as_meant >= 0.9 * len(groups)


@pytest.mark.parametrize(
    ("groups", "together"),
    [(range(2), 10), pytest.param(range(10), SMALL_TOGETHER, marks=pytest.mark.full)],
)
def test_small_programs(groups, together, kernel_count, monkeypatch):
    # Checks of types take two thirds of the tracing; other tests of batches have them, and the
    # first part below.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    _check_all(0, groups, together, 1, 1, kernel_count)


@pytest.mark.full
@pytest.mark.parametrize("part", range(100))
def test_10_000_programs_of_loops_in_loops(part, kernel_count, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", part > 0)
    _check_all(1000 + 100 * part, range(10), TOGETHER, 2, 2, kernel_count)
