"""Many trajectories at once on whatever JAX computes on: a CPU, a GPU, a TPU.

`python -m benchmarks.accelerator` simulates batches of heavy tops that differ in their mass, from
one to a million, by RKMK4 without and by generalized-α with a constraint, in double and in single
precision, and writes `out/bench/accelerator.json` and a table. Figures are wall-clock time, for an
accelerator has no other, of a trajectory's step, everything compiled before and results waited for;
medians. Each batch is checked: its first top ends where one alone ends on the CPU in double
precision.
"""

import argparse
import statistics
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from benchmarks._processes import write
from models import heavy_top

BATCHES = (1, 64, 4096, 65_536, 1_000_000)
STEPS, DT = 100, 1e-4
METHODS = {
    "RKMK4": (False, lie_jax.RKMK("rk4")),
    "generalized-α": (True, lie_jax.GeneralizedAlpha(0.9)),
}
# Of the end position (m): rounding over the steps, which the spin of 150 rad/s amplifies.
SLACK = {"float64": 1e-9, "float32": 1e-3}


def _end(method: str, dtype: str):
    constrained, integrator = METHODS[method]

    def end(mass):
        system, state = heavy_top.build(constrained=constrained, mass=mass)
        system, state = jax.tree.map(
            lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, (system, state)
        )
        run = lie_jax.simulate(
            system, integrator, state, dt=DT, steps=STEPS, save=STEPS, throw=False
        )
        return heavy_top.center_of_mass(system, run.q[-1])

    return end


def measure(method: str, dtype: str, batch: int, repeats: int) -> tuple[float, float]:
    """Microseconds of wall-clock time a trajectory's step, and the first top's error (m)."""
    masses = jnp.linspace(15.0, 16.0, batch)
    program = jax.jit(jax.vmap(_end(method, dtype)))
    ends = jax.block_until_ready(program(masses))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(program(masses))
        times.append(time.perf_counter() - begin)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = jax.jit(_end(method, "float64"))(jnp.asarray(15.0))
    error = float(np.max(np.abs(np.asarray(ends[0], float) - np.asarray(expected))))
    if not error < SLACK[dtype]:
        raise RuntimeError(f"{method}, {dtype}, {batch}: the first top is off by {error} m")
    return statistics.median(times) / (batch * STEPS) * 1e6, error


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="runs of each figure (7)")
    parser.add_argument("--largest", type=int, default=BATCHES[-1], help="largest batch (1000000)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    arguments = parser.parse_args()
    lie_jax.configure(fast_loops=False, cache=False)
    device = jax.devices()[0]
    batches = [batch for batch in BATCHES if batch <= arguments.largest]
    results = {
        f"{method}, {dtype}": {
            batch: measure(method, dtype, batch, arguments.repeats) for batch in batches
        }
        for method in METHODS
        for dtype in SLACK
    }
    lines = [
        f"{device.device_kind}, JAX {jax.__version__}; µs a trajectory's step, medians of "
        f"{arguments.repeats}",
        "",
        f"| tops at once | {' | '.join(map(str, batches))} |",
        f"|---|{'---:|' * len(batches)}",
        *(
            f"| {name} | {' | '.join(f'{cost:.3g}' for cost, _ in row.values())} |"
            for name, row in results.items()
        ),
    ]
    write(arguments.out, "accelerator", results, lines)


if __name__ == "__main__":
    main()
