"""Rest-to-rest reorientation of a rigid satellite with minimum effort, by three methods.

About a principal axis the optimum is known: the double integrator I θ̈ = u with the torque
u = 6 I Δθ (1 - 2 t/T) / T² and the cost 6 I² Δθ² / T³. With a torque that is held over each of n
steps it is 6 I² Δθ² / T³ · n² / (n² - 1). About any other axis the best motion is no rotation about
a fixed axis, and two methods must agree on it.
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import trimesh
from jaxtyping import Array, Float

import lie_jax
from experiments import _plots, _report
from lie_jax import control, viz
from lie_jax.groups import quaternion

MOMENTS = (10.0, 15.0, 20.0)  # kg m²
DURATION = 10.0  # s
STEPS = 100
DT = DURATION / STEPS
PRINCIPAL = (0.0, 0.0, 2.0 * np.pi / 3.0)  # rotation vector, rad: 120° about the third axis
GENERAL = (1.5, -1.0, 1.2)  # rad: 124° about an axis between all three
INTEGRATOR = lie_jax.RKMK("rk4")
NODES = 5
LIMIT = 1.2  # N m, below the largest torque of the free optimum
TOLERANCES = {"tolerance": 1e-8, "end_tolerance": 1e-9}


def build() -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """A free body with a torque about each body axis as input."""
    body = lie_jax.Body("satellite", 100.0, np.diag(MOMENTS))
    torques = [
        lie_jax.Torque("satellite", axis, "body", input=k) for k, axis in enumerate(np.eye(3))
    ]
    mechanism = lie_jax.Mechanism([body], forces=torques, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def effort(t, q, v, u):
    """½ uᵀu."""
    return 0.5 * jnp.sum(u**2)


class AtRest(eqx.Module):
    """Zero when the satellite rests at the target (4,), a quaternion."""

    system: lie_jax.extend.AbstractSystem
    target: Float[Array, "4"]

    def __call__(self, q, v):
        """Rotation vector from the target, and angular velocity: (6,)."""
        target = jnp.concatenate([jnp.zeros_like(q[:3]), self.target])
        return jnp.concatenate([self.system.space.inverse_retract(target, q)[3:], v[3:]])


def known_cost(moment: float, angle: float) -> dict[str, float]:
    """Least effort of a turn about a principal axis: continuous, and with held torques."""
    continuous = 6.0 * moment**2 * angle**2 / DURATION**3
    return {"continuous": continuous, "held": continuous * STEPS**2 / (STEPS**2 - 1)}


def fixed_axis_bound(vector) -> float:
    """Less effort than this turns about no fixed axis, whatever the angle does in time.

    The torque is I e θ̈ + θ̇² e × I e, its two parts are at right angles, and from rest to rest
    ∫ θ̈² dt is at least 12 Δθ² / T³ and ∫ θ̇⁴ dt at least Δθ⁴ / T³.
    """
    angle = float(np.linalg.norm(vector))
    axis = np.asarray(vector) / angle
    momentum = np.diag(MOMENTS) @ axis
    along = 6.0 * np.sum(momentum**2) * angle**2
    return float(along + 0.5 * np.sum(np.cross(axis, momentum) ** 2) * angle**4) / DURATION**3


def solve(vector) -> dict[str, control.Solution]:
    """All methods from the zero guess; single shooting from random torques too."""
    system, state = build()
    end = AtRest(system, quaternion.exp(jnp.asarray(vector)))
    common = {"dt": DT, "running": effort, "end": end, **TOLERANCES}
    zero = jnp.zeros((STEPS, 3))
    noise = jnp.asarray(np.random.default_rng(0).normal(size=zero.shape))
    return {
        "iLQR": control.ilqr(system, INTEGRATOR, state, zero, **common),
        "single shooting": control.shoot(system, INTEGRATOR, state, zero, **common),
        "single shooting, random guess": control.shoot(system, INTEGRATOR, state, noise, **common),
        "multiple shooting": control.shoot(system, INTEGRATOR, state, zero, nodes=NODES, **common),
    }


def solve_limited(vector) -> dict[str, control.Solution]:
    """With limits on the torques."""
    system, state = build()
    end = AtRest(system, quaternion.exp(jnp.asarray(vector)))
    common = {"dt": DT, "running": effort, "end": end, "limits": (-LIMIT, LIMIT), **TOLERANCES}
    zero = jnp.zeros((STEPS, 3))
    return {
        "iLQR, limited": control.ilqr(system, INTEGRATOR, state, zero, **common),
        "single shooting, limited": control.shoot(system, INTEGRATOR, state, zero, **common),
    }


def numbers(solutions: dict[str, control.Solution]) -> dict[str, dict]:
    """Checks of each method; prints them."""
    table = {}
    for name, best in solutions.items():
        table[name] = {
            "cost": float(best.cost),
            "iterations": int(best.iterations),
            "gradient_norm": float(best.gradient_norm),
            "violation": float(best.violation),
            "converged": bool(best.converged),
        }
        print(
            f"  {name:30} cost {float(best.cost):.10f}  iterations {int(best.iterations):3}  "
            f"gradient {float(best.gradient_norm):.0e}  end {float(best.violation):.0e}"
        )
    return table


def plot(solutions: dict[str, control.Solution], path: Path) -> None:
    """Attitude, rates and torques of the general turn, free and limited; convergence."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.5))
    free, limited = solutions["iLQR"], solutions["iLQR, limited"]
    vectors = jax.vmap(quaternion.log)(free.trajectory.q[:, 3:])
    colors = (_plots.BLUE, _plots.ORANGE, _plots.GREEN)
    for i, color in enumerate(colors):
        axes[0, 0].plot(free.trajectory.t, vectors[:, i], color=color, label=f"axis {i + 1}")
        for best, style in ((free, "-"), (limited, "--")):
            t = best.trajectory.t
            axes[0, 1].plot(t, best.trajectory.v[:, 3 + i], style, color=color)
            axes[1, 0].stairs(best.inputs[:, i], t, baseline=None, color=color, linestyle=style)
    axes[0, 0].set(xlabel="t (s)", ylabel="rotation vector (rad)", title="attitude")
    axes[0, 1].set(xlabel="t (s)", ylabel="ω, body (rad/s)", title="rates; dashed: limited")
    axes[1, 0].set(xlabel="t (s)", ylabel="torque (N m)", title="torques; dashed: limited")
    axes[0, 0].legend()
    for (name, best), marker in zip(solutions.items(), "osxv^D", strict=True):
        # The zero guess has no gradient: what it lacks is the end.
        left = np.maximum(best.history.gradient_norm, best.history.violation)
        axes[1, 1].semilogy(left, marker=marker, ms=4, label=name)
    axes[1, 1].set(
        xlabel="iteration",
        ylabel="relative gradient or end values",
        xlim=(0, 30),
        title="convergence",
    )
    axes[1, 1].legend(fontsize=7)
    _plots.save(figure, path)


# Corners of a panel of solar cells in the body's frame (m); another one lies across from it.
_PANEL = np.array([[0, 0.5, 0], [0.4, 0.8, 0], [0.4, 2.0, 0], [-0.4, 2.0, 0], [-0.4, 0.8, 0]])
_FACES = np.array([[0, 1, 4], [1, 2, 3], [1, 3, 4]])


def shapes() -> list[Any]:
    """The satellite in its GIF: a box, two panels and an antenna."""
    blue = tuple(np.array([0, 114, 178, 255]) / 255.0)
    red = tuple(np.array([213, 94, 0, 255]) / 255.0)
    antenna = trimesh.creation.cylinder(0.04, segment=[(0, 0, 0.5), (0, 0, 1.4)])
    box = trimesh.creation.box((1.0, 1.0, 1.0))
    return [
        viz.Mesh("satellite", box.vertices, box.faces, (0.75, 0.75, 0.75, 1.0)),
        viz.Mesh("satellite", antenna.vertices, antenna.faces, red),
        *(viz.Mesh("satellite", side * _PANEL, _FACES, blue) for side in (1.0, -1.0)),
    ]


def main(folder: Path) -> None:
    """Solve, print, write `optimum.json`, `reorientation.png` and `reorientation.gif`."""
    known = known_cost(MOMENTS[2], PRINCIPAL[2])
    print(f"about a principal axis: known optimum {known['continuous']:.10f}, "
          f"with held torques {known['held']:.10f}")  # fmt: skip
    results = {"known_cost": known, "principal": numbers(solve(PRINCIPAL))}
    bound = fixed_axis_bound(GENERAL)
    print(f"about a general axis: a turn about a fixed axis costs more than {bound:.10f}")
    free = solve(GENERAL)
    results |= {"fixed_axis_bound": bound, "general": numbers(free)}
    limited = solve_limited(GENERAL)
    results["limited"] = numbers(limited)
    _report.write_json(folder / "optimum.json", results)
    plot(free | limited, folder / "reorientation.png")
    system, _ = build()
    run = system, free["iLQR"].trajectory
    viz.video(folder / "reorientation.gif", run, speed=2.0, shapes=shapes())
