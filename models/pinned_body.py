"""A rigid body on a ball joint at the world origin, with the recording of an experiment.

What is known of the experiment is in `models/data/README.md`: the mass, gravity, the places of two
markers, a driving force and its place, and the size of the noise. Unknown are the centre of mass,
the inertia, the viscous friction of the joint and the initial orientation and angular velocity.

The body frame lies at the joint (`constrained=False`) or at the centre of mass
(`constrained=True`); points of the body are given from the joint.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from models import fixed_point
from models.fixed_point import Numbers

MASS = 2.35
GRAVITY = (0.0, 0.0, -9.81)
MARKERS = ((0.12, 0.0, 0.35), (0.0, 0.10, 0.20))
DRIVE_POINT = (0.05, 0.02, 0.30)
MARKER_NOISE = 0.5e-3
GYRO_NOISE = 0.02
RECORDING = Path(__file__).parent / "data" / "pinned_body_recording.csv"
COLUMNS = ("t", "ax", "ay", "az", "bx", "by", "bz", "wx", "wy", "wz")


def drive(t: Float[Array, ""]) -> Float[Array, "3"]:
    """The driving force (N, inertial components) at time t (s)."""
    return jnp.stack([3.0 * jnp.sin(4.0 * t), 2.0 * jnp.cos(3.0 * t), jnp.zeros_like(t)])


def _opposite_drive(t: Float[Array, ""]) -> Float[Array, "3"]:
    return -drive(t)


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    constrained: bool = False,
    mass: Numbers = MASS,
    center_of_mass: Numbers,
    inertia: Numbers,
    friction: Numbers,
    orientation: Numbers,
    omega_body: Numbers,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The body as a system and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; `constrained`: whether a spherical joint holds
    the body, or the equations are those about the fixed point; `mass` in kg; `center_of_mass` (3,)
    from the joint in body axes, m; `inertia` (3, 3) about the centre of mass, kg m²; `friction` in
    N m s/rad; `orientation` (4,), a unit quaternion; `omega_body` (3,), rad/s; `gravity` (3,),
    m/s².
    """
    return fixed_point.build(
        formulation,
        constrained=constrained,
        mass=mass,
        inertia=inertia,
        center_of_mass=center_of_mass,
        orientation=orientation,
        omega_body=omega_body,
        gravity=gravity,
        friction=friction,
        applied=(drive, _opposite_drive, DRIVE_POINT),
    )


class Observations(NamedTuple):
    """Markers (n, 6): world positions of A, then B, m; gyro (n, 3): body-fixed ω, rad/s."""

    markers: Array
    gyro: Array


def observe(
    system: lie_jax.extend.AbstractMultibodySystem, trajectory: lie_jax.Trajectory
) -> Observations:
    """Readings of markers and gyro at the trajectory's instants."""
    points = jnp.asarray(MARKERS, trajectory.q.dtype)

    def at(q):
        return jnp.concatenate([fixed_point.point_on_body(system, q, p) for p in points])

    twists = jax.vmap(system.twists)(trajectory.q, trajectory.v)
    return Observations(jax.vmap(at)(trajectory.q), twists[:, 0, 3:])


class Recording(NamedTuple):
    """Times (n,), s, and the observations at them."""

    t: np.ndarray
    observations: Observations


def read_recording(path: str | Path = RECORDING) -> Recording:
    """Read a recording with the columns t, ax..az, bx..bz, wx..wz.

    Raises `ValueError`, naming the file and the line, for a missing column, a value that is
    missing, no number or not finite, and times that do not increase.
    """
    rows: list[list[float]] = []
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise ValueError(
                f"{path}, line 1: the column {missing[0]!r} is missing; the header must name "
                f"{', '.join(COLUMNS)}, it names {', '.join(header)}."
            )
        places = [header.index(name) for name in COLUMNS]
        for line in reader:
            if not line:
                continue
            rows.append(_numbers(path, reader.line_num, line, places))
            if len(rows) > 1 and rows[-1][0] <= rows[-2][0]:
                raise ValueError(
                    f"{path}, line {reader.line_num}: the time {rows[-1][0]:g} s does not follow "
                    f"{rows[-2][0]:g} s; times must increase: sort the lines."
                )
    if not rows:
        raise ValueError(f"{path}, line 1: no samples follow the header; at least one must.")
    table = np.asarray(rows)
    return Recording(
        table[:, 0], Observations(jnp.asarray(table[:, 1:7]), jnp.asarray(table[:, 7:]))
    )


# How far a time may lie from the regular one, as a fraction of the interval: clocks are printed
# rounded.
_REGULARITY = 1e-3


def sample_interval(t: np.ndarray) -> float:
    """The interval (s) of samples that start at 0 and are equally spaced.

    Raises `ValueError`, naming the first sample (from 0) that is not, for any others.
    """
    interval = float(t[-1] - t[0]) / (len(t) - 1)
    if t[0] != 0.0:
        raise ValueError(
            f"sample 0 is at {t[0]:g} s; times must start at 0, when the driving force does: shift "
            "the times and the force."
        )
    usual = float(np.median(np.diff(t)))
    off = np.flatnonzero(np.abs(np.diff(t) - usual) > _REGULARITY * usual)
    if len(off):
        i = int(off[0]) + 1
        raise ValueError(
            f"sample {i} (line {i + 2}) at {t[i]:g} s follows {t[i - 1]:g} s; samples must be "
            f"equally spaced, here by {usual:g} s: fill the gap or cut the recording there."
        )
    return interval


def _numbers(path, number: int, line: list[str], places: list[int]) -> list[float]:
    values = []
    for name, place in zip(COLUMNS, places, strict=True):
        text = line[place].strip() if place < len(line) else ""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise ValueError(
                f"{path}, line {number}: the value of {name!r} is {text!r}; it must be a finite "
                "number: repair or remove the line."
            )
        values.append(value)
    return values
