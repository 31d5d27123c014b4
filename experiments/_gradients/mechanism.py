"""Two bodies with parameters of every kind: the formulations' test.

A hinge on the ground carries the first body, another one the second. The first of them, or both,
are left out for floating bases and for integrators that take no constraints. Poses and velocities
at the start fit the joints whatever the parameters are.
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float

import lie_jax
from experiments._gradients.parameters import Model, Wave, parameters
from lie_jax.groups import quaternion

# By kind; units are those of the elements. Inertias by diagonals and what is above them.
_PARAMETERS: dict[str, dict[str, Any]] = {
    "mass": {"masses": [2.0, 1.2]},
    "inertia": {
        "inertias": [
            [0.08, 0.1, 0.07, 0.01, -0.005, 0.008],
            [0.03, 0.05, 0.04, -0.004, 0.006, 0.003],
        ]
    },
    "centre of mass": {"points": [[0.05, -0.1, 0.2], [0.1, 0.04, -0.03]]},
    "joint points": {
        "parent": [[0.1, 0.2, -0.1], [0.15, 0.1, 0.3]],
        "child": [[-0.1, 0.05, -0.3], [-0.2, 0.05, 0.1]],
    },
    "joint axes": {
        "axes": [[0.7, 0.3, -0.5], [0.3, 0.8, -0.4]],
        "orientations": [[0.3, -0.2, 0.4], [0.2, -0.3, 0.4]],
    },
    "force points": {
        "anchor": [0.5, -0.4, 1.0],
        "spring": [0.1, 0.1, 0.2],
        "force": [0.2, -0.1, 0.1],
    },
    "stiffness": {"spring": 25.0},
    "damping": {"spring": 0.8},
    "rest": {"length": 0.9},
    "gravity": {"gravity": [0.4, -0.3, -9.7]},
    "load": {
        "force": [0.8, 1.1, -0.6],
        "torques": [[0.6, -0.4, 0.5], [0.3, 0.5, -0.2]],
    },
    "signal": {"rate": 5.0, "phase": 0.2},
    "initial q": {"angles": [0.5, 0.25]},
    "initial v": {"rates": [1.1, 1.3]},
}


def _symmetric(numbers: Float[Array, "6"]) -> Float[Array, "3 3"]:
    a, b, c, d, e, f = numbers
    return jnp.stack([a, d, e, d, b, f, e, f, c]).reshape(3, 3)


def _hinges(p: dict[str, dict[str, Array]]) -> list[lie_jax.RevoluteJoint]:
    points, axes = p["joint points"], p["joint axes"]
    return [
        lie_jax.RevoluteJoint(
            *connected,
            axes["axes"][i],
            points["parent"][i],
            points["child"][i],
            quaternion.exp(axes["orientations"][i]),
        )
        for i, connected in enumerate((("ground", "first"), ("first", "second")))
    ]


def _bodies(p: dict[str, dict[str, Array]]) -> list[lie_jax.Body]:
    none = jnp.zeros(3)
    position, orientation, velocity, omega = none, quaternion.identity(), none, none
    bodies = []
    for i, hinge in enumerate(_hinges(p)):
        turned = quaternion.exp(p["initial q"]["angles"][i] * hinge.axis)
        relative = quaternion.multiply(turned, hinge.orientation)
        place = position + quaternion.rotate(orientation, hinge.parent_point)
        moves = velocity + quaternion.rotate(orientation, jnp.cross(omega, hinge.parent_point))
        orientation = quaternion.multiply(orientation, relative)
        carried = omega + p["initial v"]["rates"][i] * hinge.axis
        omega = quaternion.rotate(quaternion.conjugate(relative), carried)
        position = place - quaternion.rotate(orientation, hinge.child_point)
        velocity = moves - quaternion.rotate(orientation, jnp.cross(omega, hinge.child_point))
        bodies.append(
            lie_jax.Body(
                hinge.child,
                p["mass"]["masses"][i],
                _symmetric(p["inertia"]["inertias"][i]),
                p["centre of mass"]["points"][i],
                position,
                orientation,
                velocity,
                omega,
            )
        )
    return bodies


def _forces(p: dict[str, dict[str, Array]], driven: bool) -> list[lie_jax.extend.AbstractForce]:
    points = p["force points"]
    spring = lie_jax.LinearSpringDamper(
        "ground",
        "second",
        p["stiffness"]["spring"],
        p["damping"]["spring"],
        p["rest"]["length"],
        points["anchor"],
        points["spring"],
    )
    wave = Wave(p["load"]["force"], p["signal"]["rate"], p["signal"]["phase"])
    load = lie_jax.PointForce("second", Partial(Wave.at, wave), points["force"], "body")
    torques = p["load"]["torques"]
    motors = [
        lie_jax.Torque(body, torques[i], "body", input=i)
        for i, body in enumerate(("first", "second"))
    ]
    return [spring, load, *(motors if driven else [])]


def _build(p, formulation: lie_jax.extend.AbstractFormulation, hinges: int, driven: bool):
    mechanism = lie_jax.Mechanism(
        _bodies(p), _hinges(p)[2 - hinges :], _forces(p, driven), p["gravity"]["gravity"]
    )
    return lie_jax.assemble(mechanism, formulation)


MECHANISM = Model(parameters(_PARAMETERS), _build)
