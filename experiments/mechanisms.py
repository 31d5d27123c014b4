"""A robot and a closed chain in motion, as moving pictures, against their reference solutions."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lie_jax
from experiments import _report
from lie_jax import viz
from models import bricard, puma560

DT = 1e-3
FRAME = 0.05


class BricardByAngle(lie_jax.extend.AbstractSystem):
    """The Bricard mechanism with its one angle a as coordinate: the loop closes by construction.

    M(a) ȧ²/2 is the kinetic energy and V(a) the potential energy of the model in absolute
    coordinates, so that M ä = -M' ȧ²/2 - V'.
    """

    @property
    def space(self) -> lie_jax.extend.Rn:
        """One number."""
        return lie_jax.extend.Rn(1)

    def _energies(self, a: Array) -> tuple[Array, Array]:
        system, state = bricard.build(angle=a, rate=1.0)
        return 2.0 * system.kinetic_energy(state.q, state.v), system.potential_energy(state.q)

    def mass_matrix(self, q):
        """M (1, 1), kg m²."""
        return self._energies(q[0])[0][None, None]

    def force(self, t, q, v, u=None):
        """-M' ȧ²/2 - V' (1,), N m."""
        change, slope = jax.jvp(self._energies, (q[0],), (jnp.ones((), q.dtype),))[1]
        return -(0.5 * change * v[0] ** 2 + slope)[None]


def run_bricard() -> lie_jax.Trajectory:
    """Ten seconds from rest."""
    steps = round(10.0 / DT)
    start = lie_jax.State(jnp.zeros(1), jnp.zeros(1))
    every = round(FRAME / DT)
    return lie_jax.simulate(
        BricardByAngle(), lie_jax.RKMK("rk4"), start, dt=DT, steps=steps, save=every
    )


def run_puma() -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.Trajectory]:
    """The motion of [S3] 4.4 in joint coordinates."""
    system, state = puma560.build(lie_jax.Minimal())
    # The controllers' shortest time constant is 0.4 ms.
    dt = 0.1 * DT
    steps, every = round(1.0 / dt), round(FRAME / dt)
    return system, lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=dt, steps=steps, save=every
    )


def main(folder: Path) -> None:
    """Simulate, compare and write `puma560.gif`, `bricard.gif` and `mechanisms.json`."""
    loop = run_bricard()
    robot, motion = run_puma()
    errors = {"bricard_rad": {}, "puma560_rad": {}}
    for seconds, (_, angles) in bricard.REFERENCE.items():
        error = float(loop.q[round(seconds / FRAME), 0]) - angles[0]
        errors["bricard_rad"][seconds] = abs(error)
    for seconds, (angles, _) in puma560.REFERENCE.items():
        error = np.asarray(motion.q[round(seconds / FRAME)]) - angles
        errors["puma560_rad"][seconds] = float(np.max(np.abs(error)))
    _report.write_json(folder / "mechanisms.json", errors)
    for name, each in errors.items():
        print(f"{name:12}", ", ".join(f"{t:g} s: {error:.1e}" for t, error in each.items()))
    viz.video(folder / "puma560.gif", (robot, motion))
    shape, _ = bricard.build()
    two_seconds = round(2.0 / FRAME) + 1
    placed = jax.jit(jax.vmap(lambda a: bricard.build(angle=a)[1].q))(loop.q[:two_seconds, 0])
    at_rest = jnp.zeros((two_seconds, shape.nv))
    closed = dataclasses.replace(loop, t=loop.t[:two_seconds], q=placed, v=at_rest)
    viz.video(folder / "bricard.gif", (shape, closed))
