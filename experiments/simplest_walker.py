"""Gaits of the simplest walker down slopes: stable ones, and those that no simulation shows.

Two rigid legs of unit length, a hip of 1000 feet, g = 1; the foot that strikes sticks. Newton's
method on the map from step to step finds a gait on each slope, and its Floquet multipliers say how
disturbances of a step come out of it. Published are the start on a slope of 0.009 rad (Bhounsule,
passivewalker.m), and of feet without mass the gait on gentle slopes γ, whose angle is
0.970956 γ^(1/3) - 0.270837 γ and whose period is 3.812092, and the slope 0.0151 at which it becomes
unstable (Garcia, Chatterjee, Ruina and Coleman, J. Biomech. Eng. 120, 1998).
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from experiments import _plots, _report

HIP, FOOT = 1000.0, 1.0
# Of so heavy a hip feet are without mass, to the published digits.
HEAVY = 1e6
HINGE = (0.0, -1.0, 0.0)
STEPS, LONGEST = 500, 5.0
PUBLISHED_SLOPE = 0.009
# Stance angle and rate, angle and rate between the legs.
PUBLISHED = (0.200161072169750, -0.199906060087682, 0.400322144339512, -0.015805473227965)
SLOPES = np.linspace(0.001, 0.019, 19)
# Angle and period on gentle slopes.
ANGLE, ANGLE_SLOPE, PERIOD = 0.970956, -0.270837, 3.812092


def build(slope: Any, hip_mass: float = HIP) -> lie_jax.extend.AbstractMultibodySystem:
    """The walker on its stance leg, in the slope's axes: x downhill, z across."""
    point = 1e-12 * jnp.eye(3)
    stance = lie_jax.Body("stance", hip_mass, point, center_of_mass=(0, 0, 1.0))
    swing = lie_jax.Body("swing", FOOT, point, position=(0, 0, 1.0), center_of_mass=(0, 0, -1.0))
    foot = lie_jax.RevoluteJoint("ground", "stance", HINGE)
    hip = lie_jax.RevoluteJoint("stance", "swing", HINGE, parent_point=(0, 0, 1.0))
    gravity = jnp.stack([jnp.sin(slope), 0.0 * slope, -jnp.cos(slope)])
    mechanism = lie_jax.Mechanism([stance, swing], [foot, hip], gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.Minimal())[0]


def strike(t, q, v):
    """Height of the swinging foot, but where the legs pass each other."""
    return jnp.where(q[1] < 0.05, 1.0, 2.0 * q[0] + q[1])


def gait(slope: float, start: lie_jax.State, hip_mass: float = HIP) -> lie_jax.PeriodicOrbit:
    """The gait on a slope (rad) near a start."""

    def impact(t, q, v):
        # Legs swapped; momenta about the new foot, and of the trailing leg about the hip, are kept.
        cosine, sine = jnp.cos(q[1]), jnp.sin(q[1])
        rate = hip_mass * cosine * v[0] / (hip_mass + FOOT * sine**2)
        return jnp.stack([q[0] + q[1], -q[1]]), jnp.stack([rate, (cosine - 1.0) * rate])

    event = lie_jax.Event(strike, impact, direction=-1)
    return lie_jax.periodic_orbit(
        *(build(jnp.asarray(slope), hip_mass), lie_jax.RKMK("rk4"), start),
        **{"period": LONGEST, "steps": STEPS, "until": event},
    )


def follow(first: lie_jax.PeriodicOrbit) -> dict[float, lie_jax.PeriodicOrbit]:
    """Gaits on all slopes, each from that on the slope beside it, scaled as gentle ones are."""
    middle = int(np.argmin(np.abs(SLOPES - PUBLISHED_SLOPE)))
    gaits = {float(SLOPES[middle]): first}
    for direction in (-1, 1):
        slope, orbit = float(SLOPES[middle]), first
        for number in range(middle + direction, len(SLOPES) if direction > 0 else -1, direction):
            size = (SLOPES[number] / slope) ** (1.0 / 3.0)
            start = lie_jax.State(size * orbit.state.q, size * orbit.state.v)
            slope = float(SLOPES[number])
            orbit = gaits[slope] = gait(slope, start)
    return dict(sorted(gaits.items()))


def size_of(orbit: lie_jax.PeriodicOrbit) -> float:
    """Size of the largest multiplier."""
    return float(abs(orbit.multipliers[0]))


def steepest(gaits: dict[float, lie_jax.PeriodicOrbit], hip_mass: float = HIP) -> float:
    """Slope on which the largest multiplier passes one, by secants between two gaits."""
    before = max(slope for slope in gaits if size_of(gaits[slope]) < 1.0)
    now = min(slope for slope in gaits if slope > before)
    near = gaits[now].state
    size_before, size_now = (size_of(gait(slope, near, hip_mass)) for slope in (before, now))
    for _ in range(6):
        following = now - (size_now - 1.0) * (now - before) / (size_now - size_before)
        before, size_before, now = now, size_now, following
        size_now = size_of(gait(now, near, hip_mass))
        if abs(now - before) < 1e-9:
            break
    return float(now)


def numbers(gaits: dict[float, lie_jax.PeriodicOrbit]) -> list[dict[str, Any]]:
    """What is written of each gait."""
    return [
        {
            "slope": slope,
            "q": np.asarray(orbit.state.q).tolist(),
            "v": np.asarray(orbit.state.v).tolist(),
            "period": float(orbit.period),
            "multipliers": [[float(x.real), float(x.imag)] for x in orbit.multipliers],
            "stable": bool(orbit.stable),
            "residual": float(orbit.residual),
            "evaluations": int(orbit.iterations),
        }
        for slope, orbit in gaits.items()
    ]


def plot(gaits: dict[float, lie_jax.PeriodicOrbit], limit: float, path: Path) -> None:
    """Legs over a step, multipliers by slope and in the plane, angles by slope."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.5))
    run = min(gaits.items(), key=lambda pair: abs(pair[0] - PUBLISHED_SLOPE))[1].trajectory
    t, q = np.asarray(run.t), np.asarray(run.q)
    axes[0, 0].plot(t, q[:, 0], color=_plots.BLUE, label="stance leg")
    axes[0, 0].plot(t, q[:, 0] + q[:, 1], color=_plots.ORANGE, label="swinging leg")
    axes[0, 0].set(xlabel="t √(g/l)", ylabel="angle (rad)", title="a step on a slope of 0.009")
    axes[0, 0].legend()
    slopes, ticks = np.array(list(gaits)), [0.0, 0.005, 0.01, 0.015, 0.02]
    pairs: Any = np.array([np.asarray(orbit.multipliers)[:2] for orbit in gaits.values()])
    axes[0, 1].plot(slopes, np.abs(pairs), "o-", ms=4, color=_plots.BLUE)
    axes[0, 1].axhline(1.0, color=_plots.BLACK, lw=0.8)
    axes[0, 1].axvline(limit, color=_plots.RED, ls="--", label=f"unstable from {limit:.5f} on")
    axes[0, 1].set(
        xlabel="slope (rad)", ylabel="size of multipliers", title="stability", xticks=ticks
    )
    axes[0, 1].legend()
    circle: Any = np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 200))
    axes[1, 0].plot(circle.real, circle.imag, color=_plots.BLACK, lw=0.8)
    points = axes[1, 0].scatter(
        pairs.real.ravel(), pairs.imag.ravel(), c=np.repeat(slopes, 2), cmap="viridis", s=18
    )
    figure.colorbar(points, ax=axes[1, 0], label="slope (rad)")
    axes[1, 0].set(xlabel="real part", ylabel="imaginary part", title="multipliers", aspect=1.0)
    angles = [float(orbit.state.q[0]) for orbit in gaits.values()]
    fine = np.linspace(slopes[0], slopes[-1], 200)
    axes[1, 1].plot(fine, ANGLE * fine ** (1.0 / 3.0) + ANGLE_SLOPE * fine, color=_plots.ORANGE,
                    label="published, gentle slopes")  # fmt: skip
    axes[1, 1].plot(slopes, angles, "o", ms=4, color=_plots.BLUE, label="gaits")
    axes[1, 1].set(
        xlabel="slope (rad)", ylabel="stance angle (rad)", title="length of steps", xticks=ticks
    )
    axes[1, 1].legend()
    _plots.save(figure, path)


def main(folder: Path) -> None:
    """Search, print, write `gaits.json` and `simplest_walker.png`."""
    first = gait(PUBLISHED_SLOPE, lie_jax.State([0.2, -0.4], [-0.2, 0.3]))
    (q, v), sign = (np.asarray(x) for x in (first.state.q, first.state.v)), np.array([1.0, -1.0])
    found = np.stack([sign * q, sign * v], axis=1).ravel()
    error = float(np.abs(found - np.array(PUBLISHED)).max())
    print(f"slope 0.009: {error:.1e} from the published start, period {float(first.period):.7f}, "
          f"multipliers {np.round(np.asarray(first.multipliers), 6)}")  # fmt: skip
    gaits = follow(first)
    limit = steepest(gaits)
    massless = steepest(gaits, HEAVY)
    print(f"unstable from a slope of {limit:.6f} on, with feet without mass {massless:.6f}")
    results: dict[str, Any] = {"error": error, "steepest": limit, "steepest_massless": massless}
    results["gaits"] = numbers(gaits)
    plot(gaits, limit, folder / "simplest_walker.png")
    _report.write_json(folder / "gaits.json", results)
