"""Joints composed of conditions."""

import abc
from itertools import accumulate, pairwise

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.joints.base import AbstractJoint, tree_sum
from lie_jax.mechanics.joints.conditions import AbstractCondition


class AbstractComposedJoint(AbstractJoint):
    """A joint whose constraints are those of its conditions, one after the other."""

    @abc.abstractmethod
    def conditions(self, t: Float[Array, ""]) -> tuple[AbstractCondition, ...]:
        """Conditions between parent and child at a time (s); all of their rows are `rows`."""

    @override
    def constraint(self, t, parent, child):
        return jnp.concatenate([c.constraint(parent, child) for c in self.conditions(t)])

    @override
    def side(self, t, parent, child):
        sides = (condition.side(parent, child) for condition in self.conditions(t))
        return next((side for side in sides if side is not None), None)

    @override
    def closing(self):
        return Closing("", "", self)

    @override
    def reaction(self, t, parent, child, multipliers):
        return tree_sum(
            [c.reaction(parent, child, part) for c, part in self._parts(t, multipliers)]
        )

    @override
    def stiffness(self, t, parent, child, multipliers):
        return tree_sum(
            [c.stiffness(parent, child, part) for c, part in self._parts(t, multipliers)]
        )

    def _parts(self, t: Array, multipliers: Array) -> list[tuple[AbstractCondition, Array]]:
        """Each condition with its multipliers."""
        conditions = self.conditions(t)
        ends = accumulate((condition.rows for condition in conditions), initial=0)
        return [
            (condition, multipliers[start:end])
            for condition, (start, end) in zip(conditions, pairwise(ends), strict=True)
        ]


class Closing(AbstractJoint):
    """A composed joint whose rotations are angles, which vanish on the right side alone."""

    joint: AbstractComposedJoint

    @property
    @override
    def rows(self):
        return self.joint.rows

    @override
    def constraint(self, t, parent, child):
        return jnp.concatenate([c.error(parent, child) for c in self.joint.conditions(t)])
