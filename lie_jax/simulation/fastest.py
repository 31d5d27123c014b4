"""The mode that an explicit method lets grow, in words, for messages."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.integrators import stability
from lie_jax.integrators.explicit import AbstractExplicit
from lie_jax.multibody.stiffest import stiffest
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import programs
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.systems.system import AbstractSystem

# Eigenvalues of larger systems take longer than a message may.
_LARGEST = 150
# Growth in a step that does not count, and the resolution of the largest stable step.
_GROWTH, _FINE = 1.01, 0.002


class Fastest(NamedTuple):
    """Mode in words, and the largest step size (s) with which no mode grows."""

    words: str
    dt: float


def fastest(
    system: AbstractSystem, integrator: Any, dt: float, trajectory: Trajectory, completed: int
) -> Fastest | None:
    """Fastest mode at the start of a run, or else before its end, that grows with a step size dt.

    None where none grows, and for methods and systems without an answer.
    """
    if not isinstance(integrator, AbstractExplicit) or not 0 < system.nv <= _LARGEST:
        return None
    numbers = np.concatenate([trajectory.q, trajectory.v], axis=1)[: completed + 1]
    rows = np.flatnonzero(np.isfinite(numbers.sum(axis=1)))
    for row in dict.fromkeys((0, *rows[-1:], *rows[len(rows) // 2 :][:1])):
        if len(rows) and (found := _at(system, integrator, dt, trajectory, int(row))):
            return found
    return None


def _at(
    system: AbstractSystem, integrator: AbstractExplicit, dt: float, trajectory: Trajectory, k: int
) -> Fastest | None:
    """Fastest growing mode at the instant k of a trajectory."""
    t, q, v = trajectory.t[k], trajectory.q[k], trajectory.v[k]
    system = system.with_memory(jax.tree.map(lambda x: x[k], trajectory.memory))
    u = jnp.zeros(system.nu, q.dtype) if system.nu else None
    by_displacement, by_velocity = (np.asarray(x, float) for x in _linearize(system, t, q, v, u))
    if not np.isfinite(by_displacement).all() or not np.isfinite(by_velocity).all():
        return None
    n = system.nv
    matrix = np.block([[np.zeros((n, n)), np.eye(n)], [by_displacement, by_velocity]])
    rates, modes = np.linalg.eig(matrix)
    # Modes that grow by themselves are no matter of the step size.
    decaying = np.real(rates) <= 1e-6 * np.abs(rates)
    if not decaying.any():
        return None
    rates, modes = rates[decaying], modes[:, decaying]
    method = integrator.method
    factors = np.abs(stability.factors(method.a, method.b, dt * rates))
    worst = int(np.argmax(factors))
    if not factors[worst] > _GROWTH:
        return None
    shape = modes[n:, worst]
    # The phase in which most of the mode is real.
    shape = (shape * np.exp(-1j * np.angle(shape[np.argmax(np.abs(shape))]))).real
    rate = abs(rates[worst])
    mode = jnp.asarray(shape / np.abs(shape).max(), q.dtype)
    number = int(np.argmax(np.abs(shape)))
    force = None
    if isinstance(system, AbstractMultibodySystem):
        force = stiffest(system, t, q, v, u, mode, jnp.asarray(rate, q.dtype))
    words = f"a motion of {system.owner(number)} with a rate of {rate:.3g} 1/s"
    words += f", by {force}" if force else ""
    # No mode grows in steps this much smaller.
    least = min(dt, 0.05 / np.abs(rates).max())
    sizes = least * np.exp(_FINE * np.arange(1.0 + np.ceil(np.log(dt / least) / _FINE)))
    grow = (np.abs(stability.factors(method.a, method.b, sizes[:, None] * rates)) > _GROWTH).any(1)
    return Fastest(words, float(sizes[max(0, int(np.argmax(grow)) - 1)]))


@programs.run_once
def _linearize(
    system: AbstractSystem, t: Array, q: Array, v: Array, u: Array | None
) -> tuple[Array, Array]:
    """Derivatives of accelerations by displacements in local coordinates, and by velocities."""

    def acceleration(displacement, change):
        return system.acceleration(t, system.space.retract(q, displacement), v + change, u)

    none = jnp.zeros(system.nv, q.dtype)
    return jax.jacfwd(acceleration, (0, 1))(none, none)
