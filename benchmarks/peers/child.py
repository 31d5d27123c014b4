"""One program in a process of its own, which measures itself when it is told to.

`python -m benchmarks.peers.child LIBRARY CASE` sets the program up, prints one line of JSON about
it, and then, for each line it reads, runs it and prints the CPU seconds a step.
"""

import argparse
import contextlib
import importlib
import json
import math
import sys
import time
from collections.abc import Callable

from benchmarks.peers.cases import Missing

LIBRARIES = {
    "lie_jax": "benchmarks.peers.ours",
    "Exudyn": "benchmarks.peers.exudyn_models",
    "MuJoCo C": "benchmarks.peers.mujoco_models",
    "MJX": "benchmarks.peers.mjx_models",
    "Pinocchio": "benchmarks.peers.pinocchio_models",
    "diffrax": "benchmarks.peers.diffrax_top",
    "own C": "benchmarks.peers.c_programs",
}
# Shorter measurements are repeated: the clock of a process is coarse.
SHORTEST = 0.03


def seconds(function: Callable, calls: int) -> float:
    """CPU time of the process for one of several calls."""
    begin = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - begin) / calls


def main() -> None:
    """Serve one program until the input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("case")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    # What libraries print must not come between.
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        try:
            module = importlib.import_module(LIBRARIES[arguments.library])
            program = module.program(arguments.case, arguments.quick)
        except Missing as error:
            print(json.dumps({"missing": str(error)}), file=answers, flush=True)
            return
        except Exception as error:
            # A peer that fails, or is not installed, costs its row and nothing else.
            said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            print(json.dumps({"missing": said}), file=answers, flush=True)
            return
        functions = [f for f in (program.run, program.base) if f is not None]
        firsts = [seconds(f, 1) for f in functions]
        calls = [max(1, math.ceil(SHORTEST / max(first, 1e-6))) for first in firsts]
        about = {
            "end": program.end,
            "detail": program.detail,
            "version": module.version(),
            "call": max(firsts),
            "steps": program.units,
        }
        print(json.dumps(about), file=answers, flush=True)
        for _ in sys.stdin:
            costs = [seconds(f, n) / program.units for f, n in zip(functions, calls, strict=True)]
            print(json.dumps(costs), file=answers, flush=True)


if __name__ == "__main__":
    main()
