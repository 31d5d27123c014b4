"""Runs with a traced number of steps: one program serves all lengths of a system and an integrator.

JAX keeps compiled programs by the structure of their arguments. All tests of a process that march
the same kind of system with the same integrator share one program.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from models import heavy_top

# Slack of observed orders: lines of the error over the step are straight to this ([S3] Fig. 3).
ORDER_SLACK = 0.05


@eqx.filter_jit
def march(system, integrator, state, dt, steps):
    """State after `steps` steps of `dt` (s), and whether every step has converged."""
    dt = jnp.asarray(dt, float)

    def step(i, loop):
        state, carry, converged = loop
        result = integrator.step(system, i * dt, dt, state, carry, None)
        return result.state, result.carry, converged & result.converged

    carry = integrator.init(system, jnp.zeros(()), dt, state, None)
    state, _, converged = jax.lax.fori_loop(0, steps, step, (state, carry, jnp.ones((), bool)))
    return state, converged


@eqx.filter_jit
def _center_of_mass(system, q):
    return heavy_top.center_of_mass(system, q)


def top_states(formulation, integrator, counts, duration, constrained=False):
    """The heavy top, and its states after a duration (s) in each number of steps."""
    system, state = heavy_top.build(formulation, constrained=constrained)
    ends = [march(system, integrator, state, duration / n, np.int64(n)) for n in counts]
    assert all(converged for _, converged in ends)
    return system, [state for state, _ in ends]


def top_centers(formulation, integrator, counts, duration, constrained=False):
    """Centres of mass (m) of the heavy top after a duration (s) in each number of steps."""
    system, states = top_states(formulation, integrator, counts, duration, constrained)
    return np.asarray([_center_of_mass(system, state.q) for state in states])


def top_errors(formulation, integrator, counts, duration=0.1, constrained=False):
    """Errors (m) of `top_centers` against 20 digits."""
    reference = np.asarray(heavy_top.REFERENCE[duration])
    centers = top_centers(formulation, integrator, counts, duration, constrained)
    return np.linalg.norm(centers - reference, axis=1)


def orders(errors):
    """Orders that errors of runs show, each with twice the steps of the one before."""
    return np.log2(errors[:-1] / errors[1:])
