"""Random programs of one member, as deterministic functions of a seed.

A program works on a pool of values: floats of both precisions, integers of three types, flags and
empty arrays. It draws operations, loops, branches and calls; what is inside of a loop draws from a
seed of its own, so that every trace of it is the same.

Floats stay of the size of one. They are compared with digits that no constant has, and those of
single precision with nothing: rounding then decides no branch and no integer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import lie_jax

DIGITS = 0.2360679774997897
FACTORS = (0.0, -0.0, 1.0, -1.0, 0.5, -1.7, DIGITS)
INTEGERS = (jnp.int32, jnp.uint8, jnp.int64)
LARGE = np.sin(np.arange(2000.0))
TABLE = np.asarray([[0.0, 1.0, -1.0], [0.3, 0.0, 2.0]])


@jax.jit
def shared_loop(x, factors):
    """One program for all calls, with the factors of each."""

    def step(x, _):
        return jnp.sin(factors * x) + 0.1 * factors, x[0]

    x, _ = lax.scan(step, x, length=3)
    return x


@jax.jit
def shared_search(x, count):
    """A loop that some members leave before others."""
    return lax.while_loop(lambda c: c[1] < count, lambda c: (jnp.cos(c[0]), c[1] + 1), (x, 0))[0]


@jax.custom_jvp
def own_tangent(x):
    """Sine with another derivative."""
    return jnp.sin(x)


own_tangent.defjvp(lambda p, t: (own_tangent(*p), 3.0 * t[0]))


@jax.custom_vjp
def own_cotangent(x):
    """Cosine with another derivative."""
    return jnp.cos(x)


own_cotangent.defvjp(lambda x: (jnp.cos(x), x), lambda x, g: (2.0 * g,))


def _vector(x):
    return jnp.reshape(x, (-1,))


def _three(x):
    """The first three entries, as many as are missing zeros."""
    flat = _vector(x)[:3]
    return jnp.concatenate([flat, jnp.zeros(3 - flat.shape[0], flat.dtype)])


def _small(x):
    return 0.9 * jnp.sin(x)


# Operations on one double: exact in the signs of zeros, and others.
EXACT: list[Callable] = [
    lambda x, r: x * FACTORS[r.integers(7)],
    lambda x, r: 0.0 - x,
    lambda x, r: -x,
    lambda x, r: x / (1.5 if r.integers(2) else 1.0),
    lambda x, r: jnp.abs(x) * -1.0,
    lambda x, r: x.T,
    lambda x, r: jnp.flip(x),
    lambda x, r: _vector(x),
    lambda x, r: jnp.tile(_vector(x), 2)[:4],
    lambda x, r: jnp.where(x > DIGITS, x, -x),
    lambda x, r: lax.select(x < -DIGITS, x * 0.0, x),
    lambda x, r: x * x * x,
    lambda x, r: jnp.stack([x, -x])[r.integers(2)],
    lambda x, r: jnp.pad(_vector(x), (int(r.integers(2)), 1))[:4],
    lambda x, r: jnp.broadcast_to(_vector(x)[:1], (2,) if x.size else (0,)),
    lambda x, r: jnp.concatenate([_vector(x), _vector(-x)])[::2],
    lambda x, r: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint64), x.dtype),
    lambda x, r: jax.checkpoint(lambda y: y * -1.0)(x),
]
ROUNDED: list[Callable] = [
    lambda x, r: jnp.sin(x) + 0.25,
    lambda x, r: jnp.tanh(x + FACTORS[r.integers(7)]),
    lambda x, r: FACTORS[r.integers(7)] - x,
    lambda x, r: x / (1.5 + x * x),
    lambda x, r: jnp.sqrt(jnp.abs(x) + 0.1),
    lambda x, r: jnp.exp(-jnp.abs(x)),
    lambda x, r: jnp.arctan2(x, 1.5 + x**2),
    lambda x, r: x**2 - x**3,
    lambda x, r: jnp.clip(x, -0.7, 0.6),
    lambda x, r: jnp.sum(x, keepdims=bool(r.integers(2))) * 0.3,
    lambda x, r: jnp.max(_vector(x), initial=-0.5) - jnp.min(_vector(x), initial=0.5),
    lambda x, r: jnp.prod(_three(x)),
    lambda x, r: jnp.cumsum(_vector(x)) * 0.3,
    lambda x, r: lax.cumprod(_vector(x)) + lax.cummax(_vector(x), reverse=True),
    lambda x, r: jnp.sort(_vector(x)),
    lambda x, r: jnp.asarray(TABLE) @ _three(x),
    lambda x, r: jnp.einsum("ij,i,j->ij", jnp.asarray(TABLE), _three(x)[:2], _three(x)) * 0.3,
    lambda x, r: _three(x)[np.asarray([2, 0, 0, 1])],
    lambda x, r: own_tangent(x) + own_cotangent(x),
    lambda x, r: shared_loop(_three(x), r.uniform(-1, 1, 3)),
    lambda x, r: shared_loop(_three(x), jnp.asarray(TABLE[r.integers(2)])),
    lambda x, r: shared_loop(_three(x), 0.5 * _three(x)),
    lambda x, r: lie_jax.so3.exp(_three(x)),
    lambda x, r: lie_jax.so3.log(lie_jax.so3.exp(0.3 * _three(x))),
    lambda x, r: jnp.linalg.solve(4.0 * jnp.eye(3) + jnp.outer(_three(x), TABLE[1]), _three(x)),
    lambda x, r: jax.vmap(lambda y: jnp.cos(y) * 0.5, in_axes=0)(_vector(x)),
    lambda x, r: lax.map(lambda y: y * y - 0.1, _vector(x)),
    lambda x, r: jnp.fft.fft(_three(x)).real * 0.3,
    lambda x, r: jax.jit(lambda y: y + 0.1 * jnp.sum(jnp.asarray(LARGE)[: y.size]))(_vector(x)),
]  # fmt: skip
PAIRS: list[Callable] = [
    lambda x, y: x * y,
    lambda x, y: x / (1.5 + jnp.abs(y)),
    lambda x, y: jnp.where(y > DIGITS, x, y),
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: jnp.maximum(x, y),
    lambda x, y: jnp.arctan2(x, 1.5 + jnp.abs(y)),
]


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

    def inner(self, doubles: list, integers: list) -> "Pool":
        """Pool of a loop: what is carried, and what is read from outside."""
        doubles, integers = [*doubles, *self.doubles[-2:]], [*integers, *self.integers[-2:]]
        return Pool(doubles, self.singles[-1:], integers, self.flags[-1:], self.exact)


def _of(r, values):
    return values[r.integers(len(values))]


def _double(pool: Pool, r) -> None:
    x = _of(r, pool.doubles)
    ops = EXACT if pool.exact or r.random() < 0.4 else ROUNDED
    pool.doubles.append(_bounded(pool, _of(r, ops)(x, r)))


def _bounded(pool: Pool, x):
    # Products of values of the size of one; the others are bounded.
    return jnp.where(jnp.abs(x) < 4.0, x, x * 0.0) if pool.exact else _small(x)


def _pair(pool: Pool, r) -> None:
    x, y = _of(r, pool.doubles), _of(r, pool.doubles)
    if x.shape != y.shape:
        x, y = _three(x), _three(y)
    op = _of(r, PAIRS[: 3 if pool.exact else None])
    pool.doubles.append(_bounded(pool, op(x, y)))


def _single(pool: Pool, r) -> None:
    x = _of(r, pool.doubles).astype(jnp.float32) if r.integers(2) else _of(r, pool.singles)
    y = _of(r, pool.singles)
    x = jnp.float32(0.5) * x if pool.exact else jnp.sin(x) * jnp.float32(_of(r, FACTORS))
    pool.singles.append(x if x.shape != y.shape else x * y)


def _integer(pool: Pool, r) -> None:
    n, k = _of(r, pool.integers), int(r.integers(1, 5))
    ops = [
        lambda: n + n.dtype.type(k),
        lambda: n * n.dtype.type(r.integers(3)),
        lambda: n // n.dtype.type(k),
        lambda: n % n.dtype.type(k),
        lambda: lax.shift_left(n, n.dtype.type(k)),
        lambda: (n & n.dtype.type(6)) ^ n.dtype.type(k),
        lambda: lax.population_count(n),
        lambda: -n,
        lambda: n.astype(_of(r, INTEGERS)),
        lambda: _of(r, pool.flags).astype(jnp.int32),
        lambda: jnp.argmax(_three(_of(r, pool.doubles)) + jnp.asarray([0.0, 0.07, 0.13]) * DIGITS),
        lambda: jnp.floor(5.0 * _of(r, pool.doubles) + DIGITS).sum().astype(_of(r, INTEGERS[::2])),
        lambda: jnp.zeros((), n.dtype) - n,
        lambda: lax.div(n, n.dtype.type(k)),
    ]
    pool.integers.append(_of(r, ops)())


def _flag(pool: Pool, r) -> None:
    x, n, p = _of(r, pool.doubles), _of(r, pool.integers), _of(r, pool.flags)
    ops = [
        lambda: jnp.any(x > DIGITS),
        lambda: jnp.all(_three(x) < DIGITS) | p,
        lambda: n > n.dtype.type(2),
        lambda: ~p,
        lambda: (n == n.dtype.type(1)) ^ p,
        lambda: jnp.isfinite(x).all() & p,
    ]
    pool.flags.append(_of(r, ops)())


def _indexed(pool: Pool, r) -> None:
    x, n = _three(_of(r, pool.doubles)), _of(r, pool.integers).astype(jnp.int32)
    value = _vector(_of(r, pool.doubles))
    value = value[0] if value.size else jnp.ones(())
    ops = [
        lambda: x[n % 3],
        lambda: lax.dynamic_index_in_dim(x, n, keepdims=False),
        lambda: lax.dynamic_slice(x, (n,), (2,)),
        lambda: lax.dynamic_update_slice(x, value[None], (n,)),
        lambda: lax.dynamic_update_slice(x[:1], value[None], (n,)),
        lambda: lax.dynamic_update_slice(x, jnp.stack([value, -value]), (n,)),
        lambda: x.at[n % 3].set(value),
        lambda: x.at[n % 4].multiply(value, mode="drop"),
        lambda: jnp.asarray(LARGE)[n % 2000] * x,
        lambda: x.at[jnp.stack([n, n + 1])].get(mode="fill", fill_value=0.5),
        lambda: jnp.take(x, n, mode="clip"),
    ]
    pool.doubles.append(_of(r, ops)())


def _branch(pool: Pool, r, depth: int) -> None:
    x, n = _three(_of(r, pool.doubles)), _of(r, pool.integers)
    seeds = [int(r.integers(2**31)) for _ in range(3)]

    def taken(seed):
        def run(x, n):
            inner = pool.inner([x], [n])
            block(inner, seed, 2, depth - 1)
            return _three(inner.doubles[-1]), inner.integers[-1].astype(jnp.int32)

        return run

    if r.integers(2):
        x, m = lax.cond(_of(r, pool.flags), *map(taken, seeds[:2]), x, n)
    else:
        index = lax.rem(n.astype(jnp.int32), jnp.int32(5))
        x, m = lax.switch(index, list(map(taken, seeds)), x, n)
    pool.doubles.append(x)
    pool.integers.append(m)


def _loop(pool: Pool, r, depth: int) -> None:
    x, n = _three(_of(r, pool.doubles)), _of(r, pool.integers)
    rows, seed = _of(r, pool.doubles), int(r.integers(2**31))
    kind, reverse = r.integers(5), bool(r.integers(2))

    def step(x, n, row):
        inner = pool.inner([x, row], [n])
        block(inner, seed, 2, depth - 1)
        x = _three(inner.doubles[-1])
        return x if pool.exact else 0.8 * x, n + n.dtype.type(1)

    if kind < 2:
        # As many passes as rows, of which there may be none.
        rows = rows if rows.ndim else rows[None]

        def scanned(carry, row):
            carry = step(*carry, row)
            return carry, (carry[0], row)

        (x, n), (saved, _) = lax.scan(scanned, (x, n), rows, reverse=reverse)
        pool.doubles.append(saved[:, 0])
    elif kind == 2:
        x, n = lax.fori_loop(0, int(r.integers(4)), lambda _, c: step(*c, rows), (x, n))
    elif kind == 3:
        # Each member has a count of its own, or all have one.
        count = _of(r, pool.integers).astype(jnp.int32) % 4
        x, n = lax.fori_loop(jnp.int32(0), count, lambda _, c: step(*c, rows), (x, n))
    else:
        x, n, _ = lax.while_loop(
            lambda c: (jnp.max(c[0]) > DIGITS) & (c[2] < 3),
            lambda c: (*step(c[0], c[1], rows), c[2] + 1),
            (x, n, jnp.int32(0)),
        )
        x = x if pool.exact else shared_search(x, n.astype(jnp.int64) % 3)
    pool.doubles.append(x)
    pool.integers.append(n)


SIMPLE = (_double, _double, _double, _pair, _pair, _single, _integer, _integer, _flag, _indexed)


def block(pool: Pool, seed: int, count: int, depth: int) -> None:
    """Draw `count` operations and, at most `depth` deep, loops and branches."""
    r = np.random.default_rng(seed)
    for _ in range(count):
        if depth and r.random() < 0.35:
            _of(r, (_branch, _loop))(pool, r, depth)
        else:
            _of(r, SIMPLE)(pool, r)


def arguments(seed: int, members: int) -> tuple:
    """Vectors, numbers, integers and flags of the members; zeros of both signs are among them."""
    r = np.random.default_rng(seed)
    x = np.where(r.random((members, 3)) < 0.2, _of(r, (0.0, -0.0)), r.uniform(-1, 1, (members, 3)))
    n = r.integers(-3, 6, members, dtype=np.int32)
    return tuple(map(jnp.asarray, (x, r.uniform(-1, 1, members), n, r.random(members) < 0.5)))


class _Program:
    """A random program: operations, the body of a loop, operations."""

    def __init__(self, seed: int, exact: bool, count: int, depth: int, given: tuple):
        r = np.random.default_rng(seed)
        x, y, n, p = given
        shared = jnp.asarray(r.uniform(-1, 1, (2, 3)))
        doubles = [jnp.zeros(0), jnp.asarray(0.0), shared, y, x]
        integers, flags = [jnp.int32(2), jnp.uint8(200), n], [jnp.asarray(True), p]
        self.pool = Pool(doubles, [x.astype(jnp.float32)], integers, flags, exact)
        first, self.inside, self.last = (int(s) for s in r.integers(2**31, size=3))
        self.count, self.depth, self.start = count, depth, (x, n)
        block(self.pool, first, 1, 0)

    def step(self, carry: tuple, row: jax.Array) -> tuple[tuple, Any]:
        """Body of the loop."""
        x, n = carry
        pool = self.pool
        inner = pool.inner([pool.doubles[1], row * x, x], [n])
        saved = inner.drawn(self.inside, self.count, self.depth)
        x = _three(inner.doubles[-1])
        return (x if pool.exact else 0.8 * x + 0.1, n + 1), saved

    def results(self, carry: tuple) -> Any:
        """What is made of the end of the loop."""
        pool, (x, n) = self.pool, carry
        pool.doubles.append(x)
        pool.integers.append(n)
        return x, n, pool.drawn(self.last, 1, 0)


def programs(seeds: Sequence[int], exact: bool, count: int, depth: int) -> Callable[..., dict]:
    """Random programs of one member with one loop in common, and their results by seed.

    `count`: operations, loops and branches in the loop; `depth`: how deep these are.
    """

    def run(*given):
        parts = [_Program(seed, exact, count, depth, given) for seed in seeds]

        def step(carries, row):
            pairs = [x.step(carry, row) for x, carry in zip(parts, carries, strict=True)]
            return [carry for carry, _ in pairs], [saved for _, saved in pairs]

        rows = jnp.asarray([1.0, -0.5, 0.0])
        carries, saved = lax.scan(step, [x.start for x in parts], rows)
        results = [x.results(carry) for x, carry in zip(parts, carries, strict=True)]
        return dict(zip(seeds, zip(saved, results, strict=True), strict=True))

    return run
