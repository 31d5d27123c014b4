"""Operations of random programs, and jitted loops that these share.

Floats stay of the size of one. They are compared with digits that no constant has: rounding then
decides no branch and no integer.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import lie_jax
from lie_jax.numerics import native, rules

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


@jax.custom_batching.custom_vmap
def own_batch(x):
    """Sine with a batch of its own."""
    return jnp.sin(x)


own_batch.def_vmap(lambda _, mapped, x: (jnp.sin(x), mapped[0]))


@native.part
def native_part(x):
    """Small function that is compiled by itself."""
    return jnp.sin(x) * jnp.sum(x) + x[::-1]


def vector(x):
    return jnp.reshape(x, (-1,))


def three(x):
    """The first three entries, as many as are missing zeros."""
    flat = vector(x)[:3]
    return jnp.concatenate([flat, jnp.zeros(3 - flat.shape[0], flat.dtype)])


# Operations on one double: exact in the signs of zeros, and others.
EXACT: list[Callable] = [
    lambda x, r: x * FACTORS[r.integers(7)],
    lambda x, r: 0.0 - x,
    lambda x, r: -x,
    lambda x, r: x / (1.5 if r.integers(2) else 1.0),
    lambda x, r: jnp.abs(x) * -1.0,
    lambda x, r: x.T,
    lambda x, r: jnp.flip(x),
    lambda x, r: vector(x),
    lambda x, r: jnp.tile(vector(x), 2)[:4],
    lambda x, r: jnp.where(x > DIGITS, x, -x),
    lambda x, r: lax.select(x < -DIGITS, x * 0.0, x),
    lambda x, r: x * x * x,
    lambda x, r: jnp.stack([x, -x])[r.integers(2)],
    lambda x, r: jnp.pad(vector(x), (int(r.integers(2)), 1))[:4],
    lambda x, r: jnp.broadcast_to(vector(x)[:1], (2,) if x.size else (0,)),
    lambda x, r: jnp.concatenate([vector(x), vector(-x)])[::2],
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
    lambda x, r: jnp.max(vector(x), initial=-0.5) - jnp.min(vector(x), initial=0.5),
    lambda x, r: jnp.prod(three(x)),
    lambda x, r: jnp.cumsum(vector(x)) * 0.3,
    lambda x, r: lax.cumprod(vector(x)) + lax.cummax(vector(x), reverse=True),
    lambda x, r: lax.cumsum(vector(x), reverse=True) * jnp.arange(float(x.size)),
    lambda x, r: jnp.sort(vector(x)),
    lambda x, r: jnp.asarray(TABLE) @ three(x),
    lambda x, r: jnp.einsum("ij,i,j->ij", jnp.asarray(TABLE), three(x)[:2], three(x)) * 0.3,
    lambda x, r: jnp.einsum("ij,ij->i", jnp.asarray(TABLE), jnp.stack([three(x), -three(x)])),
    lambda x, r: jnp.stack([three(x), -three(x)]) @ jnp.asarray(TABLE).T,
    lambda x, r: lax.pad(three(x), 0.3, [(int(r.integers(-2, 2)), -1, int(r.integers(2)))]),
    lambda x, r: jnp.concatenate([vector(x)[:0], jnp.zeros(1) + jnp.sum(vector(x)[:0])]),
    lambda x, r: three(x)[np.asarray([2, 0, 0, 1])],
    lambda x, r: own_tangent(x) + own_cotangent(x),
    lambda x, r: own_batch(x),
    lambda x, r: native_part(three(x)),
    lambda x, r: rules.value_as(jnp.sin(x), jnp.sin, x),
    lambda x, r: shared_loop(three(x), r.uniform(-1, 1, 3)),
    lambda x, r: shared_loop(three(x), jnp.asarray(TABLE[r.integers(2)])),
    lambda x, r: shared_loop(three(x), 0.5 * three(x)),
    lambda x, r: lie_jax.groups.so3.exp(three(x)),
    lambda x, r: lie_jax.groups.so3.log(lie_jax.groups.so3.exp(0.3 * three(x))),
    lambda x, r: jnp.linalg.solve(4.0 * jnp.eye(3) + jnp.outer(three(x), TABLE[1]), three(x)),
    lambda x, r: jax.vmap(lambda y: jnp.cos(y) * 0.5, in_axes=0)(vector(x)),
    lambda x, r: lax.map(lambda y: y * y - 0.1, vector(x)),
    lambda x, r: jnp.fft.fft(three(x)).real * 0.3,
    lambda x, r: jax.jit(lambda y: y + 0.1 * jnp.sum(jnp.asarray(LARGE)[: y.size]))(vector(x)),
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


def one_of(r, values):
    """A value that is drawn."""
    return values[r.integers(len(values))]


# Operations on integers n and m of one type and k of 1 to 4, one double and one flag.
WHOLE: list[Callable] = [
    lambda r, n, m, k, x, p: n + k,
    lambda r, n, m, k, x, p: n * n.dtype.type(r.integers(3)),
    lambda r, n, m, k, x, p: n // k,
    lambda r, n, m, k, x, p: n % k,
    lambda r, n, m, k, x, p: lax.shift_left(n, k),
    lambda r, n, m, k, x, p: lax.shift_right_logical(n, k),
    lambda r, n, m, k, x, p: lax.shift_right_arithmetic(n, k),
    lambda r, n, m, k, x, p: (n & n.dtype.type(6)) ^ k,
    lambda r, n, m, k, x, p: lax.population_count(n),
    lambda r, n, m, k, x, p: lax.clz(n),
    lambda r, n, m, k, x, p: -n,
    lambda r, n, m, k, x, p: jnp.zeros((), n.dtype) - n,
    lambda r, n, m, k, x, p: lax.div(n, k),
    lambda r, n, m, k, x, p: lax.div(n, m | n.dtype.type(1)),
    lambda r, n, m, k, x, p: lax.rem(n, m | n.dtype.type(1)),
    lambda r, n, m, k, x, p: n - m,
    lambda r, n, m, k, x, p: n * m,
    lambda r, n, m, k, x, p: jnp.maximum(n, m) - jnp.minimum(n, k),
    lambda r, n, m, k, x, p: jnp.abs(n) * jnp.sign(m),
    lambda r, n, m, k, x, p: jnp.where(p, n, m),
    lambda r, n, m, k, x, p: n.astype(one_of(r, INTEGERS)),
    lambda r, n, m, k, x, p: p.astype(one_of(r, INTEGERS)),
    lambda r, n, m, k, x, p: jnp.sum(jnp.stack([n, m, k])),
    lambda r, n, m, k, x, p: jnp.argmin(jnp.stack([n, m, k])),
    lambda r, n, m, k, x, p: jnp.argmax(three(x) + jnp.asarray([0.0, 0.07, 0.13]) * DIGITS),
    # The first of equal ones, and the first that is no number.
    lambda r, n, m, k, x, p: jnp.argmax(three(x) > DIGITS),
    lambda r, n, m, k, x, p: jnp.argmin(jnp.where(three(x) > DIGITS, jnp.nan, three(x))),
    lambda r, n, m, k, x, p: jnp.floor(5.0 * x + DIGITS).sum().astype(one_of(r, INTEGERS[::2])),
]
# Flags of integers of one type, one double and one flag.
FLAGS: list[Callable] = [
    lambda n, m, x, p: jnp.any(x > DIGITS),
    lambda n, m, x, p: jnp.all(three(x) < DIGITS) | p,
    lambda n, m, x, p: n > n.dtype.type(2),
    lambda n, m, x, p: n <= m,
    lambda n, m, x, p: ~p,
    lambda n, m, x, p: (n == n.dtype.type(1)) ^ p,
    lambda n, m, x, p: jnp.isfinite(x).all() & p,
]
# Entries of three doubles x by an integer n, or by n and m, in their place a number y.
INDEXED: list[Callable] = [
    lambda x, y, n, m: x[n % 3],
    lambda x, y, n, m: lax.dynamic_index_in_dim(x, n, keepdims=False),
    lambda x, y, n, m: lax.dynamic_slice(x, (n,), (2,)),
    lambda x, y, n, m: lax.dynamic_slice(x, (n,), (0,)),
    lambda x, y, n, m: lax.dynamic_slice(x, (n % 3 - 6,), (1,)),
    lambda x, y, n, m: lax.dynamic_update_slice(x, y[None], (n % 3 - 6,)),
    lambda x, y, n, m: lax.dynamic_slice(jnp.stack([x, -x]), (n, m), (1, 2)),
    lambda x, y, n, m: lax.dynamic_slice(jnp.stack([x, -x]), (m, jnp.int32(1)), (1, 2)),
    lambda x, y, n, m: lax.dynamic_update_slice(x, y[None], (n,)),
    lambda x, y, n, m: lax.dynamic_update_slice(x[:1], y[None], (n,)),
    lambda x, y, n, m: lax.dynamic_update_slice(x, jnp.stack([y, -y]), (n,)),
    lambda x, y, n, m: lax.dynamic_update_slice(jnp.stack([x, -x]), y[None, None], (n, m)),
    lambda x, y, n, m: lax.dynamic_update_slice(jnp.stack([x, -x]), x[None, :2], (m, jnp.int32(5))),
    lambda x, y, n, m: x.at[n % 3].set(y),
    lambda x, y, n, m: x.at[n % 4].multiply(y, mode="drop"),
    lambda x, y, n, m: x.at[jnp.stack([n, m]) % 3].add(y),
    lambda x, y, n, m: jnp.asarray(LARGE)[n % 2000] * x,
    lambda x, y, n, m: jnp.stack([x, -x])[n % 2, m % 3],
    lambda x, y, n, m: x.at[jnp.stack([n, n + 1])].get(mode="fill", fill_value=0.5),
    lambda x, y, n, m: x.at[np.asarray([1, 3, -1])].get(mode="fill", fill_value=0.5),
    lambda x, y, n, m: x[np.zeros(0, int)],
    lambda x, y, n, m: jnp.take(x, n, mode="clip"),
    lambda x, y, n, m: jnp.take(x, jnp.stack([n, m]), mode="wrap"),
]
