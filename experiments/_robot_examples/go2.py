"""A quadruped stands on its feet under controllers, and hops by a pulse in its knees."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots
from experiments._robot_examples import parts
from lie_jax import contact

FILE = "unitree_go2/go2.xml"
FEET = "FL", "FR", "RL", "RR"
DT, STEPS = 1e-3, 2500
# N m/rad, N m s/rad
PROPORTIONAL, DERIVATIVE = 100.0, 3.0
# Torque in the knees, N m, and when it acts, s.
PULSE, BEGIN, END = 35.0, 1.0, 1.12
LAW = lie_jax.contact.HuntCrossley(1e6, dissipation=0.5)
FRICTION = lie_jax.contact.Coulomb(0.8)


def main(path: Path, out: Path) -> dict[str, Any]:
    """Write go2.png and go2.html; returns the numbers."""
    model = parts.imported(path)
    home = model.keyframes["home"]
    bare, _ = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    held = parts.servos(model, bare, home.q, PROPORTIONAL, DERIVATIVE)
    ground = contact.Plane("ground")
    feet = [lie_jax.contact.Contact(model.shapes[name], ground, LAW, FRICTION) for name in FEET]
    mechanism = dataclasses.replace(model.mechanism, forces=[*model.mechanism.forces, *held, *feet])
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    # In the keyframe the feet lie deep in the ground: the lowest one just touches it.
    lift = -jnp.min(system.contacts(0.0, home.q, home.v).gap)
    home = dataclasses.replace(home, q=home.q.at[2].add(lift))

    t = DT * np.arange(STEPS)
    knees = model.inputs({f"{leg}_calf": PULSE for leg in FEET})
    inputs = np.where((t >= BEGIN) & (t < END), 1.0, 0.0)[:, None] * np.asarray(knees)
    run = lie_jax.simulate(system, lie_jax.ConvexContact(), home, dt=DT, steps=STEPS, inputs=inputs)
    # The mesh of the trunk is missing in some copies of the folder.
    trunk = [x for x in model.shapes.values() if isinstance(x, contact.Box) and x.body == "base"]
    parts.scene(out / "go2.html", model, system, run, others=trunk)

    places = jax.jit(jax.vmap(system.contacts))(run.t, run.q, run.v)
    force, gap = np.asarray(places.normal_force), np.asarray(places.gap)
    height = np.asarray(run.q[:, 2])
    mass = float(sum(body.mass for body in mechanism.bodies))
    standing = round(BEGIN / DT) - 1
    knees = [k for k, joint in enumerate(model.joints) if joint.name.endswith("calf_joint")]
    turn, rate = home.q[7:][jnp.asarray(knees)] - run.q[:, 7:][:, knees], run.v[:, 6:][:, knees]
    torque = PROPORTIONAL * turn - DERIVATIVE * rate + np.append(inputs, inputs[-1:], 0)[:, knees]
    air = (force.sum(axis=1) == 0.0) & (run.t > BEGIN)
    _plot(out / "go2.png", run.t, height, force)
    return {
        "mass": mass,
        "weight": 9.81 * mass,
        "forces standing": force[standing],
        "sum of forces standing": force[standing].sum(),
        "height standing": height[standing],
        "height of the hop": height.max() - height[standing],
        "least gap of the feet at the top": gap[np.argmax(height)].min(),
        "largest gap of the feet": gap.min(axis=1).max(),
        "time in the air": DT * int(air.sum()),
        "largest force of the feet": force.max(axis=0),
        "largest torque of the knees": float(jnp.max(jnp.abs(torque))),
        "its limit": max(actuator.limits[1] for actuator in model.actuators),
        "height at the end": height[-1],
        "largest tilt": float(jnp.max(2.0 * jnp.arccos(jnp.clip(jnp.abs(run.q[:, 3]), 0.0, 1.0)))),
        "speed at the end": float(jnp.max(jnp.abs(run.v[-1]))),
    }


def _plot(path: Path, t, height, force) -> None:
    figure, (above, below) = _plots.plt.subplots(2, 1, figsize=(7.0, 4.0), sharex=True)
    above.plot(t, height)
    above.set(ylabel="height of the trunk / m")
    for name, values in zip(FEET, force.T, strict=True):
        below.plot(t, values, "--" if name.endswith("R") else "-", label=name)
    below.set(xlabel="t / s", ylabel="normal force / N")
    below.legend(ncols=4)
    for axes in (above, below):
        axes.axvspan(BEGIN, END, color=_plots.ORANGE, alpha=0.3, lw=0.0)
    _plots.save(figure, path)
