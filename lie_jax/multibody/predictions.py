"""Strains that a step of a search predicts, and systems whose derivatives take them."""

import dataclasses
from typing import Any

import equinox as eqx
from jaxtyping import Array

from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Connected
from lie_jax.multibody.system import AbstractMultibodySystem


def predict(system: Any, q: Array, increment: Array) -> tuple:
    """Predictions of all forces after an increment (nv,) at q: what `with_predictions` takes.

    One for each group of forces, None for those without one; empty without any.
    """
    if not isinstance(system, AbstractMultibodySystem) or not any(map(_predicts, system.forces)):
        return ()
    _, *motion = system._instant(0.0, q, increment)
    return tuple(
        stacking.each(lambda element, *pair: element.prediction(*pair), group, motion)
        for group in system.forces
    )


def _predicts(group: Connected) -> bool:
    return type(group.element).prediction is not AbstractForce.prediction


def with_predictions(system: Any, predictions: tuple) -> Any:
    """The system with these predictions of its forces."""
    if not predictions:
        return system
    forces = tuple(
        group
        if made is None
        else eqx.tree_at(lambda g: g.element.predicted, group, made, is_leaf=lambda x: x is None)
        for group, made in zip(system.forces, predictions, strict=True)
    )
    return dataclasses.replace(system, forces=forces)
