"""A biped with four closed loops of springs and rods drops to its feet under controllers."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots
from experiments._robot_examples import parts
from lie_jax import contact, viz

FILE = "agility_cassie/cassie.xml"
DT, STEPS = 1e-3, 500
# N m/rad, N m s/rad; of the hinges with motors.
PROPORTIONAL, DERIVATIVE = 400.0, 10.0
LAW = lie_jax.contact.HuntCrossley(1e6, dissipation=0.5)
FRICTION = lie_jax.contact.Coulomb(0.8, velocity=1e-2)


def main(path: Path, out: Path) -> dict[str, Any]:
    """Write cassie.png and cassie.html; returns the numbers."""
    model = parts.imported(path)
    home = model.keyframes["home"]
    bare, _ = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    closed = lie_jax.project(bare, home)
    held = parts.servos(model, bare, closed.q, PROPORTIONAL, DERIVATIVE)
    ground = contact.Plane("ground")
    feet = [
        lie_jax.contact.Contact(shape, ground, LAW, FRICTION)
        for shape in model.shapes.values()
        if shape.body.endswith("foot")
    ]
    forces = [*model.mechanism.forces, *held, *feet]
    mechanism = dataclasses.replace(model.mechanism, forces=forces)
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    gap = jnp.min(system.contacts(0.0, closed.q, closed.v).gap)
    start = dataclasses.replace(closed, q=closed.q.at[2].add(0.02 - gap))
    run = lie_jax.simulate(
        *(system, lie_jax.GeneralizedAlpha(index=2), start),
        dt=DT,
        steps=STEPS,
        inputs=jnp.zeros((STEPS, system.nu)),
    )
    parts.scene(out / "cassie.html", model, system, run)
    _plots.save(viz.drift(system, run), out / "cassie.png")

    gaps = jax.jit(jax.vmap(system.constraint))(run.t, run.q)
    rates = jax.jit(jax.vmap(system.constraint_rate))(run.t, run.q, run.v)
    places = jax.jit(jax.vmap(system.contacts))(run.t, run.q, run.v)
    force = np.asarray(places.normal_force)
    return {
        "constraints": system.nc,
        "velocities": system.nv,
        "gap of the keyframe": float(jnp.max(jnp.abs(bare.constraint(0.0, home.q)))),
        "gap closed": float(jnp.max(jnp.abs(bare.constraint(0.0, closed.q)))),
        "largest gap of the run": float(jnp.max(jnp.abs(gaps))),
        "largest rate of the run": float(jnp.max(jnp.abs(rates))),
        "weight": 9.81 * float(sum(body.mass for body in mechanism.bodies)),
        "largest sum of forces": float(force.sum(axis=1).max()),
        "sum of forces at the end": float(force[-1].sum()),
        "height": [float(run.q[0, 2]), float(run.q[-1, 2])],
        "largest turn of the shin springs": max(
            float(jnp.max(jnp.abs(turn)))
            for label, turn in system.joint_coordinates(run.q, run.v, run.t).items()
            if str(label).endswith("shin")
        ),
    }
