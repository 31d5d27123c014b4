"""Cases of the comparison: systems, what is observed of them, and references to compare with."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import lie_jax
from models import governor, heavy_top, loops, puma560, rotor, slider_crank, squeezer


class Case(NamedTuple):
    """A system, run to the last of some `times` (s) and observed at each of them.

    `error(system, states)` is the largest deviation of the states at these times from digits of an
    independent solution; `observed` names it and its unit. Runs with steps of one size begin with
    `coarsest` steps, of which each time takes a whole number. `first_step` (s) is the size with
    """

    build: Callable
    times: tuple[float, ...]
    error: Callable[..., float]
    observed: str
    coarsest: int
    first_step: float
    damped: bool = False


def _wrapped(angle: float) -> float:
    return float(np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi)


def _top(system, states: Sequence[lie_jax.State]) -> float:
    center = heavy_top.center_of_mass(system, states[0].q)
    return float(np.linalg.norm(np.asarray(center) - np.asarray(heavy_top.REFERENCE[1.0])))


def _crank(system, states: Sequence[lie_jax.State]) -> float:
    angle, _, slide, _ = slider_crank.REFERENCE[1.0]
    turned = _wrapped(float(slider_crank.crank_angle(system, states[0].q)) - angle)
    moved = float(slider_crank.slider_position(system, states[0].q)) - slide
    return max(abs(turned), abs(moved))


def _puma(system, states: Sequence[lie_jax.State]) -> float:
    pairs = zip(states, puma560.REFERENCE.values(), strict=True)
    gaps = [np.asarray(puma560.joint_angles(system, s.q)) - angles for s, (angles, _) in pairs]
    return float(np.max(np.abs(gaps)))


SQUEEZER_TIME = 0.03


def _squeezer(system, states: Sequence[lie_jax.State]) -> float:
    crank = squeezer.REFERENCE[SQUEEZER_TIME][0]
    return abs(_wrapped(float(squeezer.crank_angle(system, states[0].q)) - crank))


ROTOR_TIME = 0.5


def _rotor(system, states: Sequence[lie_jax.State]) -> float:
    expected = np.asarray(rotor.REFERENCE[ROTOR_TIME])
    displaced = expected - (-rotor.LEFT, 0.0, 0.0)
    gap = np.asarray(rotor.observed_point(system, states[0].q)) - expected
    return float(np.linalg.norm(gap) / np.linalg.norm(displaced))


def _governor(system, states: Sequence[lie_jax.State]) -> float:
    observed = np.asarray([governor.readings(system, state.q, state.v) for state in states])
    gaps = observed - np.asarray(list(governor.REFERENCE.values()))
    return float(np.max(np.abs(gaps[:, :2])))


CASES = {
    "heavy top": Case(
        heavy_top.build, (1.0,), _top, "centre of mass after 1 s (m)", 250, 1e-4
    ),
    "slider-crank": Case(
        lambda: slider_crank.build(lie_jax.Minimal()),
        (1.0,), _crank, "crank (rad), slider (m) after 1 s", 50, 1e-3,
    ),
    "Puma 560": Case(
        lambda: puma560.build(lie_jax.Minimal()),
        tuple(puma560.REFERENCE), _puma, "angles of joints (rad)", 50, 1e-4, True,
    ),
    "squeezer": Case(
        lambda: loops.model("squeezer"),
        (SQUEEZER_TIME,), _squeezer, "crank after 0.03 s (rad)", 50, 1e-6
    ),
    "rotor": Case(
        rotor.build, (ROTOR_TIME,), _rotor, "displacement after 0.5 s, relative", 1000, 1e-5
    ),
    "governor": Case(
        lambda: governor.build(lie_jax.Minimal()),
        tuple(governor.REFERENCE), _governor, "error of slider (m), rod (rad)", 100, 1e-4, True,
    ),
}  # fmt: skip
