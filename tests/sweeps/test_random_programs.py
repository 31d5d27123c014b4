"""Random programs, batched, compute what jax.vmap of them computes."""

import jax
import jaxtyping
import pytest

import lie_jax
from tests.sweeps import random_programs
from tests.sweeps.random_programs import Form

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
    random_programs.check_alike(got, expected, form, exact)


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
