"""Joints composed of conditions, and the sums over conditions."""

import abc
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise

import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from lie_jax.mechanics.joints.base import (
    AbstractJoint,
    BodyPose,
    Stiffness,
    Wrench,
    add_reactions,
)
from lie_jax.mechanics.joints.conditions import AbstractCondition


class AbstractComposedJoint(AbstractJoint):
    """A joint whose constraints are those of its conditions, one after the other."""

    @property
    @abc.abstractmethod
    def conditions(self) -> tuple[AbstractCondition, ...]:
        """Conditions between parent and child."""

    @property
    @override
    def rows(self):
        return sum(condition.rows for condition in self.conditions)

    @override
    def constraint(self, t, parent, child):
        return constraint(self.conditions, parent, child)

    @override
    def side(self, t, parent, child):
        sides = (condition.side(parent, child) for condition in self.conditions)
        return next((side for side in sides if side is not None), None)

    @override
    def reaction(self, t, parent, child, multipliers):
        return reaction(self.conditions, parent, child, multipliers)

    @override
    def stiffness(self, t, parent, child, multipliers):
        return stiffness(self.conditions, parent, child, multipliers)


Conditions = Sequence[AbstractCondition]


def constraint(conditions: Conditions, parent: BodyPose, child: BodyPose) -> Array:
    """Constraints of all conditions."""
    return jnp.concatenate([condition.constraint(parent, child) for condition in conditions])


def reaction(
    conditions: Conditions, parent: BodyPose, child: BodyPose, multipliers: Array
) -> tuple[Wrench, Wrench]:
    """Sum of the reactions of all conditions."""
    wrenches = [
        condition.reaction(parent, child, part)
        for condition, part in zip(conditions, _parts(conditions, multipliers), strict=True)
    ]
    return reduce(add_reactions, wrenches)


def stiffness(
    conditions: Conditions, parent: BodyPose, child: BodyPose, multipliers: Array
) -> Stiffness:
    """Sum of the stiffnesses of all conditions."""
    parts = [
        condition.stiffness(parent, child, part)
        for condition, part in zip(conditions, _parts(conditions, multipliers), strict=True)
    ]
    return Stiffness(*(reduce(_sum, blocks) for blocks in zip(*parts, strict=True)))


def _sum(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a + b


def _parts(conditions: Conditions, multipliers: Array) -> list[Array]:
    ends = list(accumulate((condition.rows for condition in conditions), initial=0))
    return [multipliers[a:b] for a, b in pairwise(ends)]
