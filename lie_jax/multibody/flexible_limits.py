"""Runs for which flexible bodies by modes are no good model: fast spins, and large turns."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from lie_jax.multibody.flexible import FlexibleGroup

# Square of the angular velocity as a part of the square of the lowest angular frequency: beyond it
# the stress of the spin changes that frequency by some percent.
_SPIN = 0.1
# rad, of an interface against the body frame: displacements are off by a tenth of its square.
_TURN = 0.3


def doubts(
    system: Any, q: Float[Array, "instants nq"], v: Float[Array, "instants nv"]
) -> list[str]:
    """Sentences on the flexible bodies that turned too fast or bent too far."""
    if not system.flexibility.groups:
        return []
    sentences = []
    for group, (spins, turns) in zip(
        system.flexibility.groups, _extremes(system, q, v), strict=True
    ):
        for k, body in enumerate(group.bodies):
            name, spin, turn = system.names[body], float(spins[k]), float(turns[k])
            lowest = _lowest(group, k)
            if group.deformation.spin is None and spin > _SPIN * lowest:
                sentences.append(
                    f"FlexibleBody({name!r}) turned at up to {np.sqrt(spin):.3g} rad/s, and its "
                    f"lowest angular frequency is {np.sqrt(lowest):.3g} rad/s; the model leaves "
                    "out the stiffness by the stress of a spin, which counts beyond a third of "
                    "it: take spin_stiffness=True of FlexibleBody.from_mesh, a chain of several "
                    "shorter bodies, or a lie_jax.beams.line."
                )
            if turn > _TURN:
                sentences.append(
                    f"An interface of FlexibleBody({name!r}) turned by up to {turn:.3g} rad "
                    f"against the body; displacements are linear, good to {_TURN} rad: take a "
                    "chain of several shorter bodies, or a lie_jax.beams.line."
                )
    return sentences


def _lowest(group: FlexibleGroup, k: int) -> float:
    """Square of the lowest angular frequency of a body with its frame held."""
    of = jax.tree.map(lambda x: np.asarray(x[k]), group.deformation)
    mass = np.trace(of.second, axis1=0, axis2=1)
    return float(scipy.linalg.eigvalsh(of.stiffness, mass)[0])


@eqx.filter_jit
def _extremes(system: Any, q: Array, v: Array) -> list[tuple[Array, Array]]:
    """Largest squares of angular velocities, and turns of interfaces, of each group's bodies."""

    def at(q, v):
        omega = system.twists(q, v)[:, 3:]
        split = system.flexibility.split(system.all_amplitudes(q))
        result = []
        for group, e in zip(system.flexibility.groups, split, strict=True):
            turn = jnp.sum(group.deformation.turns * e[:, None, None], axis=-1)
            squares = jnp.sum(group.of_bodies(omega) ** 2, axis=-1)
            result.append((squares, jnp.max(jnp.sum(turn**2, axis=-1), axis=1)))
        return result

    extremes = jax.vmap(at)(q, v)
    return [(jnp.max(spin, axis=0), jnp.sqrt(jnp.max(turn, axis=0))) for spin, turn in extremes]
