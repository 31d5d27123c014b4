"""Cost of the wait before a first result: tracing, lowering and compiling ten programs.

`python -m benchmarks.compile_cost` measures them in a fresh process pinned to one core, without a
cache and with the flags of `lie_jax.configure()`, and writes `out/bench/compile_cost.json` and a
table: equations of the jaxpr, instructions of XLA's optimised program, CPU seconds of each phase.
The first rows are a heavy top, run first and then differentiated, as users do. Seconds are of this
machine; equations and instructions are the same everywhere with one release of JAX.
"""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks._processes import (
    RAISED_THRESHOLD,
    arguments_of,
    conditions,
    in_fresh_process,
    pin_to_one_core,
    write,
)

STEPS = 100
COLUMNS = ("equations", "instructions", "trace", "lower", "compile")


def _arm():
    """Six hinges in joint coordinates, of the shape of an industrial arm."""
    import numpy as np

    import lie_jax

    axes = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 1, 0))
    bodies = [
        lie_jax.Body(f"link {i}", 2.0, 0.02 * np.eye(3), position=(0.0, 0.0, 0.3 + 0.3 * i))
        for i in range(6)
    ]
    names = ["ground", *(body.name for body in bodies)]
    joints = [
        lie_jax.RevoluteJoint(names[i], names[i + 1], axis, child_point=(0.0, 0.0, -0.3))
        for i, axis in enumerate(axes)
    ]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.Minimal())


def _models() -> dict[str, tuple[Any, Any, Any]]:
    """System, state and integrator of each program."""
    import lie_jax
    from models import chain, heavy_top, slider_crank

    explicit, implicit = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)
    joint = heavy_top.build(constrained=True)
    return {
        "heavy top, RKMK4": (*heavy_top.build(), explicit),
        "heavy top with its joint, RKMK4": (*joint, explicit),
        "heavy top with its joint, generalized-α": (*joint, implicit),
        "slider-crank, generalized-α": (*slider_crank.build(), implicit),
        "four constrained bodies, RKMK4": (*chain.build(n=4), explicit),
        "chain of 16, generalized-α": (*chain.build(n=16), implicit),
        "arm of six hinges, RKMK4": (*_arm(), explicit),
    }


GRADIENTS = (
    "heavy top, RKMK4",
    "heavy top with its joint, generalized-α",
    "arm of six hinges, RKMK4",
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


def _phases(function: Callable, *arguments: Any) -> list[float]:
    import jax

    moments = [time.process_time()]

    def then(result: Any) -> Any:
        moments.append(time.process_time())
        return result

    traced = then(jax.jit(function).trace(*arguments))
    lowered = then(traced.lower())
    compiled = then(lowered.compile())
    seconds = [after - before for before, after in itertools.pairwise(moments)]
    counts = _equations(traced.jaxpr.jaxpr), compiled.as_text().count(" = ")
    return [*map(float, counts), *seconds]


def measure() -> dict[str, list[float]]:
    """Rows of the table; those of the heavy top have only a sum of seconds."""
    import jax
    import jax.numpy as jnp

    import lie_jax

    def height(mass):
        inertia = jnp.diag(jnp.asarray([0.24, 0.47, 0.24]))
        start = {"position": (0, 1, 0), "velocity": (4.6, 0, 0), "omega_body": (0, 150, -4.6)}
        joint = lie_jax.SphericalJoint("ground", "top", child_point=(0, -1, 0))
        mechanism = lie_jax.Mechanism([lie_jax.Body("top", mass, inertia, **start)], [joint])
        system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
        return lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=STEPS
        ).q[-1, 2]

    figures = {}
    for name, function in (("heavy top, first result", height), ("its gradient", jax.grad(height))):
        begin = time.process_time()
        jax.block_until_ready(function(15.0))
        figures[name] = [time.process_time() - begin]

    models = _models()
    for name in (*models, *(f"gradient of {name}" for name in GRADIENTS)):
        system, state, integrator = models[name.removeprefix("gradient of ")]

        def end(q, v, system=system, integrator=integrator):
            run = lie_jax.simulate(
                system, integrator, lie_jax.State(q, v), dt=1e-3, steps=STEPS, throw=False
            )
            return jnp.sum(run.q[-1])

        function = jax.grad(end, (0, 1)) if name.startswith("gradient") else end
        figures[name] = _phases(function, state.q, state.v)
    return figures


def main() -> None:
    """Measure in a fresh process; print and write the table."""
    arguments = arguments_of(__doc__)
    if arguments.child:
        import lie_jax

        lie_jax.configure()
        print(json.dumps(measure()))
        return
    pin_to_one_core()
    figures = in_fresh_process("benchmarks.compile_cost", 1, XLA_FLAGS=RAISED_THRESHOLD)
    lines = [conditions(1), "", f"| | {' | '.join(COLUMNS)} | in all (s) |", "|---|" + "---:|" * 6]
    for name, row in figures.items():
        counts = [f"{x:.0f}" for x in row[:2]] if len(row) > 1 else ["", ""]
        phases = [f"{x:.2f}" for x in row[2:]] if len(row) > 1 else ["", "", ""]
        seconds = sum(row[2:]) if len(row) > 1 else row[0]
        lines.append(f"| {name} | {' | '.join([*counts, *phases])} | {seconds:.2f} |")
    write(arguments.out, "compile_cost", figures, lines)


if __name__ == "__main__":
    main()
