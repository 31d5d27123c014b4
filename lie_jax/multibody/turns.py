"""Whole turns of joint angles between the instants of a run."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.joints.geometry import DOUBT, nearest_turn
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody import readings
from lie_jax.multibody.readings import Labels
from lie_jax.multibody.stacking import Connected, Groups
from lie_jax.spaces.base import AbstractSpace
from lie_jax.user_functions import libraries

# Configurations, velocities and times (s) of instants in order.
Rows = tuple[Array, Array | None, Array | None]


def unwrap(
    joints: Groups, labels: Labels, space: AbstractSpace, at: Callable, rows: Rows
) -> dict[Label, Array]:
    """Coordinates (n, k) of joints at instants, with whole turns added where angles jump.

    `at` returns the coordinates at a configuration, angles between -π and π. With velocities and
    times the turns are those that bring each change next to the integral of its rate.
    """
    q, v, t = rows
    if (v is None) != (t is None):
        raise ValueError(
            "joint_coordinates(q, v, t) was given one of v= and t= without the other; the turns "
            "between instants need both: pass those of the run, run.q, run.v, run.t."
        )
    units = [[group.element.coordinate_units] * group.count for group in joints]
    turning = {
        label: np.asarray([[unit == "rad" for unit in of_joint]])
        for label, of_joint in readings.by_label(joints, labels, units).items()
    }
    if v is None or t is None:
        values = jax.vmap(at)(q)
        changes = {label: jnp.diff(jnp.unwrap(x, axis=0), axis=0) for label, x in values.items()}
        doubts = {label: change != 0.0 for label, change in changes.items()}
        reason = "q alone does not tell how many turns there were: pass run.q, run.v, run.t"
    else:

        def both(q, v):
            return jax.jvp(at, (q,), (space.lift(q, v),))

        values, rates = jax.vmap(both)(q, v)
        half = 0.5 * jnp.diff(t)[:, None]
        changes, doubts = {}, {}
        for label, rate in rates.items():
            mean = half * (rate[1:] + rate[:-1])
            changes[label] = nearest_turn(jnp.diff(values[label], axis=0), mean)
            # The ways by the rates at both ends have the same turns.
            spread = half * jnp.abs(jnp.diff(rate, axis=0))
            doubts[label] = (jnp.abs(changes[label] - mean) > DOUBT) | (spread > DOUBT)
        reason = "the rates change too much between them to tell the turns: save more instants"
    _warn({label: doubt & turning[label] for label, doubt in doubts.items()}, reason)
    turned = {
        label: jnp.where(turning[label], _accumulate(values[label], changes[label]), values[label])
        for label in values
    }
    return readings.in_order(labels, turned)


def warn_of_unknown(function: str, elements: Sequence[Connected], instead: str = "") -> None:
    """Warn of the first of these elements, whose turns q does not tell outside of runs.

    `instead`: a call that knows the turns; the function on the system that recalls, without.
    """
    name = function.partition("(")[0]
    recalling = f"lambda memory, *row: system.with_memory(memory).{name}(*row)"
    for group in elements[:1]:
        libraries.warn(
            f"{function} takes the angle of {group.titles[0]} between -π and π, "
            "for q does not tell whole turns; in a run it may be wound further: use "
            f"{instead or f'jax.vmap({recalling})(run.memory, *rows)'}, or lie_jax.Minimal(), "
            "whose coordinates count them.",
        )


def _accumulate(
    values: Float[Array, "n k"], changes: Float[Array, "rows k"]
) -> Float[Array, "n k"]:
    return jnp.concatenate([values[:1], values[:1] + jnp.cumsum(changes, axis=0)])


def _warn(doubts: dict[Label, Array], reason: str) -> None:
    for label, doubt in doubts.items():
        # Traced values have no numbers to check.
        if not checks.has_tracers(doubt) and np.any(doubt):
            row = int(np.argmax(np.any(np.asarray(doubt), axis=1)))
            libraries.warn(
                f"joint_coordinates continues the angle of {label!r} from instant {row} to "
                f"{row + 1}, but {reason}.",
            )
            return
