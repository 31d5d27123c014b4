"""An entry of the gallery: a joint or a force in a tiny mechanism, and poses of that."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import lie_jax
from lie_jax import contact, solids
from lie_jax.groups import quaternion

# Joints and forces lie between these.
PAIR = ("ground", "body")
X, Y, Z = np.eye(3)
# Grounds, sizes of bodies and places of their joints (m).
STAND = (contact.Box("ground", (0.3, 0.3, 0.1), (0.0, 0.0, -0.05)),)
RAIL = (contact.Box("ground", (0.9, 0.12, 0.06), (0.0, 0.0, -0.03)),)
SLAB = (contact.Box("ground", (0.8, 0.5, 0.04), (0.0, 0.0, -0.02)),)
CEILING = (contact.Box("ground", (0.3, 0.3, 0.06), (0.0, 0.0, 0.38)),)
WALL = (contact.Box("ground", (0.06, 0.4, 0.4), (-0.36, 0.0, 0.15)),)
ROD, FOOT = (0.07, 0.07, 0.3), (0.0, 0.0, -0.23)
BRICK, UNDER = (0.2, 0.16, 0.12), (0.0, 0.0, -0.075)
WEIGHTLESS = (0.0, 0.0, 0.0)

STEPS, POSES = 240, 4


class Entry(NamedTuple):
    """A joint or a force, and the mechanism whose poses are drawn, the last one solid.

    These are `places`, or those of a run over so many `seconds`, with constant `inputs`, or the
    first one alone.
    """

    sentence: str
    element: Any
    mechanism: lie_jax.Mechanism
    ground: tuple[contact.Box | contact.Plane, ...]
    places: tuple[lie_jax.Mechanism, ...] = ()
    seconds: float = 0.0
    inputs: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self.element).__name__

    @property
    def held(self) -> int:
        """Number of directions that are held: none by a force."""
        if not isinstance(self.element, lie_jax.extend.AbstractJoint):
            return 0
        return self.element.rows + self.element.velocity_rows

    def motion(self) -> tuple[lie_jax.extend.AbstractMultibodySystem, NDArray, NDArray, NDArray]:
        """The system, and times (poses,), configurations and velocities of its poses."""
        system, state = lie_jax.assemble(self.mechanism, lie_jax.R3SO3())
        if not self.seconds:
            places = self.places or (self.mechanism,)
            q = np.stack([lie_jax.assemble(place, lie_jax.R3SO3())[1].q for place in places])
            return system, np.zeros(len(q)), q, np.zeros((len(q), system.nv))
        run = lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(0.9), lie_jax.project(system, state),
            dt=self.seconds / STEPS, steps=STEPS, save=STEPS // (POSES - 1),
            inputs=jnp.tile(jnp.asarray(self.inputs), (STEPS, 1)) if self.inputs else None,
        )  # fmt: skip
        return system, np.asarray(run.t), np.asarray(run.q), np.asarray(run.v)


def body(size: Any, position: Any = (0.0, 0.0, 0.0), name: str = "body", **motion: Any):
    """A box of 1 kg, by its edges (m)."""
    return lie_jax.Body(name, 1.0, solids.box(1.0, size), position=position, **motion)


def block(size: Any, center: Any) -> contact.Box:
    """A part of the ground, by its edges and center (m)."""
    return contact.Box("ground", size, center)


def turn(axis: Any, angle: float) -> NDArray:
    """Unit quaternion of a turn (rad) about a unit vector."""
    return np.asarray(quaternion.exp(jnp.asarray(axis) * angle))
