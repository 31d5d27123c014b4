"""Simulations of the three bodies by all methods of [S1]."""

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from models import three_bodies

# Methods of order 2 are on Heun's tableau: it leads to the paper's digits, the midpoint rule not.
INTEGRATORS: dict[str, lie_jax.extend.AbstractIntegrator] = {
    "CG2": lie_jax.CrouchGrossman(2),
    "CG3": lie_jax.CrouchGrossman(3),
    "CG4": lie_jax.CrouchGrossman(4),
    "CF2": lie_jax.CommutatorFree(2),
    "CF3": lie_jax.CommutatorFree(3),
    "CF4": lie_jax.CommutatorFree(4),
    "MK2": lie_jax.RKMK("heun"),
    "MK3": lie_jax.RKMK("rk3"),
    "MK4": lie_jax.RKMK("rk4"),
}
LONG_STEP = 0.05
LONG_TIME = 200.0


class Invariants(NamedTuple):
    """Kinetic energy (J), momentum (kg m/s) and angular momentum about the origin (kg m²/s)."""

    energy: jax.Array
    linear: jax.Array
    angular: jax.Array


def invariants(system, state: lie_jax.State) -> Invariants:
    """Quantities that free bodies conserve."""
    linear, angular = system.momentum(state.q, state.v)
    return Invariants(system.kinetic_energy(state.q, state.v), linear, angular)


def drifts(system, start: lie_jax.State, end: lie_jax.State) -> tuple[float, float, float]:
    """Norms of the changes of energy, momentum and angular momentum."""
    before, after = invariants(system, start), invariants(system, end)
    norms = (float(jnp.linalg.norm(b - a)) for a, b in zip(before, after, strict=True))
    energy, linear, angular = norms
    return energy, linear, angular


class Runs:
    """One method on the three bodies, compiled once for all step sizes."""

    def __init__(self, method: str):
        self.integrator = INTEGRATORS[method]
        self.system, self.start = three_bodies.build()
        self._advance = jax.jit(self._steps)

    def _steps(self, state, dt, count):
        def step(i, state):
            t = i.astype(dt.dtype) * dt
            return self.integrator.step(self.system, t, dt, state, None, None).state

        return jax.lax.fori_loop(0, count, step, state)

    def after_one_second(self, steps: int) -> lie_jax.State:
        """State at t = 1 s."""
        return jax.block_until_ready(
            self._advance(self.start, jnp.asarray(1.0 / steps), jnp.asarray(steps))
        )

    def drifts(self, steps: int) -> tuple[float, float, float]:
        """Drifts at t = 1 s."""
        return drifts(self.system, self.start, self.after_one_second(steps))

    def error(self, steps: int) -> float:
        """Error of the base's position at t = 1 s (m)."""
        position = np.asarray(self.after_one_second(steps).q[:3])
        return float(np.linalg.norm(position - np.asarray(three_bodies.REFERENCE[1.0]["r"])))

    def seconds_per_step(self, steps: int = 5_000, repeats: int = 5) -> float:
        """Shortest time of some runs, divided by the number of steps."""
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            self.after_one_second(steps)
            times.append(time.perf_counter() - begin)
        return min(times) / steps


def long_run(method: str) -> dict[str, np.ndarray]:
    """Change of the energy and norms of the drifts over the long run of Figs. 7 and 8."""
    system, state = three_bodies.build(base_twist=three_bodies.BASE_TWIST)
    trajectory = lie_jax.simulate(
        system, INTEGRATORS[method], state, dt=LONG_STEP, steps=round(LONG_TIME / LONG_STEP)
    )
    of_each = jax.jit(jax.vmap(lambda q, v: invariants(system, lie_jax.State(q, v))))
    values = jax.tree.map(np.asarray, of_each(trajectory.q, trajectory.v))
    return {
        "t": np.asarray(trajectory.t),
        "energy": values.energy - values.energy[0],
        "linear": np.linalg.norm(values.linear - values.linear[0], axis=1),
        "angular": np.linalg.norm(values.angular - values.angular[0], axis=1),
    }
