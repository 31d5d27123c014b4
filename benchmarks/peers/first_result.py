"""Time to the first result: a fresh process that imports lie_jax and simulates the heavy top.

Prints the CPU seconds of the process. JAX's cache of compilations is set in the environment.
"""

import time


def main() -> None:
    """Simulate, look at the result, and tell."""
    import lie_jax
    from models import heavy_top

    lie_jax.configure(fast_loops=False, cache=False)
    system, state = heavy_top.build()
    trajectory = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-4, steps=10_000)
    assert abs(float(heavy_top.center_of_mass(system, trajectory.q[-1])[0]) - 0.173) < 1e-2
    print(time.process_time())


if __name__ == "__main__":
    main()
