"""The force of a mechanism that drives a mode, for messages."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.multibody import stacking
from lie_jax.multibody.readings import power
from lie_jax.numerics import programs


def stiffest(
    system: Any, t: Array, q: Array, v: Array, u: Array | None, mode: Array, rate: Array
) -> str | None:
    """Force that opposes a mode (nv,) of a rate (1/s) most, in words; None if there is none."""
    if not system.forces:
        return None
    shares = _shares(system, t, q, v, u, mode, rate)
    number = int(jnp.argmax(shares))
    return stacking.owner(system.forces, number) if shares[number] > 0.0 else None


@programs.run_once
def _shares(
    system: Any, t: Array, q: Array, v: Array, u: Array | None, mode: Array, rate: Array
) -> Float[Array, " forces"]:
    """Power of each force's change along a mode, on the mode's velocities, with its sign turned.

    A spring changes by the displacements of a mode, a damper by its velocities.
    """

    def motion(displaced: Array, moving: Array) -> tuple[Array, ...]:
        there = system.space.retract(q, displaced * mode)
        return system._instant(t, there, v + moving * rate * mode)[1:]

    def wrenches(part: Array) -> list[Any]:
        def at(element, poses, velocities, inputs):
            return element.wrenches(t, poses, velocities, inputs)

        now = motion(part, part)
        return [
            stacking.each(at, group, now, stacking.own_inputs(group, u)) for group in system.forces
        ]

    none, one = jnp.zeros((), q.dtype), jnp.ones((), q.dtype)
    _, changes = jax.jvp(wrenches, (none,), (one,))
    _, rates = jax.jvp(lambda part: motion(none, part)[2:], (none,), (one,))
    pose = motion(none, none)[:2]
    return -jnp.concatenate(
        [
            jax.vmap(power)(change, stacking.ends(group, (*pose, *rates))[1])
            for group, change in zip(system.forces, changes, strict=True)
        ]
    )
