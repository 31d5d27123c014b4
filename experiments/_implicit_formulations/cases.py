"""Cases of the comparison: formulations and rules of Newton's method, on five models."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp

import lie_jax
from experiments import newton_rule
from models import heavy_top, puma560, rotor, slider_crank

# [S3]'s abbreviations. Quaternions give the motion that rotation vectors give, at a lower cost.
BODY_FORMULATIONS: dict[str, lie_jax.extend.AbstractCoordinates] = {
    "RV": lie_jax.R3SO3(coordinates="quaternion"),
    "EP": lie_jax.EulerParameters(normalized=False),
    "Rxyz": lie_jax.TaitBryan(),
}
_OF_BODIES = tuple(BODY_FORMULATIONS)


class _AnglesBeyond(lie_jax.TaitBryan):
    """Angles that may leave |β| < π/2, as the paper's must have done: β of links 1 and 2 is the
    angle of joint 1 and passes -π/2, where α and γ stay smooth.
    """

    def regular(self, q):
        """Taken for granted."""
        return jnp.ones(q.shape[:-1], bool)


_OF_ROBOT: dict[str, lie_jax.extend.AbstractFormulation] = {
    **BODY_FORMULATIONS,
    "Rxyz": _AnglesBeyond(),
    "Min. Coord.": lie_jax.Minimal(),
}


def _of_paper(newton: str, tangent_operator: bool) -> lie_jax.GeneralizedAlpha:
    return newton_rule.GeneralizedAlpha(0.9, newton=newton, tangent_operator=tangent_operator)


# As [S3] iterates, without the tangent operator T in the iteration matrix and with it, and as
# `lie_jax` does unless told otherwise.
RULES = {
    "S3": _of_paper("full", False),
    "S3, modified": _of_paper("modified", False),
    "S3 with T": _of_paper("full", True),
    "S3 with T, modified": _of_paper("modified", True),
    "default": lie_jax.GeneralizedAlpha(0.9),
}
# T is the identity where coordinates are added: with it or without it is one method.
_WITH_T = ("S3 with T", "S3 with T, modified")


class Case(NamedTuple):
    """A model, observed over some seconds.

    `build(formulation)` gives system and state, `observe(system, q)` what has an error in `unit`
    and `reference` its value at the end. `step_counts` are doubled from each to the next, of which
    each formulation takes the first `counts`.
    """

    build: Callable
    observe: Callable
    reference: tuple[float, ...]
    unit: str
    seconds: float
    rules: tuple[str, ...]
    first: int
    counts: dict[str, int]
    formulations: Mapping[str, lie_jax.extend.AbstractFormulation] = BODY_FORMULATIONS

    def step_counts(self, formulation: str) -> list[int]:
        """Numbers of steps, the smallest first."""
        return [self.first * 2**k for k in range(self.counts[formulation])]

    def rules_of(self, formulation: str) -> list[str]:
        """Those that differ in this formulation."""
        return [rule for rule in self.rules if formulation == "RV" or rule not in _WITH_T]


def _held_top(formulation):
    return heavy_top.build(formulation, constrained=True)


# [S3]'s steps are h = h₁ / 2^(n-1) with h₁ = 1e-4 s for the top (four larger ones come before: the
# paper's tables have such), 1e-4 s for the rotor, 4e-3 s for the slider-crank and 0.1 s for the
# robot. What is left out at the other end would take longer than all the rest.
CASES = {
    "heavy top": Case(
        heavy_top.build,
        heavy_top.center_of_mass,
        heavy_top.REFERENCE[1.0],
        "m",
        1.0,
        ("S3", "default"),
        625,
        dict.fromkeys(_OF_BODIES, 8),
    ),
    "constrained heavy top": Case(
        _held_top,
        heavy_top.center_of_mass,
        heavy_top.REFERENCE[1.0],
        "m",
        1.0,
        ("S3", "S3, modified", "S3 with T", "S3 with T, modified", "default"),
        625,
        dict.fromkeys(_OF_BODIES, 7),
    ),
    "rotor": Case(
        rotor.build,
        rotor.observed_point,
        rotor.REFERENCE[4.0],
        "m",
        4.0,
        ("S3", "default"),
        40_000,
        dict.fromkeys(_OF_BODIES, 5),
    ),
    "slider-crank": Case(
        slider_crank.build,
        slider_crank.slider_position,
        (slider_crank.REFERENCE[5.0][2],),
        "m",
        5.0,
        ("S3", "default"),
        1250,
        dict.fromkeys(_OF_BODIES, 6),
    ),
    "Puma 560": Case(
        puma560.build,
        puma560.joint_angles,
        puma560.REFERENCE[1.0][0],
        "rad",
        1.0,
        ("S3", "default"),
        10,
        dict.fromkeys(_OF_ROBOT, 9),
        _OF_ROBOT,
    ),
}
