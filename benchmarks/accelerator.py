"""Many trajectories at once on whatever JAX computes on: a CPU, a GPU, a TPU.

`python -m benchmarks.accelerator` simulates batches by `jax.vmap` and by `lie_jax.batched`, in
single and double precision, and writes `out/bench/accelerator.json`, a line for each figure as it
comes, and a table. Figures are wall-clock time, for an accelerator has no other, with everything
compiled before and results waited for: medians. Each case is a process of its own; with a core for
each they compile side by side, so that times of compilation are those of a busy machine, and then
compute one after another. Each batch is checked: its first members end where they end on the CPU in
double precision. Some three minutes on a GPU; `--quick` tries all of it on a CPU.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from benchmarks._processes import write
from models import heavy_top, quadruped

FORMS = {"jax.vmap": jax.vmap, "batched": lie_jax.batched}
# Of the results of the first members, relative to the largest: rounding over the steps, which the
# spin of the top (150 rad/s) and the contacts of the quadruped amplify.
SLACK = {"float64": 1e-9, "float32": 1e-3}
CHECKED = 16
STEPS, QUICK_STEPS = 200, 8
# Seconds that a process waits for the others to compile.
PATIENCE = 200.0


class Case(NamedTuple):
    """A program of one member, the arguments of `n`, its steps, batches and repeats of each."""

    program: Callable[[Any], Callable]
    members: Callable[[int], jax.Array]
    steps: int
    batches: tuple[int, ...]


def _as(dtype: Any, tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)


def _end(system, integrator, state, dt, steps):
    return lie_jax.simulate(
        system, integrator, state, dt=dt, steps=steps, save=steps, throw=False
    ).q[-1]


def _top(integrator: Any, constrained: bool, steps: int) -> Callable:
    def of(dtype):
        def end(mass):
            top = _as(dtype, heavy_top.build(mass=mass, constrained=constrained))
            return _end(top[0], integrator, top[1], 1e-4, steps)

        return end

    return of


def _gradient(of: Callable) -> Callable:
    return lambda dtype: jax.grad(lambda mass: jnp.sum(of(dtype)(mass)))


def _arm(count: int, steps: int) -> Callable:
    """Hinges about y and x in turns, which swing under gravity."""

    def of(dtype):
        def end(mass):
            inertia = np.diag([0.02, 0.02, 0.01])
            bodies = [
                lie_jax.Body(
                    f"link {i}",
                    mass / 15.0,
                    inertia,
                    center_of_mass=(0.0, 0.0, -0.2),
                    position=(0.0, 0.0, -0.3 * i),
                )
                for i in range(count)
            ]
            joints = [
                lie_jax.RevoluteJoint(
                    f"link {i - 1}" if i else "ground",
                    f"link {i}",
                    axis=(0.0, 1.0, 0.0) if i % 2 else (1.0, 0.0, 0.0),
                    parent_point=(0.0, 0.0, -0.3 if i else 0.0),
                )
                for i in range(count)
            ]
            mechanism = lie_jax.Mechanism(bodies, joints)
            system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
            state = lie_jax.State(jnp.linspace(0.1, 0.4, count), jnp.zeros(count))
            system, state = _as(dtype, (system, state))
            return _end(system, lie_jax.RKMK("rk4"), state, 1e-4, steps)

        return end

    return of


def _quadruped(steps: int) -> Callable:
    system, state = quadruped.build()

    def of(dtype):
        def end(change):
            own, start = _as(dtype, (system, lie_jax.State(state.q, state.v + change)))
            return _end(own, lie_jax.ConvexContact(), start, 2e-3, steps)

        return end

    return of


def _cases(steps: int) -> dict[str, Case]:
    def masses(n):
        return jnp.linspace(15.0, 16.0, n)

    few, many, most = 4096, 65_536, 262_144
    free = _top(lie_jax.RKMK("rk4"), False, steps)
    jointed = _top(lie_jax.GeneralizedAlpha(0.9), True, steps)
    radau = _top(lie_jax.ImplicitRKMK("radau5"), False, steps)
    rattle = _top(lie_jax.RATTLie(), True, steps)
    return {
        "heavy top, RKMK4": Case(free, masses, steps, (few, most)),
        "heavy top with its joint, generalized-α": Case(jointed, masses, steps, (few, most)),
        "heavy top with its joint, RATTLie": Case(rattle, masses, steps, (many,)),
        "heavy top, Radau 5": Case(radau, masses, steps, (many,)),
        "arm with 3 hinges, RK4": Case(_arm(3, steps), masses, steps, (many,)),
        "arm with 7 hinges, RK4": Case(_arm(7, steps), masses, steps, (few, many)),
        "quadruped that stands": Case(
            _quadruped(steps // 4), lambda n: jnp.linspace(-0.01, 0.01, n), steps // 4, (few,)
        ),
        "gradient, heavy top, RKMK4": Case(_gradient(free), masses, steps, (few, many)),
        "gradient, heavy top with its joint": Case(_gradient(jointed), masses, steps, (few,)),
    }


def _compile(form: str, case: Case, dtype: str, batch: int) -> tuple[Any, float]:
    begin = time.perf_counter()
    program = FORMS[form](case.program(np.dtype(dtype)))
    compiled = jax.jit(program).lower(case.members(batch)).compile()
    return compiled, time.perf_counter() - begin


def _measure(compiled: Any, members: jax.Array, repeats: int) -> tuple[float, jax.Array]:
    ends = jax.block_until_ready(compiled(members))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(members))
        times.append(time.perf_counter() - begin)
    return statistics.median(times), ends


def _measure_case(
    name: str, quick: bool, repeats: int, out: Path, compiled: Any, turn: Any
) -> None:
    lie_jax.configure(fast_loops=False, cache=False)
    case = _cases(QUICK_STEPS if quick else STEPS)[name]
    programs = {
        (dtype, batch, form): _compile(form, case, dtype, batch)
        for batch in ((CHECKED,) if quick else case.batches)
        for dtype in SLACK
        for form in FORMS
    }
    if compiled is not None:
        compiled.wait(PATIENCE)
    figures = {}
    with turn:
        for key, (program, _) in programs.items():
            figures[key] = _measure(program, case.members(key[1]), repeats)
    cpu = jax.devices("cpu")[0]
    for (dtype, batch, form), (seconds, ends) in figures.items():
        members = np.asarray(case.members(batch))[:CHECKED]
        with jax.default_device(cpu):
            # A batch of one size: one program for all.
            expected = np.asarray(jax.jit(jax.vmap(case.program(np.dtype("float64"))))(members))
        apart = np.abs(np.asarray(ends[:CHECKED], float) - expected).max() / np.abs(expected).max()
        row = {
            "case": name,
            "dtype": dtype,
            "batch": batch,
            "form": form,
            "steps_per_second": batch * case.steps / seconds,
            "compilation_s": programs[dtype, batch, form][1],
            "apart": float(apart),
        }
        with turn, (out / "accelerator.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        if not apart < SLACK[dtype]:
            raise RuntimeError(f"{row}: apart from the CPU by more than {SLACK[dtype]}")


def measure(names: list[str], quick: bool, repeats: int, out: Path) -> list[dict]:
    """Rows of figures, each written as it comes."""
    # Or the first process takes the memory of the device.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    (out / "accelerator.jsonl").unlink(missing_ok=True)
    context = multiprocessing.get_context("spawn")
    together = (os.cpu_count() or 1) >= len(names)
    compiled, turn = context.Barrier(len(names)) if together else None, context.Lock()
    processes = []
    for name in names:
        arguments = (name, quick, repeats, out, compiled, turn)
        processes.append(context.Process(target=_measure_case, args=arguments))
        processes[-1].start()
        if not together:
            processes[-1].join()
    for process in processes:
        process.join()
    failed = [name for name, x in zip(names, processes, strict=True) if x.exitcode]
    if failed:
        print(f"not measured whole: {', '.join(failed)}")
    return [json.loads(x) for x in (out / "accelerator.jsonl").read_text().splitlines()]


def _lines(rows: list[dict]) -> list[str]:
    def table(dtype, batch, name):
        own = [x for x in rows if (x["dtype"], x["batch"], x["case"]) == (dtype, batch, name)]
        by = {x["form"]: x for x in own}
        rates = [by[form]["steps_per_second"] for form in FORMS]
        waits = [by[form]["compilation_s"] for form in FORMS]
        cells = [f"{rates[0]:.2g}", f"{rates[1]:.2g}", f"{rates[1] / rates[0]:.3g}"]
        return (
            f"| {name} | {batch} | {dtype} | {' | '.join(cells)} | {waits[0]:.0f}, {waits[1]:.0f} |"
        )

    keys = dict.fromkeys((x["dtype"], x["batch"], x["case"]) for x in rows)
    return [
        f"{jax.devices()[0].device_kind}, JAX {jax.__version__}; steps/s of all members together",
        "",
        "| | members | numbers | `jax.vmap` | `batched` | times | compilation (s) |",
        "|---|---:|---|---:|---:|---:|---:|",
        *(table(*key) for key in sorted(keys, key=lambda x: [y["case"] for y in rows].index(x[2]))),
    ]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each figure (3)")
    parser.add_argument("--quick", action="store_true", help="a small batch and few steps of each")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = list(_cases(STEPS))
    rows = measure(names, arguments.quick, arguments.repeats, arguments.out)
    write(arguments.out, "accelerator", {"rows": rows}, _lines(rows))


if __name__ == "__main__":
    main()
