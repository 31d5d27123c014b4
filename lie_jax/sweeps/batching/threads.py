"""Loops of small systems for a batch of members on a GPU: a whole loop is one kernel.

XLA starts several kernels for every pass of a loop, and what one of them computes goes through
memory to the next. Here a thread takes one member through all passes, its scalars in registers; a
branch or a search is left by every member on its own.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lie_jax.numerics import nvrtc
from lie_jax.sweeps.batching import batch_last
from lie_jax.sweeps.batching.batch_last import Value
from lie_jax.sweeps.batching.c_operations import PRELUDE
from lie_jax.sweeps.batching.c_source import Array, Loop, arguments, source
from lie_jax.sweeps.batching.loops import Loops, Scalarized
from lie_jax.sweeps.batching.programs import Scan
from lie_jax.sweeps.batching.scalar_graph import Limits

# NVRTC and the assembler take some 0.4 ms for each scalar of a body.
_LIMITS = Limits(
    platform="cuda",
    scalars=60_000,
    entries=1_000_000,
    passes=64,
    unrolled=20_000,
    seldom=20_000,
    share=0.02,
    has_loops=True,
)
# Threads of a block: few, for each takes all registers that a thread may have.
_THREADS = 128


class _Written(NamedTuple):
    """A loop and its lines of C, which hold for any number of members."""

    loop: Loop
    lines: str


class Threads:
    """Evaluation of a program's loops in a kernel each; `count` of them fit."""

    def __init__(self, program: Any, arguments: list[Value]):
        self._loops = Loops(program, arguments, _LIMITS, _write)
        self.count = len(self._loops.made)

    def loop(self, equation: Any, values: list[Value], size: int) -> list[Value] | None:
        """Results of a loop for `size` members, None if it stays as it is."""
        written = self._loops.of(equation, values)
        return None if written is None else run(written, equation, values, size, _start)


def _write(scalarized: Scalarized, equation: Any, values: list[Value]) -> _Written:
    parts, params = Scan.of(equation), equation.params
    flags, _ = parts.varying([x.batched for x in values])
    avals = [x.aval for x in equation.invars]
    batched = [x.batched for x in values]
    constants, carry, inputs = parts.split(list(zip(avals, batched, strict=True)))

    loop = Loop(
        scalarized.graph,
        scalarized.results,
        [Array(math.prod(x.shape), x.dtype, varies, False) for x, varies in constants],
        [
            Array(math.prod(x.shape), x.dtype, varies, False)
            for (x, _), varies in zip(carry, flags, strict=True)
        ],
        [Array(math.prod(x.shape[1:]), x.dtype, varies, True) for x, varies in inputs],
        [
            Array(math.prod(x.aval.shape[1:]), x.aval.dtype, True, True)
            for x in equation.outvars[parts.carried :]
        ],
        params["length"],
        params["reverse"],
    )
    return _Written(loop, source(loop))


def run(written: _Written, equation: Any, values: list[Value], size: int, start: Any):
    """Results of a loop; `start(written, arrays, shapes, size)` computes its arrays.

    The members are the last axis of arrays, also of those that it returns.
    """
    loop = written.loop
    arrays = []
    for array, x in zip(loop.given, values, strict=True):
        passes = (loop.length,) if array.each_pass else ()
        whole = batch_last.members_last(x, size) if array.varies else jnp.asarray(x.array)
        arrays.append(whole.reshape(*passes, array.rows, *((size,) if array.varies else ())))
    shapes = [
        jax.ShapeDtypeStruct((*((loop.length,) if x.each_pass else ()), x.rows, size), x.dtype)
        for x in loop.written
    ]
    # Arrays without entries are no arguments of C.
    found = iter(start(written, [x for x in arrays if x.size], [x for x in shapes if x.size], size))
    flags, out_flags = Scan.of(equation).varying([x.batched for x in values])
    results = []
    for shape, variable, varies in zip(shapes, equation.outvars, [*flags, *out_flags], strict=True):
        whole = next(found) if shape.size else jnp.zeros(shape.shape, shape.dtype)
        whole = whole.reshape(*variable.aval.shape, size)
        results.append(Value(whole, True) if varies else Value(whole[..., 0], False))
    return results


def kernel(written: _Written, size: int) -> str:
    """CUDA C++ of a loop for `size` members."""
    return f"""#define SIZE {size}ull
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000ll)
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define FUNCTION static __device__ inline
#define NOT_UNROLLED _Pragma("unroll 1")
{PRELUDE}
extern "C" __global__ void __launch_bounds__({_THREADS}) loop({arguments(written.loop)}) {{
const size_type member = blockIdx.x * (size_type){_THREADS} + threadIdx.x;
if (member >= SIZE) return;
{written.lines}
}}
"""


def _start(written, arrays, shapes, size):
    ptx = nvrtc.ptx(kernel(written, size), nvrtc.architecture())
    # XLA's own call of a kernel that is given as PTX.
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", shapes, vmap_method="sequential")
    blocks = -(-size // _THREADS)
    return call(
        *arrays,
        name="loop",
        kernel_type="ptx",
        kernel_data=ptx,
        grid_x=blocks,
        grid_y=1,
        grid_z=1,
        block_x=_THREADS,
        block_y=1,
        block_z=1,
        shared_mem_bytes=0,
    )
