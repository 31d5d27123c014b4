"""Loops of small systems for a batch of members on a CPU, split into scalars.

The short arrays of a small system keep a processor's vector units idle, and each operation on them
goes through memory. Split, a step is a graph of scalars, each an array over all members, which is
evaluated in few passes over them.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from lie_jax.sweeps.batching import batch_last
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.kernels import Evaluation, bytes_touched, stack
from lie_jax.sweeps.batching.loops import Loops, Scalarized, shape_of
from lie_jax.sweeps.batching.programs import Scan, weight
from lie_jax.sweeps.batching.scalar_graph import Limits

# Each scalar of a body takes some 2 ms of compilation.
_LIMITS = Limits(
    platform="cpu",
    scalars=5000,
    entries=50_000,
    passes=16,
    unrolled=5000,
    seldom=20_000,
    share=0.5,
    has_loops=False,
)
# Bytes that a loop may touch in each pass to become one function (`lie_jax.configure`), with some
# room; numbers of a pass through a loop of arrays that stays in the caches.
_BYTES, _NUMBERS = 900_000, 6_000_000
# Members of a chunk. Fewer than the least do not fill vector units.
_MOST, _LEAST = 64, 16


class Lanes:
    """Evaluation of a program's loops as graphs of scalars, and the members of a chunk."""

    def __init__(self, program: Any, arguments: list[Value]):
        self._loops = Loops(program, arguments, _LIMITS, lambda scalarized, *_: scalarized)
        graphs, work = self._loops.made, self._loops.work
        if graphs:
            each, bound = max(bytes_touched(*x) for x in graphs), _BYTES
        else:
            each, bound = max(work.values(), default=weight(program)), _NUMBERS
        self.members = _MOST
        while self.members > _LEAST and self.members * each > bound:
            self.members //= 2

    def loop(self, equation: Any, values: list[Value], size: int) -> list[Value] | None:
        """Results of a loop for `size` members, None if splitting does not pay."""
        scalarized = self._loops.of(equation, values)
        return None if scalarized is None else _run(scalarized, equation, values, size)


def _run(taken: Scalarized, equation: Any, values: list[Value], size: int) -> list[Value]:
    parts, params = Scan.of(equation), equation.params
    constants, carry, inputs = parts.split(values)
    flags, out_flags = parts.varying([x.batched for x in values])
    given = [x.array for x in constants]
    outputs = equation.outvars[parts.carried :]

    def body(state, sliced):
        evaluation = Evaluation(taken.graph, [*given, *state, *sliced], size)
        results = evaluation.arrays(taken.results, [*flags, *out_flags])
        after = [x for rows in results[: parts.carried] for x in rows]
        saved = zip(results[parts.carried :], outputs, out_flags, strict=True)
        return after, [
            stack(rows, x.aval.shape[1:], x.aval.dtype, size if flag else None)
            for rows, x, flag in saved
        ]

    start = []
    for x, flag in zip(carry, flags, strict=True):
        array = batch_last.members_last(x, size) if flag else jnp.asarray(x.array)
        count = math.prod(shape_of(x))
        start += list(jnp.reshape(array, (count, *((size,) if flag else ()))))
    last, saved = jax.lax.scan(
        body, start, [x.array for x in inputs], length=params["length"], reverse=params["reverse"]
    )
    after = []
    for variable, flag in zip(equation.outvars, flags, strict=False):
        aval = variable.aval
        count = math.prod(aval.shape)
        rows, last = last[:count], last[count:]
        array = stack(rows, aval.shape, aval.dtype, size if flag else None)
        after.append(Value(array, flag))
    return [*after, *map(Value, saved, out_flags)]
