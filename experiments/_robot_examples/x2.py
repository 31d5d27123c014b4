"""A drone flies to a point; its propellers are forces and torques at frames of the file."""

import dataclasses
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

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
    forces, mixer, limits = propellers(path, model)
    mechanism = dataclasses.replace(model.mechanism, forces=forces)
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    start = model.keyframes["hover"]
    # The file's propellers of one side turn the same way: their torque about z follows from that
    # about x. Three numbers can be chosen, and the drone keeps its heading by itself.
    share = jnp.linalg.pinv(mixer[jnp.asarray([0, 1, 3])])
    mass, inertia = mechanism.bodies[0].mass, mechanism.bodies[0].inertia

    def policy(t, q, v):
        """Thrust for the wished acceleration, and torques that turn the axis z towards it."""
        rotation = lie_jax.quaternion.to_matrix(q[3:])
        wish = POSITION[0] * (jnp.asarray(GOAL) - q[:3]) - POSITION[1] * (rotation @ v[:3])
        wish = wish * LARGEST / jnp.maximum(LARGEST, jnp.linalg.norm(wish)) - mechanism.gravity
        seen = rotation.T @ wish
        error = jnp.asarray([-seen[1], seen[0]]) / jnp.linalg.norm(wish)
        turn = ATTITUDE[0] * error - ATTITUDE[1] * v[3:5]
        wanted = jnp.append(inertia[:2, :2] @ turn, mass * seen[2])
        return jnp.clip(share @ wanted, *limits)

    run = parts.closed_loop(system, lie_jax.RKMK("rk4"), start, policy, dt=DT, steps=STEPS)
    parts.scene(out / "x2.html", model, system, run, traces=mechanism.names)
    thrusts = np.asarray(jax.jit(jax.vmap(policy))(run.t, run.q, run.v))
    away = np.linalg.norm(np.asarray(run.q[:, :3]) - GOAL, axis=1)
    turned = np.asarray(jax.vmap(lie_jax.quaternion.to_matrix)(run.q[:, 3:]))
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
        "torques about z over those about x": np.asarray(mixer[2] / mixer[0]),
        "largest tilt": float(np.max(np.arccos(turned[:, 2, 2]))),
        "largest turn about z": float(np.max(np.abs(np.arctan2(turned[:, 1, 0], turned[:, 0, 0])))),
    }


def propellers(
    path: Path, model: lie_jax.io.ImportedModel
) -> tuple[list[lie_jax.AbstractForce], jax.Array, tuple[float, float]]:
    """Forces and torques at the sites of the file's actuators, which import leaves out; the matrix
    (4, 4) from thrusts to torque and force along z about the centre of mass; limits of a thrust.

    The file's `gear` is force and torque for one unit of thrust, in the axes of the site.
    """
    root = ElementTree.parse(path).getroot()
    limits = np.fromstring(root.findall("default//motor")[0].attrib["ctrlrange"], sep=" ")
    forces, columns = [], []
    for number, motor in enumerate(root.findall("actuator/motor")):
        frame = model.frames[motor.attrib["site"]]
        gear = np.fromstring(motor.attrib["gear"], sep=" ")
        turn = lie_jax.quaternion.to_matrix(frame.orientation)
        force, torque = turn @ gear[:3], turn @ gear[3:]
        at = {"frame": "body", "input": number}
        forces.append(lie_jax.PointForce(frame.body, force, frame.position, **at))
        forces.append(lie_jax.Torque(frame.body, torque, **at))
        lever = frame.position - model.mechanism.bodies[0].center_of_mass
        columns.append(jnp.append(jnp.cross(lever, force) + torque, force[2]))
    return forces, jnp.stack(columns, axis=1), (limits[0], limits[1])


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
