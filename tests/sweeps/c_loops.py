"""Loops of a batch in C, compiled for this machine: what a GPU's threads compute, without one."""

import ctypes
import itertools
import pathlib
import subprocess
import tempfile

import jax
import numpy as np

from lie_jax.sweeps.batching import threads
from lie_jax.sweeps.batching.c_operations import PRELUDE
from lie_jax.sweeps.batching.c_source import arguments

_FOLDER = tempfile.TemporaryDirectory()
_NUMBER = itertools.count()
COMPILER = "gcc"


def source(written, size):
    """A function of C that takes all members through a loop."""
    return f"""#include <math.h>
#include <stdbool.h>
#define SIZE {size}ull
#define NOT_A_NUMBER NAN
#define INFINITE INFINITY
#define FUNCTION static inline
#define NOT_UNROLLED
#define __restrict__ restrict
{PRELUDE}
void loop({arguments(written.loop)}) {{
for (size_type member = 0; member < SIZE; ++member) {{
{written.lines}
}}
}}
"""


def start(written, arrays, shapes, size):
    """Results of a loop by C, as `threads.run` wants them."""
    path = pathlib.Path(_FOLDER.name) / f"loop{next(_NUMBER)}"
    path.with_suffix(".c").write_text(source(written, size))
    files = f"{path}.so", f"{path}.c"
    # Without contracted products, as XLA computes on CPUs.
    options = ["-O1", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *options, "-o", *files, "-lm"], check=True)
    function = ctypes.CDLL(files[0]).loop

    def call(*arrays):
        given = [np.ascontiguousarray(x) for x in arrays]
        results = [np.zeros(x.shape, x.dtype) for x in shapes]
        function(*(x.ctypes.data_as(ctypes.c_void_p) for x in (*given, *results)))
        return results

    return jax.pure_callback(call, shapes, *arrays, vmap_method="sequential")


class Threads(threads.Threads):
    """Evaluation of a program's loops by C."""

    def loop(self, equation, values, size):
        """Results of a loop, None if it stays as it is."""
        written = self._loops.of(equation, values)
        return None if written is None else threads.run(written, equation, values, size, start)
