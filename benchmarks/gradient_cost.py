"""Cost of a reverse-mode gradient as a multiple of the run, and its memory for 10⁶ steps.

`python -m benchmarks.gradient_cost` measures the heavy top, the slider-crank and a chain of 16
links, with explicit steps (index 1 and projection where there are constraints) and with
generalized-α, each in a fresh process pinned to one core, with XLA as it comes and with its
threshold for compiling a whole loop into one function raised. The gradient is that of the last
coordinates' sum, with respect to one mass and all initial velocities. Run and gradient take turns;
ratios are those of median CPU times. Memory is what the compiled program reserves, and for the
heavy top also the peak of a process that does it. Writes `out/bench/gradient_cost.json` and tables.
"""

import json
import resource

from benchmarks._processes import (
    MODES,
    arguments_of,
    conditions,
    cpu_seconds_in_turns,
    in_fresh_process,
    pin_to_one_core,
    write,
)

STEPS = 1_000
LONG = 1_000_000
SYSTEMS = (
    "heavy top, free",
    "heavy top, its joint",
    "slider-crank",
    "chain of 16",
    "chain of 16, joint coordinates",
)
METHODS = ("RKMK4", "generalized-α")
CASES = tuple(f"{system}, {method}" for system in SYSTEMS for method in METHODS)
ADJOINTS = {
    "stored": {"adjoint": "stored"},
    "stored, checkpoint=1000": {"adjoint": "stored", "checkpoint": 1000},
    "recursive": {"adjoint": "recursive"},
    "recursive, checkpoint=100": {"adjoint": "recursive", "checkpoint": 100},
    "recursive, checkpoint=10": {"adjoint": "recursive", "checkpoint": 10},
}
# Peaks of whole processes are measured for this one.
LONG_CASE = "heavy top, free, RKMK4"
FORWARD = "jax.jacfwd"


def _problem(case: str):
    """`run(parameters, steps, **options)`, a number, and the parameters of a case."""
    import jax.numpy as jnp

    import lie_jax
    from models import chain, heavy_top, slider_crank

    lie_jax.configure(fast_loops=False, cache=False)
    system_name, method = case.rsplit(", ", 1)
    build, mass, dt = {
        "heavy top, free": (lambda m: heavy_top.build(mass=m), heavy_top.MASS, 1e-4),
        "heavy top, its joint": (
            lambda m: heavy_top.build(constrained=True, mass=m), heavy_top.MASS, 1e-4),
        "slider-crank": (
            lambda m: slider_crank.build(rod_mass=m), slider_crank.ROD_MASS, 1e-3),
        "chain of 16": (lambda m: chain.build(n=16, mass=m), chain.MASS, 1e-3),
        "chain of 16, joint coordinates": (
            lambda m: chain.build(lie_jax.Minimal(), n=16, mass=m), chain.MASS, 1e-3),
    }[system_name]  # fmt: skip
    integrator = {"RKMK4": lie_jax.RKMK("rk4"), "generalized-α": lie_jax.GeneralizedAlpha(0.9)}

    def run(parameters, steps, **options):
        mass, change = parameters
        system, state = build(mass)
        state = lie_jax.State(state.q, state.v + change)
        trajectory = lie_jax.simulate(
            system, integrator[method], state, dt=dt, steps=steps, save=steps, throw=False,
            **options,
        )  # fmt: skip
        return jnp.sum(trajectory.q[-1])

    return run, (jnp.asarray(mass), jnp.zeros(build(mass)[0].nv))


def cost(case: str, repeats: int) -> dict[str, float]:
    """The run, µs a step, and gradients as multiples of it."""
    import jax

    run, parameters = _problem(case)
    # A step of the chain costs milliseconds.
    steps = STEPS // 10 if case.startswith("chain") else STEPS
    forward = jax.jit(lambda p: run(p, steps))
    reverse = jax.jit(jax.grad(lambda p: run(p, steps)))
    recursive = jax.jit(jax.grad(lambda p: run(p, steps, adjoint="recursive")))
    of_mass = jax.jit(jax.jacfwd(lambda m: run((m, parameters[1]), steps)))
    calls = [
        lambda: forward(parameters),
        lambda: reverse(parameters),
        lambda: recursive(parameters),
        lambda: of_mass(parameters[0]),
    ]
    base, *others = cpu_seconds_in_turns(calls, repeats)
    names = ("stored", "recursive", FORWARD)
    return {"run": base / steps * 1e6} | {
        name: other / base for name, other in zip(names, others, strict=True)
    }


def _megabytes(compiled) -> float:
    # Not every backend tells.
    sizes = compiled.memory_analysis()
    return float("nan") if sizes is None else sizes.temp_size_in_bytes / 1e6


def reserved(case: str) -> dict[str, float]:
    """Memory that gradients over 10⁶ steps reserve, MB."""
    import jax

    run, parameters = _problem(case)
    sizes = {}
    for name in ("stored", "recursive"):
        gradient = jax.grad(lambda p, name=name: run(p, LONG, **ADJOINTS[name]))
        compiled = jax.jit(gradient).lower(parameters).compile()
        sizes[name] = _megabytes(compiled)
    return sizes


def peak(name: str) -> dict[str, float]:
    """A gradient over 10⁶ steps: what it reserves and the process's peak before and after, MB, and
    its multiple of the run.
    """
    import jax

    run, parameters = _problem(LONG_CASE)
    if name == FORWARD:
        gradient = jax.jacfwd(lambda p: run((p, parameters[1]), LONG))
        given = parameters[0]
    else:
        gradient, given = jax.grad(lambda p: run(p, LONG, **ADJOINTS[name])), parameters
    compiled = jax.jit(gradient).lower(given).compile()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    jax.block_until_ready(compiled(given))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    forward = jax.jit(lambda p: run(p, LONG)).lower(parameters).compile()
    base, again = cpu_seconds_in_turns([lambda: forward(parameters), lambda: compiled(given)], 1)
    return {
        "reserved": _megabytes(compiled),
        "before": before,
        "peak": after,
        "ratio": again / base,
    }


def _tables(results: dict, repeats: int) -> list[str]:
    modes = " | ".join(f"{mode}: run (µs a step) | stored | recursive" for mode in MODES)
    lines = [
        f"Gradient over {STEPS} steps (chains {STEPS // 10}), multiples of the run; "
        f"{conditions(repeats)}",
        "",
        f"| | {modes} | {FORWARD}, one mass |",
        "|---|" + "---:|" * (3 * len(MODES) + 1),
    ]
    for case, row in results["cost"].items():
        cells = [f"{row[mode][k]:.3g}" for mode in MODES for k in ("run", "stored", "recursive")]
        lines.append(f"| {case} | {' | '.join(cells)} | {row['as it comes'][FORWARD]:.3g} |")
    lines += ["", "Reserved for 10⁶ steps, MB", "", "| | stored | recursive |", "|---|---:|---:|"]
    for case, row in results["reserved"].items():
        lines.append(f"| {case} | {row['stored']:.3g} | {row['recursive']:.3g} |")
    lines += [
        "",
        f"{LONG_CASE}, 10⁶ steps in a process of its own, MB",
        "",
        "| | reserved | peak when compiled | peak in the end | gradient / run |",
        "|---|" + "---:|" * 4,
    ]
    for name, row in results["peak"].items():
        values = (f"{row[k]:.3g}" for k in ("reserved", "before", "peak", "ratio"))
        lines.append(f"| {name} | {' | '.join(values)} |")
    return lines


def main() -> None:
    """Measure in fresh processes, or be one of them."""
    arguments = arguments_of(__doc__, "cost", "reserved", "peak")
    pin_to_one_core()
    if arguments.child:
        if arguments.cost:
            print(json.dumps(cost(arguments.cost, arguments.repeats)))
        elif arguments.reserved:
            print(json.dumps(reserved(arguments.reserved)))
        else:
            print(json.dumps(peak(arguments.peak)))
        return

    def child(what: str, name: str, flags: str = "") -> dict:
        return in_fresh_process(
            "benchmarks.gradient_cost", arguments.repeats, f"--{what}", name, XLA_FLAGS=flags
        )

    results = {
        "cost": {
            case: {mode: child("cost", case, flags) for mode, flags in MODES.items()}
            for case in CASES
        },
        "reserved": {case: child("reserved", case) for case in CASES},
        "peak": {name: child("peak", name) for name in (*ADJOINTS, FORWARD)},
    }
    write(arguments.out, "gradient_cost", results, _tables(results, arguments.repeats))


if __name__ == "__main__":
    main()
