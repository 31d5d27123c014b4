"""Cost of a generalized-α step of chains on ball joints, against the number of links.

`python -m benchmarks.many_bodies` measures hanging chains with 4 to 1024 links, full Newton, in
fresh processes pinned to one core, with XLA as it comes and with its threshold for compiling a
whole loop into one function raised, and writes `out/bench/many_bodies.json`, a table and a plot of
the cost. Figures are medians of process CPU time; the cost of a step is the difference between a
long and a short run, so that the start of a run is not in it. In both modes the reductions that
XLA hands to its library, from some 150 bodies on, stay with XLA itself. The exponent is that of the
growth from 64 to 1024 links.
"""

import json
import math
import time

from benchmarks._processes import (
    MODES,
    arguments_of,
    conditions,
    cpu_seconds_in_turns,
    in_fresh_process,
    pin_to_one_core,
    write,
)

LINKS = (4, 16, 64, 256, 1024)
DT = 1e-3
# Links swing alike in chains of any length: Newton's method takes as many iterations.
REFERENCE_LINKS = 6
# Without it XLA calls its library for reductions of more than 4096 entries, and cannot make one
# function of a loop.
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}


def measure(links: int, repeats: int) -> dict[str, float]:
    """Microseconds a step, seconds of compiling and Newton iterations of one chain."""
    import jax

    import lie_jax
    from models import chain

    lie_jax.enable_x64()
    gentle = chain.relative_omega(links) * REFERENCE_LINKS / links
    system, state = chain.build(n=links, omega_relative=gentle)
    steps = max(20, 12_800 // links)

    def run(steps):
        def end(system, state):
            trajectory = lie_jax.simulate(
                system,
                lie_jax.GeneralizedAlpha(0.9),
                state,
                dt=DT,
                steps=steps,
                save_every=steps,
                throw=False,
            )
            return trajectory.q[-1], trajectory.stats.newton_iterations

        return jax.jit(end, compiler_options=OPTIONS).lower(system, state)

    compiled, seconds = [], []
    for count in (steps, 2 * steps):
        lowered = run(count)
        begin = time.process_time()
        compiled.append(lowered.compile())
        seconds.append(time.process_time() - begin)
    short, long = cpu_seconds_in_turns(
        [lambda own=own: own(system, state) for own in compiled], repeats
    )
    return {
        "microseconds": (long - short) / steps * 1e6,
        "compile": min(seconds),
        "iterations": float(compiled[1](system, state)[1].mean()),
    }


def exponent(figures: dict[str, dict[str, float]]) -> float:
    """Of the growth of the cost from 64 to 1024 links."""
    ratio = figures["1024"]["microseconds"] / figures["64"]["microseconds"]
    return math.log(ratio) / math.log(16.0)


def main() -> None:
    """Measure in fresh processes, or be one of them."""
    arguments = arguments_of(__doc__, "links")
    pin_to_one_core()
    if arguments.child:
        print(json.dumps(measure(int(arguments.links), arguments.repeats)))
        return
    results = {
        mode: {
            str(n): in_fresh_process(
                "benchmarks.many_bodies", arguments.repeats, "--links", str(n), XLA_FLAGS=flags
            )
            for n in LINKS
        }
        for mode, flags in MODES.items()
    }
    lines = [
        conditions(arguments.repeats),
        "",
        "| links | iterations | "
        + " | ".join(f"{mode}: µs a step | compile s" for mode in MODES)
        + " |",
        "|---:|---:|" + "---:|---:|" * len(MODES),
    ]
    for n in map(str, LINKS):
        own = [results[mode][n] for mode in MODES]
        cells = " | ".join(f"{x['microseconds']:.3g} | {x['compile']:.2g}" for x in own)
        lines.append(f"| {n} | {own[0]['iterations']:.2g} | {cells} |")
    lines.append("")
    for mode in MODES:
        growth = exponent(results[mode])
        compiling = results[mode]["1024"]["compile"] / results[mode]["4"]["compile"]
        lines.append(
            f"{mode}: exponent from 64 to 1024 links {growth:.2f}, compile time of 1024 links / 4 "
            f"links {compiling:.2f}"
        )
    write(arguments.out, "many_bodies", results, lines)
    _plot(arguments.out / "many_bodies.png", results)


def _plot(path, results: dict) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for mode, own in results.items():
        axes.loglog(LINKS, [own[str(n)]["microseconds"] for n in LINKS], "o-", label=mode)
    axes.set_xlabel("links")
    axes.set_ylabel("µs a step")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
