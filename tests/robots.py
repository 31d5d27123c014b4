"""Robots of the tests, and what Pinocchio computes of them."""

import dataclasses
import functools
import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from tests.golden import DATA

PINOCCHIO = json.loads((DATA / "robots.json").read_text())


class Robot(NamedTuple):
    """A model, its system without forces, and frames on its bodies in the order of Pinocchio."""

    model: lie_jax.io.imported.ImportedModel
    system: lie_jax.extend.AbstractMultibodySystem
    frames: tuple[lie_jax.robotics.Frame, ...]


@functools.cache
def robot(name):
    model = lie_jax.io.import_model(DATA / f"{name}.urdf", floating_base=name == "walker")
    mechanism = dataclasses.replace(model.mechanism, forces=())
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    child_of = {joint.name: joint.child for joint in model.joints}
    bodies = [child_of.get(joint, "trunk") for joint in PINOCCHIO[name]["joints"]]
    return Robot(model, system, tuple(map(lie_jax.robotics.Frame, bodies)))


def state(name):
    """Configuration, velocity and acceleration of Pinocchio's values."""
    of_name = PINOCCHIO[name]["state"]
    return tuple(jnp.asarray(of_name[key]) for key in ("q", "v", "acceleration"))


def in_single(tree):
    """The tree with arrays in single precision."""
    return jax.tree.map(lambda x: jnp.asarray(x, np.float32), tree)
