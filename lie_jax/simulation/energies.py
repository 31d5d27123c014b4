"""Energies of a mechanism along a run."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.multibody.arguments import check_system
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.user_functions import snapshots


class Energies(NamedTuple):
    """Energies at the saved instants of a run: `kinetic` and `potential` (n,), J."""

    kinetic: Float[Array, " n"]
    potential: Float[Array, " n"]


@waits.announce("the energies")
def energies(system: AbstractMultibodySystem, trajectory: Trajectory) -> Energies:
    """Kinetic and potential energy (J) at each saved instant of a run, springs wound as they are.

    In absolute coordinates `system.potential_energy(q)` knows a hinge's angle up to whole turns;
    the rows of a trajectory carry them. Gravity's energy is zero at the world origin.
    Differentiable. Raises `ValueError` for trajectories of another size, or with a batch axis: map
    over that by `jax.vmap`.
    """
    check_system("energies(system=)", system)
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            f"energies(trajectory=) is a {type(trajectory).__name__}; it must be a trajectory, as "
            "lie_jax.simulate returns it."
        )
    if jnp.shape(trajectory.q)[1:] != (system.nq,):
        raise ValueError(
            f"energies(trajectory=) has q of the shape {jnp.shape(trajectory.q)}; it must be (n, "
            f"{system.nq}), rows of the system's coordinates: give the system of that run, and one "
            "run, or map over a batch by jax.vmap(lambda run: lie_jax.energies(system, run))(runs)."
        )
    system = snapshots.freeze(system)
    return Energies(*_energies(system, trajectory.q, trajectory.v, trajectory.memory))


@eqx.filter_jit
def _energies(system, q, v, memory):
    def at(q, v, memory):
        return system.kinetic_energy(q, v), system.with_memory(memory).potential_energy(q)

    return jax.vmap(at)(q, v, memory)
