"""One body as a system of its own: the integrators' test, small enough to compile quickly.

Its frame lies at the centre of mass. A spring pulls a point of it to a point of the ground, a
constraint may hold another point; a force of varying size acts at the origin.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

import lie_jax
from experiments._gradients.parameters import Model, Wave, parameters
from lie_jax.groups import quaternion, so3
from lie_jax.numerics import small

_PARAMETERS: dict[str, dict[str, Any]] = {
    "mass": {"mass": 1.7},
    "inertia": {"inertia": [[0.08, 0.01, -0.005], [0.01, 0.1, 0.008], [-0.005, 0.008, 0.07]]},
    "joint points": {"ground": [0.1, 0.2, -0.1], "body": [-0.1, 0.05, -0.3]},
    "force points": {"anchor": [0.5, -0.4, 1.0], "spring": [0.1, 0.1, 0.2]},
    "stiffness": {"stiffness": 12.0},
    "damping": {"damping": [0.5, 0.04]},
    "gravity": {"gravity": [0.4, -0.3, -9.7]},
    "load": {"force": [0.8, 1.1, -0.6]},
    "signal": {"rate": 5.0, "phase": 0.2},
    "initial q": {"turn": [0.3, -0.2, 0.4]},
    "initial v": {"omega": [0.8, -1.1, 0.9]},
}


class SmallBody(lie_jax.extend.AbstractSystem):
    """The body; velocities are (ṙ, ω), ṙ inertial and ω body-fixed."""

    p: dict[str, dict[str, Array]]
    formulation: lie_jax.extend.AbstractCoordinates
    held: bool = eqx.field(static=True)

    @property
    def space(self):
        """R³×SO(3)."""
        return self.formulation

    @property
    def nc(self):
        """Three where the point is held."""
        return 3 if self.held else 0

    def mass_matrix(self, q):
        """Constant."""
        inertia, none = self.p["inertia"]["inertia"], jnp.zeros((3, 3), q.dtype)
        mass = self.p["mass"]["mass"] * jnp.eye(3, dtype=q.dtype)
        return jnp.block([[mass, none], [none, inertia]])

    def _from_ground(self, q, ends: dict[str, Array], own: str, fixed: str):
        rotation, position = self.formulation.pose(q)
        return position + small.matvec(rotation, ends[own]) - ends[fixed]

    def force(self, t, q, v, u=None):
        """Gravity, load, spring, damping, inputs and the gyroscopic torque."""
        p, omega, ends = self.p, v[3:], self.p["force points"]
        rotation, _ = self.formulation.pose(q)
        stretch = self._from_ground(q, ends, "spring", "anchor")
        spring = -p["stiffness"]["stiffness"] * stretch
        damping, turning = p["damping"]["damping"]
        load = Wave(p["load"]["force"], p["signal"]["rate"], p["signal"]["phase"]).at(
            jnp.asarray(t, q.dtype)
        )
        force = spring - damping * v[:3] + p["mass"]["mass"] * p["gravity"]["gravity"] + load
        lever = small.cross(ends["spring"], small.matvec(rotation.T, spring))
        spin = small.matvec(p["inertia"]["inertia"], omega)
        torque = lever - small.cross(omega, spin) - turning * omega
        if u is not None:
            torque = torque + u[0] * jnp.asarray([1.0, 0.0, 0.0], q.dtype)
            force = force + u[1] * jnp.asarray([0.0, 1.0, 0.0], q.dtype)
        return jnp.concatenate([force, torque])

    def constraint(self, t, q):
        """From the ground's point to the body's."""
        if not self.held:
            return jnp.zeros(0, q.dtype)
        return self._from_ground(q, self.p["joint points"], "body", "ground")


def _build(p, formulation, held: int, driven: bool) -> tuple[SmallBody, lie_jax.State]:
    turn, omega, points = p["initial q"]["turn"], p["initial v"]["omega"], p["joint points"]
    rotation = so3.exp(turn)
    position = points["ground"] - small.matvec(rotation, points["body"])
    velocity = -small.matvec(rotation, small.cross(omega, points["body"]))
    q = formulation.configuration(position, quaternion.exp(turn))
    return (
        SmallBody(p, formulation, bool(held)),
        lie_jax.State(q, jnp.concatenate([velocity, omega])),
    )


SMALL = Model(parameters(_PARAMETERS), _build)
