"""Settings of all programs of a case: sizes of steps, their number, and the models' changes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Missing(Exception):
    """A peer that is not installed or does not have the model; says why."""


class Program(NamedTuple):
    """A program that was set up, compiled and run once.

    `run()` does `units` steps (of all its trajectories together) and returns when they are done;
    `end` is what it computed, which others must compute too; `detail` tells more of the run.
    `base`, if there is one, is another program of the same process that takes turns with it, of as
    many units.
    """

    run: Callable[[], Any]
    units: float
    end: list[float]
    detail: dict[str, float] = {}  # noqa: RUF012
    base: Callable[[], Any] | None = None


class Run(NamedTuple):
    """Steps of one run, their size (s) and how many trajectories."""

    steps: int
    dt: float
    batch: int = 1

    @property
    def units(self) -> int:
        """Trajectory steps."""
        return self.steps * self.batch


BATCH = 4096
TREES = (
    *("7 hinges", "7 hinges and a leaf", "arm with gripper", "quadruped", "humanoid", "hand"),
    "two arms",
)
# Full and quick. The number of steps makes a run of some milliseconds at least.
RUNS = {
    "top": (Run(10_000, 1e-4), Run(10_000, 1e-4)),
    "top joint": (Run(10_000, 1e-4), Run(2_000, 1e-4)),
    "rotor": (Run(10_000, 1e-5), Run(2_000, 1e-5)),
    "slider-crank": (Run(2_000, 1e-3), Run(500, 1e-3)),
    "puma": (Run(1_000, 1e-4), Run(200, 1e-4)),
    "top batch": (Run(100, 1e-4, BATCH), Run(20, 1e-4, BATCH)),
    "links": (Run(500, 1e-3), Run(500, 1e-3)),
    "links batch": (Run(25, 1e-3, BATCH), Run(5, 1e-3, BATCH)),
    **dict.fromkeys(TREES, (Run(500, 1e-3), Run(200, 1e-3))),
    "standing": (Run(500, 1e-3), Run(100, 1e-3)),
    "standing batch": (Run(20, 1e-3, BATCH), Run(2, 1e-3, BATCH)),
    "held humanoid": (Run(300, 1e-3), Run(50, 1e-3)),
    **{f"{name} batch": (Run(5, 1e-3, BATCH), Run(1, 1e-3, BATCH)) for name in TREES},
    "squeezer": (Run(3_000, 1e-5), Run(300, 1e-5)),
    "stewart": (Run(500, 1e-3), Run(50, 1e-3)),
    "four-bars-10": (Run(300, 1e-3), Run(30, 1e-3)),
    "four-bars-40": (Run(100, 1e-3), Run(10, 1e-3)),
    # Until 1 s, in steps of automatic size.
    "top adaptive": (Run(1, 1.0), Run(1, 1.0)),
    "chain-4": (Run(2_000, 2e-4), Run(500, 2e-4)),
    "chain-16": (Run(1_000, 2e-4), Run(200, 2e-4)),
    "chain-64": (Run(400, 2e-4), Run(100, 2e-4)),
    "chain-256": (Run(100, 2e-4), Run(40, 2e-4)),
    "chain-1024": (Run(40, 2e-4), Run(20, 2e-4)),
}
CHAIN_SIZES = (4, 16, 64, 256, 1024)
# Of a long chain's positions the rounding, divided by the square of the step, would keep Newton's
# method from its tolerance, in every simulator: longer chains have shorter links.
LONGEST_CHAIN = 32.0
# In steps of automatic size.
TOLERANCE = 1e-8
RHO_INF = 0.9
# How far the Puma's controllers send its joints at once, rad: a command that does not move, so that
# no simulator calls back into Python in its steps.
PUMA_COMMAND = 0.02


def run_of(case: str, quick: bool) -> Run:
    """The run of a case."""
    return RUNS[case][quick]


def link_length(links: int) -> float:
    """Length of the links of a chain of so many, m."""
    return min(0.5, LONGEST_CHAIN / links)


def spread(vector: tuple[float, ...], batch: int) -> np.ndarray:
    """(batch, n): multiples of a vector from 0.9 to 1.1 times."""
    return np.linspace(0.9, 1.1, batch)[:, None] * np.asarray(vector)
