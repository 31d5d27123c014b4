"""Cost of the wait before a first result and a first derivative: tracing, lowering, compiling.

`python -m benchmarks.compile_cost` measures each program in a fresh process pinned to one core,
without a cache, after `lie_jax.configure()`, and writes `out/bench/compile_cost.json` and a table:
equations of the jaxpr, instructions of XLA's optimised program, CPU seconds to trace and lower and
to compile, CPU time of a step. Building the mechanism is a part of tracing. What is called without
`jax.jit` has one sum, with its run. Seconds are of this machine; equations and instructions are the
same everywhere with one release of JAX.
"""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks._processes import (
    arguments_of,
    conditions,
    cpu_seconds,
    in_fresh_process,
    pin_to_one_core,
    write,
)

COLUMNS = (
    "equations",
    "instructions",
    "trace + lower (s)",
    "compile (s)",
    "in all (s)",
    "step (µs)",
)


def _equations(jaxpr: Any) -> int:
    from jax.extend.core import ClosedJaxpr, Jaxpr

    def is_program(x: Any) -> bool:
        return isinstance(x, ClosedJaxpr | Jaxpr)

    import jax

    total = 0
    for equation in jaxpr.eqns:
        leaves = jax.tree.leaves(equation.params, is_leaf=is_program)
        inner = [getattr(x, "jaxpr", x) for x in leaves if is_program(x)]
        total += sum(map(_equations, inner)) if inner else 1
    return total


def _phases(function: Callable, at: Any, repeats: int) -> list[float]:
    import jax

    from benchmarks._programs import STEPS

    moments = [time.process_time()]

    def then(result: Any) -> Any:
        moments.append(time.process_time())
        return result

    traced = jax.jit(function).trace(at)
    lowered = then(traced.lower())
    compiled = then(lowered.compile())
    seconds = [after - before for before, after in itertools.pairwise(moments)]
    if not jax.numpy.isfinite(compiled(at)):
        raise RuntimeError(f"the result is {compiled(at)}: the program describes no motion.")
    counts = _equations(traced.jaxpr.jaxpr), compiled.as_text().count(" = ")
    step = cpu_seconds(lambda: compiled(at), repeats) / STEPS
    return [*map(float, counts), *seconds, sum(seconds), 1e6 * step]


def measure(name: str, mode: str, repeats: int) -> list[float]:
    """Row of a program: numbers of the columns, or one sum of seconds without a mode."""
    import jax
    import jax.numpy as jnp

    import lie_jax
    from benchmarks import _programs

    lie_jax.configure(cache=False, quiet=True)
    program = _programs.programs()[name]
    at, function = jnp.asarray(program.at), program.function
    if not mode:
        begin = time.process_time()
        jax.block_until_ready(function(program.at))
        return [time.process_time() - begin]
    functions = {
        "result": function,
        "gradient": jax.grad(function),
        "forward mode": lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1],
    }
    return _phases(functions[mode], at, repeats)


def main() -> None:
    """Measure in fresh processes; print and write the table."""
    arguments = arguments_of(__doc__, "name", "mode")
    if arguments.child:
        print(json.dumps(measure(arguments.name, arguments.mode or "", arguments.repeats)))
        return
    from benchmarks._programs import programs

    pin_to_one_core()
    figures, lines = {}, [conditions(arguments.repeats), ""]
    lines += [f"| | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    for name, program in programs().items():
        for mode in program.modes or ("",):
            title = f"{name}: {mode}" if mode else name
            words = ["--name", name, *(["--mode", mode] if mode else [])]
            row = in_fresh_process("benchmarks.compile_cost", arguments.repeats, *words)
            figures[title] = row
            cells = [f"{x:.0f}" for x in row[:2]] + [f"{x:.1f}" for x in row[2:]]
            if not mode:
                cells = ["", "", "", "", f"{row[0]:.1f}", ""]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    write(arguments.out, "compile_cost", figures, lines)


if __name__ == "__main__":
    main()
