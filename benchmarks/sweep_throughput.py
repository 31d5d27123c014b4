"""Throughput of sweeps: against a loop in Python, against bare `jax.vmap`, and of two processes.

`python -m benchmarks.sweep_throughput` sweeps the heavy top over 4096 masses and writes
`out/bench/sweep_throughput.json` and a table. On one core, in CPU time of a fresh process: a Python
loop over single runs under `jax.jit`, `jax.jit(jax.vmap(...))` over all masses, and
`lie_jax.sweep`, in memory and to disk; all compiled before. A single run costs a call of some
70 µs beside its steps, so that the ratio to the loop depends on their number: it is given for
several. For scale there is a loop over the same function without `jax.jit` around it, as one first
writes it: `simulate` is compiled inside, but mechanisms are built and checked one by one. Then, in
wall-clock time, one process on one core against two on two cores that share a sweep through
`jax.distributed`: that needs two idle cores.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._processes import cpu_seconds, in_fresh_process, pin_to_one_core

VARIANTS = 4096
# Single runs of the loop: enough for the clock, all 4096 would take minutes.
LOOP_VARIANTS, PLAIN_VARIANTS = 256, 8
LENGTHS = {"RKMK4": (10, 100, 1000), "generalized-α": (10, 100)}
# Of the two processes: a sweep of some ten seconds.
SHARED_VARIANTS, SHARED_STEPS = 16_384, 1000


def _run(method: str, steps: int):
    """End position of the top's centre of mass, and the result, as a function of its mass."""
    import lie_jax
    from models import heavy_top

    integrator = lie_jax.RKMK("rk4") if method == "RKMK4" else lie_jax.GeneralizedAlpha(0.9)

    def run(mass):
        system, state = heavy_top.build(mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-4, steps=steps, save=steps, throw=False
        )
        return heavy_top.center_of_mass(system, trajectory.q[-1]), trajectory.result

    return run


def measure(repeats: int) -> dict[str, dict[str, float]]:
    """CPU time of a variant in µs, and ratios, for each method and length."""
    import jax
    import jax.numpy as jnp

    import lie_jax

    lie_jax.configure(fast_loops=False, cache=False)
    masses = jnp.linspace(10.0, 20.0, VARIANTS)
    figures = {}
    for method, lengths in LENGTHS.items():
        for steps in lengths:
            run = _run(method, steps)
            single, batched = jax.jit(run), jax.jit(jax.vmap(run))

            def loop(single=single):
                return jax.device_get([single(mass) for mass in masses[:LOOP_VARIANTS]])

            def plain(run=run):
                return jax.device_get([run(mass) for mass in masses[:PLAIN_VARIANTS]])

            def sweep(run=run):
                return lie_jax.sweep(run, masses, progress=False)

            def to_disk(run=run):
                with tempfile.TemporaryDirectory() as folder:
                    lie_jax.sweep(run, masses, save_to=Path(folder) / "sweep", progress=False)

            # One after the other in turns, so that a machine that changes its pace changes all.
            forms = {
                "loop": (loop, LOOP_VARIANTS),
                "vmap": (lambda batched=batched: jax.device_get(batched(masses)), VARIANTS),
                "sweep": (sweep, VARIANTS),
                "to disk": (to_disk, VARIANTS),
                "plain loop": (plain, PLAIN_VARIANTS),
            }
            turns = [
                {name: cpu_seconds(form, 1) / n * 1e6 for name, (form, n) in forms.items()}
                for _ in range(repeats)
            ]
            cost = {name: statistics.median(turn[name] for turn in turns) for name in forms}
            figures[f"{method}, {steps} steps"] = cost | {
                "loop / sweep": statistics.median(t["loop"] / t["sweep"] for t in turns),
                "sweep / vmap": statistics.median(t["sweep"] / t["vmap"] for t in turns),
            }
    return figures


def _shared(port: int, index: int, count: int, folder: Path) -> float:
    """Wall-clock seconds of a sweep to disk as one of several processes, each on its own core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1 - index]})
    import jax
    import jax.numpy as jnp

    import lie_jax

    lie_jax.configure(fast_loops=False, cache=False)
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, index)
    run, masses = _run("RKMK4", SHARED_STEPS), jnp.linspace(10.0, 20.0, SHARED_VARIANTS)
    # The first one compiles, and all processes leave it together.
    lie_jax.sweep(run, masses[: 1024 * count], batch=1024, save_to=folder / "a", progress=False)
    begin = time.perf_counter()
    lie_jax.sweep(run, masses, batch=1024, save_to=folder / "b", progress=False)
    return time.perf_counter() - begin


def _processes(count: int) -> float:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.sweep_throughput", "--shared", str(port)]
        children = [
            subprocess.Popen(
                [*command, str(index), str(count), folder], stdout=subprocess.PIPE, text=True
            )
            for index in range(count)
        ]
        seconds = [float(child.communicate()[0].split()[-1]) for child in children]
    return max(seconds)


def main() -> None:
    """Measure in fresh processes, or be one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each figure (5)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shared", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.shared:
        port, index, count = map(int, arguments.shared[:3])
        print(_shared(port, index, count, Path(arguments.shared[3])))
        return
    if arguments.child:
        pin_to_one_core()
        print(json.dumps(measure(arguments.repeats)))
        return
    import jax

    figures = in_fresh_process("benchmarks.sweep_throughput", arguments.repeats)
    lines = [
        f"float64, one core, {platform.machine()}, Python {platform.python_version()}, JAX "
        f"{jax.__version__}; medians of {arguments.repeats}; µs a variant",
        "",
        "| heavy top, 4096 masses | loop over jitted runs | vmap | sweep | sweep to disk "
        "| loop without jit | loop over jitted runs / sweep | sweep / vmap |",
        "|---|" + "---:|" * 7,
    ]
    for name, row in figures.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.3g}" for value in row.values()) + " |")
    one, two = (
        statistics.median(_processes(count) for _ in range(arguments.repeats)) for count in (1, 2)
    )
    lines += [
        "",
        f"{SHARED_VARIANTS} masses, RKMK4, {SHARED_STEPS} steps, to disk: one process {one:.3g} s, "
        f"two processes {two:.3g} s of wall-clock time: {one / two:.3g} times the throughput.",
    ]
    results = {"one core": figures, "seconds of one and two processes": [one, two]}
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = "\n".join(lines)
    (arguments.out / "sweep_throughput.md").write_text(table + "\n")
    (arguments.out / "sweep_throughput.json").write_text(json.dumps(results, indent=2) + "\n")
    print(table)


if __name__ == "__main__":
    main()
