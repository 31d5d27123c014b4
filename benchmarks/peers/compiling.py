"""Tracing and compiling a simulation of a chain: `python -m benchmarks.peers.compiling LINKS`.

Prints CPU seconds. Building the chain does not count, and nothing comes from a cache.
"""

import sys
import time


def main() -> None:
    """Compile once and tell."""
    import equinox as eqx

    import lie_jax
    from benchmarks.peers import ours

    lie_jax.configure(fast_loops=False, cache=False)
    system, state, integrator = ours.model(f"chain-{sys.argv[1]}")

    @eqx.filter_jit
    def run(system, state):
        return lie_jax.simulate(system, integrator, state, dt=1e-3, steps=10, save=10, throw=False)

    begin = time.process_time()
    run.lower(system, state).compile()  # pyright: ignore[reportFunctionMemberAccess]
    print(time.process_time() - begin)


if __name__ == "__main__":
    main()
