"""Runs of the heavy top in several numbers of steps, by one program for each kind of run.

The number of steps is traced, and JAX keeps programs by the structure of their arguments. All tests
of a process that march the same formulation with the same integrator share one program.
"""

import equinox as eqx
import numpy as np

from lie_jax import Result
from lie_jax.simulation.march import march
from models import heavy_top

# Slack of observed orders: lines of the error over the step are straight to this ([S3] Fig. 3).
ORDER_SLACK = 0.05


@eqx.filter_jit
def _center_of_mass(system, q):
    return heavy_top.center_of_mass(system, q)


def top_states(formulation, integrator, counts, duration, constrained=False):
    """The heavy top, and its states after a duration (s) in each number of steps."""
    system, state = heavy_top.build(formulation, constrained=constrained)
    ends = [march(system, integrator, state, duration / n, n) for n in counts]
    assert all(bool(end.result == Result.successful) for end in ends)
    return system, [end.state for end in ends]


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
