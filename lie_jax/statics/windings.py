"""Springs whose whole turns neither q nor a recalled instant of a run tells."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.mechanics.joints.geometry import Winding
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.systems.system import AbstractSystem

# The turns of a run are in its memory.
RECALL = (
    "the system at an instant k of a run, system.with_memory(jax.tree.map(lambda x: x[k], "
    "run.memory)), with t=run.t[k]"
)


class WoundSpring(NamedTuple):
    """A spring in words, and its largest angle (rad), between -π and π as poses tell it."""

    spring: str
    angle: float


def largest_winding(system: AbstractSystem, t: Array, q: Array) -> WoundSpring | None:
    """The spring with the largest angle of all whose turns are unknown; None without any."""
    if not isinstance(system, AbstractMultibodySystem):
        return None
    memory = system.memory_after(t, q, jnp.zeros(system.nv, q.dtype))
    found = []
    for group, last in zip(system.forces, memory, strict=False):
        counts = not group.element.winds or group.element.last is not None
        if counts or not isinstance(last, Winding):
            continue
        angles = np.abs(np.asarray(last.angle)).reshape(group.count, -1).max(axis=1)
        k = int(np.argmax(angles))
        found.append(WoundSpring(group.titles[k], float(angles[k])))
    return max(found, key=lambda wound: wound.angle, default=None)


def doubt(system: AbstractSystem, t: Array, q: Array) -> str:
    """Sentence on a spring that may be wound further than q tells; none without one."""
    wound = largest_winding(system, t, q)
    if wound is None:
        return ""
    return (
        f" The angle of {wound.spring} is taken between -π and π, {wound.angle:.4g} rad, for q "
        f"does not tell whole turns: if it is wound further, take lie_jax.Minimal(), or {RECALL}."
    )
