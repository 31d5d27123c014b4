"""Speed of the maps: against jaxlie, and of closed-form against automatic derivatives.

`python -m benchmarks.maps` measures in fresh processes pinned to one core, double precision and
single, and writes `out/bench/maps.json` and tables. Both libraries start from and end with the same
numbers; jaxlie runs with its own batch axes and under `jax.vmap`, and the faster of the two counts.
Ours and theirs take turns, and a ratio is the median of the ratios of the turns.
"""

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks._processes import cpu_seconds, in_fresh_process, pin_to_one_core

BATCHES = (1, 256, 65_536)
DTYPES = ("float64", "float32")
# Calls in one measurement: the clock of a process is too coarse for a single short one.
CALLS = {1: 400, 256: 100, 65_536: 1}


def _pairs(jnp, jaxlie, lie_jax) -> dict[str, tuple[Callable, Callable, str, str]]:
    """Ours for one element, theirs for one or a batch, and the arguments of both.

    Arguments: x is a twist (6,), q and p the same pose in our order and in jaxlie's.
    """
    space = lie_jax.SE3()

    def dexp_inv_of_log(q):
        rotation = lie_jax.groups.quaternion.log(q[3:])
        translation = lie_jax.groups.so3.dexp_inv_apply(rotation, q[:3])
        return lie_jax.groups.se3.dexp_inv(-jnp.concatenate([translation, rotation]))

    return {
        "SO(3) exp, quaternion": (
            lambda x: lie_jax.groups.quaternion.exp(x[3:]),
            lambda x: jaxlie.SO3.exp(x[..., 3:]).wxyz,
            "x",
            "x",
        ),
        "SE(3) exp, matrix": (
            lie_jax.groups.se3.exp,
            lambda x: jaxlie.SE3.exp(x).as_matrix(),
            "x",
            "x",
        ),
        "dexp⁻¹ of a twist": (
            lambda x: lie_jax.groups.se3.dexp_inv(-x),
            lambda x: jaxlie.SE3.exp(x).jlog(),
            "x",
            "x",
        ),
        "dexp⁻¹ of the log of a pose": (
            dexp_inv_of_log,
            lambda p: jaxlie.SE3(p).jlog(),
            "q",
            "p",
        ),
        "retract": (
            space.retract,
            lambda p, x: (jaxlie.SE3(p) @ jaxlie.SE3.exp(x)).wxyz_xyz,
            "qx",
            "px",
        ),
    }


def measure(repeats: int) -> dict:
    """All figures of this process and its precision."""
    import jax
    import jax.numpy as jnp
    import jaxlie
    import numpy as np

    import lie_jax
    from lie_jax.groups import closed_forms

    def microseconds(function, arguments, calls):
        seconds = cpu_seconds(lambda: [function(*arguments) for _ in range(calls)], 1)
        return seconds / calls * 1e6

    rng = np.random.default_rng(0)
    results = {"jaxlie": {}, "derivatives": {}}
    for batch in BATCHES:
        x, y = (jnp.asarray(rng.normal(size=(batch, 6)), float) for _ in range(2))
        p = jax.vmap(lambda y: jaxlie.SE3.exp(y).wxyz_xyz)(y)
        given = {"x": x, "p": p, "q": jnp.concatenate([p[:, 4:], p[:, :4]], axis=1)}
        for name, (ours, theirs, our_names, their_names) in _pairs(jnp, jaxlie, lie_jax).items():
            own = tuple(given[n] for n in our_names)
            other = tuple(given[n] for n in their_names)
            runs = (
                (jax.jit(jax.vmap(ours)), own),
                (jax.jit(theirs), other),
                (jax.jit(jax.vmap(theirs)), other),
            )
            turns = [[microseconds(*run, CALLS[batch]) for run in runs] for _ in range(repeats)]
            figures = [statistics.median(turn[i] for turn in turns) for i in range(3)]
            best = 1 if figures[1] <= figures[2] else 2
            results["jaxlie"][f"{name}, batch {batch}"] = {
                "ours": figures[0],
                "theirs": figures[best],
                "ratio": statistics.median(turn[0] / turn[best] for turn in turns),
            }
    batch = 256
    for group, n in (("so3", 3), ("se3", 6)):
        x, u = (jnp.asarray(rng.normal(size=(batch, n)), float) for _ in range(2))
        for name in ("ddexp", "ddexp_inv", "ddcay", "ddcay_inv"):
            row = results["derivatives"][f"{group}.{name}"] = {}
            for kind, function in (
                ("autodiff", getattr(getattr(lie_jax.groups, group), name)),
                ("closed form", getattr(closed_forms, f"{group}_{name}")),
            ):
                compiled = jax.jit(jax.vmap(function)).lower(x, u).compile()
                times = [microseconds(compiled, (x, u), CALLS[batch]) for _ in range(repeats)]
                row[kind] = {
                    "instructions": str(compiled.as_text()).count(" = "),
                    "microseconds": statistics.median(times),
                }
    return results


def _tables(results: dict) -> str:
    lines = [
        f"one core, {platform.machine()}, Python {platform.python_version()}, "
        f"JAX {results['versions']['jax']}, jaxlie {results['versions']['jaxlie']}",
        "",
        "| | " + " | ".join(f"{d}: ours | jaxlie (µs) | ratio" for d in DTYPES) + " |",
        "|---|" + "---:|" * 6,
    ]
    for name in results["float64"]["jaxlie"]:
        cells = [results[dtype]["jaxlie"][name] for dtype in DTYPES]
        values = " | ".join(
            f"{c['ours']:.3g} | {c['theirs']:.3g} | {c['ratio']:.2f}" for c in cells
        )
        lines.append(f"| {name} | {values} |")
    kinds = ("autodiff", "closed form")
    lines += [
        "",
        "| double precision | "
        + " | ".join(f"{k}: instructions | µs a batch of 256" for k in kinds)
        + " |",
        "|---|" + "---:|" * 4,
    ]
    for name, row in results["float64"]["derivatives"].items():
        values = " | ".join(
            f"{row[k]['instructions']} | {row[k]['microseconds']:.3g}" for k in kinds
        )
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines)


def main() -> None:
    """Measure in fresh processes, or be one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="turns of each figure (15)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    pin_to_one_core()
    if arguments.child:
        print(json.dumps(measure(arguments.repeats)))
        return
    run = partial(in_fresh_process, "benchmarks.maps", arguments.repeats)
    results = {dtype: run(JAX_ENABLE_X64=str(int(dtype == "float64"))) for dtype in DTYPES}
    results["versions"] = {name: version(name) for name in ("jax", "jaxlie")}
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = _tables(results)
    (arguments.out / "maps.md").write_text(table + "\n")
    (arguments.out / "maps.json").write_text(json.dumps(results, indent=2) + "\n")
    print(table)


if __name__ == "__main__":
    main()
