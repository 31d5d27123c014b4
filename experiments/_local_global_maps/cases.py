"""Cases of the comparison: the eight local-global transition maps, on models."""

from collections.abc import Callable
from typing import NamedTuple

import lie_jax
from models import chain, heavy_top, rotor

# [S0] Table 1: 1 stores quaternions, 2 rotation vectors; a to d are groups and charts.
_LOCAL = {
    "a": (lie_jax.SE3, "exp"),
    "b": (lie_jax.R3SO3, "exp"),
    "c": (lie_jax.R3SO3, "cayley"),
    "d": (lie_jax.SE3, "cayley"),
}
_STORED = {"1": "quaternion", "2": "rotation_vector"}
COMBINATIONS: dict[str, lie_jax.extend.AbstractCoordinates] = {
    number + letter: group(coordinates=coordinates, chart=chart)
    for number, coordinates in _STORED.items()
    for letter, (group, chart) in _LOCAL.items()
}
NAMES = {
    "a": "SE(3), exp",
    "b": "R³×SO(3), exp",
    "c": "R³×SO(3), cay",
    "d": "SE(3), cay",
}
# Costs are multiples of this one's, the default formulation.
BASE = "1b"


class Case(NamedTuple):
    """A model with an integrator, run over some seconds in several numbers of steps.

    `build(formulation)` gives the system and its state, `observe(system, q)` the point (3,) whose
    error counts, and `reference` where it is at the end, or None for a converged solution.
    """

    build: Callable
    observe: Callable
    integrator: lie_jax.extend.AbstractIntegrator
    seconds: float
    step_counts: tuple[int, ...]
    reference: tuple[float, ...] | None


def _chain(formulation):
    # Ten times the velocities of the model: some 3 rad/s in each joint.
    return chain.build(formulation, n=4, omega_relative=10.0 * chain.relative_omega(4))


def _free_top(formulation):
    return heavy_top.build(formulation)


def _held_top(formulation):
    return heavy_top.build(formulation, constrained=True)


def _doubled(first: int) -> tuple[int, ...]:
    return tuple(first * 2**k for k in range(5))


_RKMK4, _ALPHA = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)
# With joints these integrate the index-1 form, where accelerations fulfil the twice differentiated
# constraints and nothing holds the constraints themselves: meant here, to see them drift.
UNHELD_RKMK4 = lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(0.0))
UNHELD_RK4 = lie_jax.RungeKutta("rk4", stabilization=lie_jax.Baumgarte(0.0))
_TOP = (heavy_top.center_of_mass,), (1.0, _doubled(1250), heavy_top.REFERENCE[1.0])
_ROTOR = (rotor.observed_point,), (0.1, _doubled(5_000), rotor.REFERENCE[0.1])
_CHAIN = (chain.tip,), (1.0, _doubled(250), None)


def _case(build, model, integrator) -> Case:
    (observe,), rest = model
    return Case(build, observe, integrator, *rest)


CASES = {
    "heavy top, free, RKMK4": _case(_free_top, _TOP, _RKMK4),
    "heavy top, free, generalized-α": _case(_free_top, _TOP, _ALPHA),
    "heavy top, joint, RKMK4 index 1": _case(_held_top, _TOP, UNHELD_RKMK4),
    "heavy top, joint, generalized-α": _case(_held_top, _TOP, _ALPHA),
    "rotor, RKMK4": _case(rotor.build, _ROTOR, _RKMK4),
    "rotor, generalized-α": _case(rotor.build, _ROTOR, _ALPHA),
    "chain, RKMK4 index 1": _case(_chain, _CHAIN, UNHELD_RKMK4),
    "chain, generalized-α": _case(_chain, _CHAIN, _ALPHA),
}
