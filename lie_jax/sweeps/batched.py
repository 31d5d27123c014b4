"""One function for a batch of arguments, in the form that runs fastest."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.numerics import jax_internals, nvrtc, waits
from lie_jax.sweeps.batching import batch_last, lanes, loops, threads
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.fingerprint import Fingerprint, content
from lie_jax.user_functions import closures

# Compiled programs, of some 5 MB each, that are kept for calls outside of `jax.jit`.
_KEPT = 32
# Smaller batches do not fill a vector unit.
_SMALLEST = 8


def batched(fn: Callable, in_axes: Any = 0) -> Callable:
    """Function of a batch of arguments, as `jax.vmap(fn, in_axes)`; several times faster.

    On CPUs the members are evaluated in chunks, as innermost axis of all arrays; loops of small
    systems are taken apart into numbers, each an array of the chunk's members. On NVIDIA's GPUs
    such a loop is one kernel, with a thread for each member. Which form is taken depends on the
    size of what `fn` computes. Larger systems compile and run as under `jax.vmap` (on CPUs with the
    members last), operations that are not known by `jax.vmap` itself, and other devices and batches
    of less than eight members take `jax.vmap` for all of it.

    Results equal those of `jax.vmap` to rounding. Sums, sizes, squares, branches and inner loops
    count a product with a constant zero as 0, also where its other factor is infinite or NaN, and
    -0 plus such a zero may be -0. Derivatives in both modes are those of `jax.vmap`'s program, at
    its cost.

    **Arguments:**

    - `fn(*arguments)`: a pure function that returns a pytree of arrays, for example a `Trajectory`;
      simulate with `throw=False`.
    - `in_axes`: axis of the members in each array: an integer, None for what all members share, or
      a tuple with one of them, or a pytree of them, for each argument. What is no array is shared.

    **Returns** a function of positional arguments; the members are the first axis of its results.
    Outside of `jax.jit` every call traces `fn`, as `jax.vmap` does, and so reads what `fn` reads
    now; it compiles programs that are new. Under `jax.jit` a call does neither, and all that `fn`
    closes over is a constant, which is faster than an argument. It raises `ValueError` for
    arguments without members or with several numbers of them.
    """
    checks.function("batched(fn=)", fn)

    @waits.announce("the batched function")
    def call(*arguments: Any) -> Any:
        one, members = _of_member(fn, in_axes, jax.tree.map(_as_jax, arguments))
        size = _size(members)
        if jax.default_backend() not in ("cpu", "gpu") or size < _SMALLEST:
            return jax.vmap(one)(*members)
        example = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in members]
        with closures.refuse_numbers("batched(fn=)", fn, "one member of its arguments"):
            program, shapes = jax.make_jaxpr(one, return_shape=True)(*example)
        _, constants = jax_internals.unpack(program)
        evaluated = _evaluate if checks.has_tracers(members, constants) else _run_compiled
        return jax.tree.unflatten(jax.tree.structure(shapes), evaluated(program, members))

    return call


def _as_jax(x: Any) -> Any:
    return jnp.asarray(x) if isinstance(x, np.ndarray) else x


def _of_member(fn: Callable, in_axes: Any, arguments: tuple) -> tuple[Callable, list]:
    """Function of the arrays of one member, and those of all, with the members in front."""
    axes = _axes(in_axes, arguments)
    leaves, structure = jax.tree.flatten(arguments)
    members = [
        jnp.moveaxis(jnp.asarray(x), axis, 0)
        for x, axis in zip(leaves, axes, strict=True)
        if axis is not None
    ]

    def one(*rows):
        of_member = iter(rows)
        filled = [
            x if axis is None else next(of_member) for x, axis in zip(leaves, axes, strict=True)
        ]
        return jax.tree.map(jnp.asarray, fn(*structure.unflatten(filled)))

    return one, members


class _Form:
    """Compiled program: the constants of its first call are part of it, others are arguments.

    A program with fixed constants is faster. Changed constants become arguments, so that a function
    that reads another value in each call is compiled twice and not in each call.
    """

    def __init__(self):
        self.constants: tuple | None = None

        def run(known: Fingerprint, places: tuple[int, ...], given: list, members: list) -> list:
            _, constants = jax_internals.unpack(known.program)
            return _of_all(known.program, _fill(constants, places, given), members)

        self.run = jax.jit(run, static_argnums=(0, 1))


@functools.lru_cache(maxsize=_KEPT)
def _form(_: Fingerprint) -> _Form:
    return _Form()


def _run_compiled(program: Any, members: list) -> list:
    """Results by the program that was compiled for an equal one."""
    known = Fingerprint(program)
    _, constants = jax_internals.unpack(program)
    now = tuple(content(x) for x in constants if loops.is_inlined(x))
    form = _form(known)
    if form.constants is None:
        form.constants = now
    is_first = form.constants == now
    places = tuple(i for i, x in enumerate(constants) if not (is_first and loops.is_inlined(x)))
    found = form.run(known, places, [constants[i] for i in places], members)
    # The cache keeps this key: drop the program, which would keep large constants alive.
    known.program = None
    return found


def _evaluate(program: Any, members: list) -> list:
    """Results of a program of one member for all members, the first axis of each array."""
    _, constants = jax_internals.unpack(program)
    # Derivatives with respect to what the function closes over need it as an argument.
    places = [i for i, x in enumerate(constants) if jax_internals.is_traced(x)]

    @jax.custom_jvp
    def run(traced, members):
        return _of_all(program, _fill(constants, places, traced), members)

    @run.defjvp
    def _(primals, tangents):
        def map_members(traced, members):
            return _map_members(program, _fill(constants, places, traced), members)

        return jax.jvp(map_members, primals, tangents)

    return run([constants[i] for i in places], members)


def _fill(constants: Sequence, places: Sequence[int], arrays: Sequence) -> list:
    complete = list(constants)
    for place, x in zip(places, arrays, strict=True):
        complete[place] = x
    return complete


def _map_members(program: Any, constants: list, members: Sequence) -> list:
    return jax.vmap(lambda *rows: jax_internals.evaluate(program, constants, *rows))(*members)


def _of_all(program: Any, constants: list, members: list) -> list:
    """Results for all members, in the form for the platform."""
    if jax.default_backend() == "cpu":
        return _in_chunks(program, constants, members)
    if not nvrtc.is_found():
        warnings.warn(
            "NVIDIA's compiler NVRTC was not found: lie_jax.batched is jax.vmap here, some ten "
            "times slower on a GPU. `pip install nvidia-cuda-nvrtc` brings it.",
            stacklevel=2,
        )
        return _map_members(program, constants, members)

    def in_kernels(*members):
        return _in_kernels(program, constants, members)

    # A GPU may be there and the arrays not on it.
    return jax.lax.platform_dependent(
        *members, cuda=in_kernels, default=lambda *x: _map_members(program, constants, x)
    )


def _in_kernels(program: Any, constants: list, members: Sequence) -> list:
    shared, size = [Value(x, False) for x in constants], members[0].shape[0]
    kernels = threads.Threads(program, [*shared, *(Value(x[0], True) for x in members)])
    if not kernels.count:
        return _map_members(program, constants, members)
    arguments = [*shared, *(Value(jnp.moveaxis(x, 0, -1), True) for x in members)]
    results = batch_last.evaluate(program, arguments, size, kernels.loop)
    return [jnp.moveaxis(batch_last.members_last(x, size), -1, 0) for x in results]


def _in_chunks(program: Any, constants: list, members: list) -> list:
    shared, size = [Value(x, False) for x in constants], members[0].shape[0]
    taken = lanes.Lanes(program, [*shared, *(Value(x[0], True) for x in members)])
    chunk, count = _chunks(size, taken.members)

    def evaluate(rows):
        arguments = [*shared, *(Value(jnp.moveaxis(x, 0, -1), True) for x in rows)]
        results = batch_last.evaluate(program, arguments, chunk, taken.loop)
        return [jnp.moveaxis(batch_last.members_last(x, chunk), -1, 0) for x in results]

    if count == 1:
        return evaluate(members)
    chunks = jax.lax.map(evaluate, [_rows(x, count, chunk) for x in members])
    return [x.reshape(chunk * count, *x.shape[2:])[:size] for x in chunks]


def _rows(x: Any, count: int, chunk: int) -> Any:
    missing = count * chunk - x.shape[0]
    if missing:
        # Repeat the last member to fill the last chunk.
        x = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (missing, *x.shape[1:]))])
    return x.reshape(count, chunk, *x.shape[1:])


def _chunks(size: int, most: int) -> tuple[int, int]:
    """Members of a chunk, and the number of chunks: with little padding."""
    count = -(-size // most)
    if count == 1:
        return size, 1
    # Whole vectors of numbers.
    chunk = -(-size // (count * 8)) * 8
    return chunk, -(-size // chunk)


def _axes(in_axes: Any, arguments: tuple) -> list[int | None]:
    """Axis of the members in each leaf of the arguments, None without one."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    try:
        full = jax.tree.broadcast(in_axes, arguments, is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            f"batched(in_axes=) is {in_axes!r}, which does not fit the {len(arguments)} arguments; "
            "it must be an integer, None, or a tuple with one of them or a pytree for each."
        ) from error
    # None is an axis, and nothing among the arguments.
    own, given = (jax.tree.leaves(x, is_leaf=lambda x: x is None) for x in (full, arguments))
    pairs = [(axis, leaf) for axis, leaf in zip(own, given, strict=True) if leaf is not None]
    for axis, leaf in pairs:
        whole = isinstance(axis, int) and not isinstance(axis, bool)
        if axis is not None and not whole:
            raise ValueError(
                f"batched(in_axes=) holds {axis!r}; it must hold integers and None: the axis of "
                "the members, or None where all members share an array."
            )
        if whole and eqx.is_array(leaf) and not -leaf.ndim <= axis < leaf.ndim:
            raise ValueError(
                f"batched(in_axes=) holds {axis} for an array of shape {leaf.shape}; it must be "
                "an axis of the array, or None where all members share it."
            )
    return [axis if eqx.is_array(leaf) else None for axis, leaf in pairs]


def _size(members: list) -> int:
    sizes = sorted({x.shape[0] for x in members})
    if len(sizes) != 1 or not sizes[0]:
        listed = ", ".join(map(str, sizes)) or "none"
        raise ValueError(
            f"the numbers of members in the arguments of a batched function are {listed}; all "
            "arrays with an axis in batched(in_axes=) must have one number, at least one."
        )
    return sizes[0]
