"""Cases of the comparison: models with joints, formulations, forms of the generalized-α method."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp

import lie_jax
from experiments import newton_rule
from models import bricard, double_pendulum, heavy_top, puma560, rotor, slider_crank

SE3_EXP, R3SO3_EXP = "SE(3) exp", "R³×SO(3) exp"
# Formulation and form of the method. Numerical damping is an array here, so that one compiled
# program serves for every value.
PROGRAMS = {
    SE3_EXP: (lie_jax.SE3(), {}),
    "SE(3) cay": (lie_jax.SE3(chart="cayley"), {}),
    R3SO3_EXP: (lie_jax.R3SO3(), {}),
    "R³×SO(3) cay": (lie_jax.R3SO3(chart="cayley"), {}),
    "R³×SO(3) cay2": (lie_jax.R3SO3(chart="cayley2"), {}),
    "unified": (lie_jax.UnifiedVelocity(), {}),
    "index 2": (lie_jax.R3SO3(), {"index": 2}),
    "plain start": (lie_jax.R3SO3(), {"variant": newton_rule.GeneralizedAlpha}),
}
RHO = 0.9


def method(
    rho: float = RHO, variant: type[lie_jax.GeneralizedAlpha] = lie_jax.GeneralizedAlpha, **options
) -> lie_jax.GeneralizedAlpha:
    """The generalized-α method with this spectral radius at infinity."""
    return variant(jnp.asarray(rho), **options)


class Case(NamedTuple):
    """A model, run over some seconds in several numbers of steps by some of the `PROGRAMS`.

    `build(formulation)` gives the system and its state, `observe(system, q)` the numbers (k,) whose
    error counts, `unit` theirs, and `references` what they are at some times (s), multiples of a
    tenth of all, the end among them. `switch`: when a command switches, if one does.
    """

    build: Callable
    observe: Callable
    unit: str
    references: dict[float, tuple[float, ...]]
    seconds: float
    step_counts: tuple[int, ...]
    # Runs for the error that extrapolation leaves.
    fine_counts: tuple[int, ...]
    programs: tuple[str, ...]
    switch: float | None = None


def _slider(system, q):
    return slider_crank.slider_position(system, q)[None]


def _centers(system, q):
    return jnp.ravel(double_pendulum.centers_of_mass(system, q))


def _doubled(first: int, count: int = 4) -> tuple[int, ...]:
    return tuple(first * 2**k for k in range(count))


def _until(end: float, reference: dict) -> dict:
    return {t: values for t, values in reference.items() if t <= end}


_GROUPS = (SE3_EXP, "SE(3) cay", R3SO3_EXP, "R³×SO(3) cay")
CASES = {
    "heavy top": Case(
        partial(heavy_top.build, constrained=True),
        heavy_top.center_of_mass,
        "m",
        heavy_top.REFERENCE,
        1.0,
        _doubled(2500),
        _doubled(20_000, 4),
        (*_GROUPS, "R³×SO(3) cay2", "index 2", "plain start"),
    ),
    "rotor": Case(
        rotor.build,
        rotor.observed_point,
        "m",
        _until(0.1, rotor.REFERENCE),
        0.1,
        _doubled(20_000),
        _doubled(40_000, 3),
        _GROUPS,
    ),
    "slider-crank": Case(
        slider_crank.build,
        _slider,
        "m",
        {1.0: slider_crank.REFERENCE[1.0][2:3]},
        1.0,
        _doubled(250),
        _doubled(2000, 4),
        (*_GROUPS, "unified", "index 2", "plain start"),
    ),
    "Bricard": Case(
        bricard.build,
        bricard.observed_point,
        "m",
        {t: point for t, (point, _) in _until(1.0, bricard.REFERENCE).items()},
        1.0,
        _doubled(125),
        _doubled(1000, 3),
        (*_GROUPS, "index 2"),
    ),
    "Puma 560": Case(
        puma560.build,
        puma560.joint_angles,
        "rad",
        {t: angles for t, (angles, _) in puma560.REFERENCE.items()},
        1.0,
        _doubled(500),
        _doubled(2000, 3),
        (SE3_EXP, R3SO3_EXP, "index 2"),
        puma560.SWITCH,
    ),
    "double pendulum": Case(
        double_pendulum.build,
        _centers,
        "m",
        {
            t: first + second
            for t, (first, second) in _until(1.0, double_pendulum.REFERENCE).items()
        },
        1.0,
        _doubled(250),
        _doubled(2000, 4),
        (*_GROUPS, "R³×SO(3) cay2", "unified", "index 2", "plain start"),
    ),
}
