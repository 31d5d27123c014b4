"""A drone flies to a point by its propellers, actuators at sites of the file."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots
from experiments._robot_examples import parts

FILE = "skydio_x2/x2.xml"
DT, STEPS = 5e-3, 800
GOAL = (1.0, 0.8, 1.5)
# m/s²: the largest acceleration that is wished for.
LARGEST = 4.0
# 1/s², 1/s: of the position, the attitude.
POSITION, ATTITUDE = (4.0, 3.5), (120.0, 18.0)


def main(path: Path, out: Path) -> dict[str, Any]:
    """Write x2.png and x2.html; returns the numbers."""
    model = parts.imported(path)
    mechanism, limits = model.mechanism, model.actuators[0].limits
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    matrix = mixer(model, system)
    start = model.keyframes["hover"]
    # The file's propellers of one side turn the same way: their torque about z follows from that
    # about x. Three numbers can be chosen, and the drone keeps its heading by itself.
    share = jnp.linalg.pinv(matrix[jnp.asarray([0, 1, 3])])
    mass, inertia = mechanism.bodies[0].mass, mechanism.bodies[0].inertia

    def policy(t, q, v):
        """Thrust for the wished acceleration, and torques that turn the axis z towards it."""
        rotation = lie_jax.groups.quaternion.to_matrix(q[3:])
        wish = POSITION[0] * (jnp.asarray(GOAL) - q[:3]) - POSITION[1] * (rotation @ v[:3])
        wish = wish * LARGEST / jnp.maximum(LARGEST, jnp.linalg.norm(wish)) - mechanism.gravity
        seen = rotation.T @ wish
        error = jnp.asarray([-seen[1], seen[0]]) / jnp.linalg.norm(wish)
        turn = ATTITUDE[0] * error - ATTITUDE[1] * v[3:5]
        wanted = jnp.append(inertia[:2, :2] @ turn, mass * seen[2])
        return jnp.clip(share @ wanted, *limits)

    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), start, dt=DT, steps=STEPS, policy=policy)
    parts.scene(out / "x2.html", model, system, run, traces=mechanism.names)
    thrusts = np.asarray(jax.jit(jax.vmap(policy))(run.t, run.q, run.v))
    away = np.linalg.norm(np.asarray(run.q[:, :3]) - GOAL, axis=1)
    turned = np.asarray(jax.vmap(lie_jax.groups.quaternion.to_matrix)(run.q[:, 3:]))
    _plot(out / "x2.png", run, thrusts)
    return {
        "mass": float(mass),
        "distance at the start": away[0],
        "distance at the end": away[-1],
        "speed at the end": float(jnp.linalg.norm(run.v[-1, :3])),
        "time to 1 cm": float(run.t[np.max(np.flatnonzero(away > 0.01))]),
        "thrusts at the end": thrusts[-1],
        "smallest and largest thrust": [thrusts.min(), thrusts.max()],
        "limits": limits,
        "torques about z over those about x": np.asarray(matrix[2] / matrix[0]),
        "largest tilt": float(np.max(np.arccos(turned[:, 2, 2]))),
        "largest turn about z": float(np.max(np.abs(np.arctan2(turned[:, 1, 0], turned[:, 0, 0])))),
    }


def mixer(
    model: lie_jax.io.ImportedModel, system: lie_jax.extend.AbstractMultibodySystem
) -> jax.Array:
    """Matrix (4, 4) from thrusts to torque about the centre of mass and force along z."""
    start, center = model.keyframes["hover"], model.mechanism.bodies[0].center_of_mass
    hover = model.keyframe_inputs["hover"]
    by_thrust = jax.jacfwd(lambda u: system.force(0.0, start.q, start.v, u))(hover)
    levers = jnp.cross(center, by_thrust[:3], axisb=0, axisc=0)
    return jnp.concatenate([by_thrust[3:] - levers, by_thrust[2:3]])


def _plot(path: Path, run, thrusts) -> None:
    figure, (left, right) = _plots.plt.subplots(1, 2, figsize=(9.0, 3.0))
    for k, name in enumerate("xyz"):
        left.plot(run.t, run.q[:, k], label=name)
        left.axhline(GOAL[k], color=_plots.COLORS[k], ls=":")
    left.set(xlabel="t / s", title="position / m")
    left.legend()
    right.plot(run.t, thrusts, lw=1.0)
    right.set(xlabel="t / s", title="thrusts / N")
    _plots.save(figure, path)
