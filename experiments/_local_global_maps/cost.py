"""Cost of a step of every case and combination, in a fresh process pinned to one core.

The combinations of a case take turns, and the smallest CPU time of each counts: what disturbs a
measurement only adds to it.
"""

import argparse
import json
import math
import time

from benchmarks._processes import in_fresh_process, pin_to_one_core
from benchmarks.step_cost import MODES

# About as long as the clock of the process needs, and as few turns as give the smallest time.
STEPS = {"heavy top": 2_000, "rotor": 2_000, "chain": 100}
REPEATS = 25


def measure() -> dict[str, dict[str, dict[str, float]]]:
    """Microseconds a step: mode of compilation → case → combination."""
    module = "experiments._local_global_maps.cost"
    return {
        mode: in_fresh_process(module, REPEATS, XLA_FLAGS=flags) for mode, flags in MODES.items()
    }


def _of_this_process(repeats: int) -> dict[str, dict[str, float]]:
    import jax
    import jax.numpy as jnp

    import lie_jax
    from experiments._local_global_maps.cases import CASES, COMBINATIONS, march, start

    lie_jax.enable_x64()
    figures = {}
    for name, case in CASES.items():
        steps = STEPS[name.split(",")[0]]
        # The smallest of the steps whose errors are measured.
        dt = jnp.asarray(case.seconds / case.step_counts[-1])

        def runner(formulation, case=case, dt=dt, steps=steps):
            system, state = case.build(formulation)
            loop = start(system, case.integrator, state)
            zero, count = jnp.zeros(()), jnp.asarray(steps)
            return lambda: jax.block_until_ready(
                march(system, case.integrator, loop, zero, dt, count)
            )

        runners = {key: runner(formulation) for key, formulation in COMBINATIONS.items()}
        best = dict.fromkeys(runners, math.inf)
        for turn in range(repeats + 1):
            for key, once in runners.items():
                begin = time.process_time()
                once()
                spent = time.process_time() - begin
                # The first turn compiles.
                if turn:
                    best[key] = min(best[key], spent / steps * 1e6)
        figures[name] = best
    return figures


def main() -> None:
    """Measure in this process and print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    pin_to_one_core()
    print(json.dumps(_of_this_process(arguments.repeats)))


if __name__ == "__main__":
    main()
