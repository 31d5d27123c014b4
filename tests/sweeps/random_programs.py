"""Random programs of one member, as deterministic functions of a seed.

A program works on a pool of values: floats of both precisions, integers of three types, flags and
empty arrays. It draws operations, loops, branches and calls; what is inside of a loop draws from a
seed of its own, so that every trace of it is the same.

Floats of single precision are compared with nothing: rounding then decides no branch.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.sweeps.random_operations import (
    DIGITS,
    EXACT,
    FACTORS,
    FLAGS,
    INDEXED,
    PAIRS,
    ROUNDED,
    WHOLE,
    one_of,
    shared_search,
    three,
)

# How often a loop or a branch is drawn.
_DEEPER = 0.35


class Pool:
    """Values of a program by kind; `exact` programs keep the signs of their zeros."""

    def __init__(self, doubles: list, singles: list, integers: list, flags: list, exact: bool):
        self.doubles, self.singles, self.exact = doubles, singles, exact
        self.integers, self.flags = integers, flags

    def _kinds(self) -> tuple[list, ...]:
        return self.doubles, self.singles, self.integers, self.flags

    def drawn(self, seed: int, count: int, depth: int) -> list:
        """Values that a block of the seed adds to the pool."""
        before = [len(values) for values in self._kinds()]
        block(self, seed, count, depth)
        return [values[n:] for values, n in zip(self._kinds(), before, strict=True)]

    def inner(self, doubles: list, integers: list, flags: Sequence = ()) -> "Pool":
        """Pool of a loop: what is carried, and what is read from outside."""
        doubles, integers = [*doubles, *self.doubles[-2:]], [*integers, *self.integers[-2:]]
        return Pool(doubles, self.singles[-1:], integers, [*flags, *self.flags[-1:]], self.exact)


def _double(pool: Pool, r) -> None:
    x = one_of(r, pool.doubles)
    ops = EXACT if pool.exact or r.random() < 0.4 else ROUNDED
    pool.doubles.append(_bounded(pool, one_of(r, ops)(x, r)))


def _bounded(pool: Pool, x):
    # Products of values of the size of one; the others are bounded.
    return jnp.where(jnp.abs(x) < 4.0, x, x * 0.0) if pool.exact else 0.9 * jnp.sin(x)


def _pair(pool: Pool, r) -> None:
    x, y = one_of(r, pool.doubles), one_of(r, pool.doubles)
    if x.shape != y.shape:
        x, y = three(x), three(y)
    op = one_of(r, PAIRS[: 3 if pool.exact else None])
    pool.doubles.append(_bounded(pool, op(x, y)))


def _single(pool: Pool, r) -> None:
    x = one_of(r, pool.doubles).astype(jnp.float32) if r.integers(2) else one_of(r, pool.singles)
    y = one_of(r, pool.singles)
    x = jnp.float32(0.5) * x if pool.exact else jnp.sin(x) * jnp.float32(one_of(r, FACTORS))
    pool.singles.append(x if x.shape != y.shape else x * y)


def _integers(pool: Pool, r) -> tuple:
    n, m = one_of(r, pool.integers), one_of(r, pool.integers)
    return n, m.astype(n.dtype)


def _integer(pool: Pool, r) -> None:
    n, m = _integers(pool, r)
    k, x, p = n.dtype.type(r.integers(1, 5)), one_of(r, pool.doubles), one_of(r, pool.flags)
    pool.integers.append(one_of(r, WHOLE)(r, n, m, k, x, p))


def _flag(pool: Pool, r) -> None:
    x, p = one_of(r, pool.doubles), one_of(r, pool.flags)
    pool.flags.append(one_of(r, FLAGS)(*_integers(pool, r), x, p))


def _indexed(pool: Pool, r) -> None:
    x, y = three(one_of(r, pool.doubles)), three(one_of(r, pool.doubles))[0]
    n, m = (x.astype(jnp.int32) for x in _integers(pool, r))
    pool.doubles.append(one_of(r, INDEXED)(x, y, n, m))


def _branch(pool: Pool, r, depth: int) -> None:
    x, n = three(one_of(r, pool.doubles)), one_of(r, pool.integers)
    seeds = [int(r.integers(2**31)) for _ in range(3)]

    def taken(seed):
        def run(x, n):
            inner = pool.inner([x], [n])
            block(inner, seed, 2, depth - 1)
            return three(inner.doubles[-1]), inner.integers[-1].astype(jnp.int32)

        return run

    if r.integers(2):
        x, m = lax.cond(one_of(r, pool.flags), *map(taken, seeds[:2]), x, n)
    else:
        # Some are beyond the branches, on both sides.
        index = lax.rem(n.astype(jnp.int32), jnp.int32(5))
        x, m = lax.switch(index, list(map(taken, seeds)), x, n)
    pool.doubles.append(x)
    pool.integers.append(m)


def _loop(pool: Pool, r, depth: int) -> None:
    x, n = three(one_of(r, pool.doubles)), one_of(r, pool.integers)
    rows, seed = one_of(r, pool.doubles), int(r.integers(2**31))
    limit, flag = one_of(r, pool.integers).astype(jnp.int32) % 4, one_of(r, pool.flags)

    def step(x, n, row, *flags):
        inner = pool.inner([x, row], [n], flags)
        block(inner, seed, 2, depth - 1)
        x = three(inner.doubles[-1])
        return x if pool.exact else 0.8 * x, n + n.dtype.type(1)

    loop = one_of(r, (_rows, _rows, _times, _until, _until, _while_large, _while_set, _nested))
    x, n, *saved = loop(r, step, x, n, rows, limit, flag)
    if loop in _OPEN and not pool.exact:
        x = shared_search(x, n.astype(jnp.int64) % 3)
    pool.doubles += [*saved, x]
    pool.integers.append(n)


def _rows(r, step, x, n, rows, limit, flag):
    """As many passes as rows, of which there may be none."""
    rows = rows if rows.ndim else rows[None]

    def scanned(carry, row):
        carry = step(*carry, row)
        return carry, (carry[0], row)

    (x, n), (saved, _) = lax.scan(scanned, (x, n), rows, reverse=bool(r.integers(2)))
    return x, n, saved[:, 0]


def _times(r, step, x, n, rows, limit, flag):
    return lax.fori_loop(0, int(r.integers(4)), lambda _, c: step(*c, rows), (x, n))


def _until(r, step, x, n, rows, limit, flag):
    """Each member has a count of its own, or all have one."""
    return lax.fori_loop(jnp.int32(0), limit, lambda _, c: step(*c, rows), (x, n))


def _while_large(r, step, x, n, rows, limit, flag):
    return lax.while_loop(
        lambda c: (jnp.max(c[0]) > DIGITS) & (c[2] < 3),
        lambda c: (*step(*c[:2], rows), c[2] + 1),
        (x, n, jnp.int32(0)),
    )[:2]


def _while_set(r, step, x, n, rows, limit, flag):
    """A flag that is carried, and goes down at other passes for other members."""

    def body(c):
        x, n, going, k = c
        x, n = step(x, n, rows, going)
        return x, n, (k < limit) & (x[0] < 2 * DIGITS), k + 1

    return lax.while_loop(lambda c: c[2], body, (x, n, flag, jnp.int32(0)))[:2]


def _nested(r, step, x, n, rows, limit, flag):
    """A search in a search, both as long as each member has it."""

    def outer(c):
        x, n, i = c
        inner = lambda c: (*step(*c[:2], rows), c[2] + 1)  # noqa: E731
        x, n, _ = lax.while_loop(lambda c: (c[2] < 2) & (c[0][0] < DIGITS), inner, (x, n, i))
        return 0.9 * x[::-1], n, i + 1

    return lax.while_loop(lambda c: c[2] < limit, outer, (x, n, jnp.int32(0)))[:2]


_OPEN = (_while_large, _while_set)
SIMPLE = (_double, _double, _pair, _pair, _single, _integer, _integer, _flag, _indexed, _indexed)


def block(pool: Pool, seed: int, count: int, depth: int) -> None:
    """Draw `count` operations and, at most `depth` deep, loops and branches."""
    r = np.random.default_rng(seed)
    for _ in range(count):
        if depth and r.random() < _DEEPER:
            one_of(r, (_branch, _loop))(pool, r, depth)
        else:
            one_of(r, SIMPLE)(pool, r)


def arguments(seed: int, members: int) -> tuple:
    """Vectors, numbers, integers and flags of the members; zeros of both signs are among them."""
    r = np.random.default_rng(seed)
    zeros = r.random((members, 3)) < 0.2
    x = np.where(zeros, one_of(r, (0.0, -0.0)), r.uniform(-1, 1, (members, 3)))
    n = r.integers(-3, 6, members, dtype=np.int32)
    return tuple(map(jnp.asarray, (x, r.uniform(-1, 1, members), n, r.random(members) < 0.5)))


def constants(seed: int) -> tuple:
    """Matrix, number, integer and flag that all members share; some entries are zeros and ones."""
    r = np.random.default_rng(seed)
    matrix = np.where(r.random((2, 3)) < 0.4, one_of(r, FACTORS[:4]), r.uniform(-1, 1, (2, 3)))
    return matrix, np.asarray(one_of(r, FACTORS)), np.int32(r.integers(4)), r.random() < 0.5


class _Program:
    """A random program: operations, the body of a loop, operations."""

    def __init__(self, seed: int, exact: bool, count: int, depth: int, given: tuple, shared: tuple):
        r = np.random.default_rng(seed)
        x, y, n, p = given
        matrix, number, k, flag = map(jnp.asarray, shared)
        doubles = [jnp.zeros(0), number, matrix, y, x]
        integers, flags = [k, jnp.uint8(200), n], [flag, p]
        self.pool = Pool(doubles, [x.astype(jnp.float32)], integers, flags, exact)
        first, self.inside, self.last = (int(s) for s in r.integers(2**31, size=3))
        self.count, self.depth, self.start = count, depth, (x, n)
        block(self.pool, first, 1, 0)

    def step(self, carry: tuple, row: jax.Array, passes: jax.Array) -> tuple[tuple, Any]:
        """Body of the loop. Row and number of passes are those of all members."""
        x, n = carry
        pool, matrix = self.pool, self.pool.doubles[2]
        inner = pool.inner([*pool.doubles[1:3], row, row * x, x], [passes, n], [passes > -4])
        saved = inner.drawn(self.inside, self.count, self.depth)
        x = three(inner.doubles[-1])
        return (x if pool.exact else 0.8 * x + 0.1 * matrix[0], n + 1), saved

    def results(self, carry: tuple) -> Any:
        """What is made of the end of the loop."""
        pool, (x, n) = self.pool, carry
        pool.doubles.append(x)
        pool.integers.append(n)
        return x, n, pool.drawn(self.last, 1, 0)


class Form(enum.Enum):
    """How a loop is evaluated."""

    NUMBERS = "taken apart"
    ARRAYS = "with the members last, as an array in it is too large to be taken apart"
    CALLS = "taken apart once for each set of constants that it is called with"


# Numbers of a large array; passes of loops that are not written out; of a loop over them.
_LARGE, _LONG, _MOST = 1025, 17, 5


def programs(
    seeds: Sequence[int], form: Form, exact: bool, count: int, depth: int
) -> Callable[..., Any]:
    """Random programs of one member with one loop in common: results by seed, and of the loop.

    `count`: operations, loops and branches in the loop; `depth`: how deep these are.
    """

    def run(given, shared):
        parts = [_Program(seed, exact, count, depth, given, shared) for seed in seeds]

        def step(carry, row):
            carries, passes, large = carry
            own = zip(parts, carries, strict=True)
            pairs = [x.step(carry, row, passes) for x, carry in own]
            carries = [carry for carry, _ in pairs]
            # Starts that all members share, from below the first place on.
            entry = lax.dynamic_slice(carries[0][0], (passes,), (1,))
            return (carries, passes + 1, -large), ([saved for _, saved in pairs], entry)

        rows = jnp.asarray([1.0, -0.5, 0.0])
        if form is Form.CALLS:
            rows = jnp.resize(rows, _LONG)
        large = jnp.zeros(_LARGE if form is Form.ARRAYS else 0)
        # Below the first place of any axis at first.
        start = [x.start for x in parts], jnp.int32(-5), large
        (carries, *_), (saved, entries) = lax.scan(step, start, rows, reverse=bool(seeds[0] % 4))
        results = [x.results(carry) for x, carry in zip(parts, carries, strict=True)]
        return dict(zip(seeds, zip(saved, results, strict=True), strict=True)), entries

    first, second = constants(seeds[0]), constants(seeds[0] + 1)
    if form is not Form.CALLS:
        return lambda *given: run(given, first)
    shared_run = jax.jit(run)

    def calls(x, y, n, p):
        def alike(_, row):
            # The same constants, and a vector that all members share.
            return None, shared_run((row, y, n, p), first)

        def heavy(x, _):
            # Most of the work is in these calls: their loop is taken apart.
            x, *_ = shared_run((x, y, n, p), first)[0][seeds[0]][1]
            return x, None

        _, found = lax.scan(alike, None, jnp.asarray(second[0][:1]))
        x, _ = lax.scan(heavy, x, length=_MOST)
        of_member = (jnp.stack([x, -x]), y, n, p)
        return [found, *(shared_run((x, y, n, p), own) for own in (second, of_member))]

    return calls


# Sums are added in another order, in single precision too, and loops are short and contract.
TOLERANCES = {"float64": 1e-11, "float32": 1e-4}


def check_alike(got: Any, expected: Any, form: Form, exact: bool = False) -> None:
    """Assert that results of a batch are those of `jax.vmap`; if exact, with the signs of zeros."""
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
