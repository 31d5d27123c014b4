"""Linear algebra of mechanisms in absolute coordinates, in blocks along joints and forces."""

from typing_extensions import override

from lie_jax.multibody.absolute import along_graph, elements, elimination, linearization
from lie_jax.multibody.absolute.along_graph import AbstractOrder, Part
from lie_jax.multibody.absolute.linearization import ElementReactions
from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.multibody.stacking import Groups
from lie_jax.systems.algebra import Algebra


class AbsoluteAlgebra(Algebra):
    """Matrices in blocks along the joints, for many bodies; of full size for few."""

    @override
    def saddle(self, t, q):
        return super().saddle(t, q) if self.order is None else self.step_saddle(t, q)

    @override
    def step_saddle(self, t, q, x=None):
        system, order = self.system, self.order
        if order is None:
            return super().step_saddle(t, q, x)
        pose, frames = system.frames(q)
        masses = elements.masses(system.bodies, pose.rotation, frames)
        columns, coordinate_columns = system.columns(t, q, pose, frames)
        operators = linearization.tangent_operators(system.formulation, x)
        border = along_graph.border(coordinate_columns, operators)
        joints = along_graph.joint_blocks(order.graph, columns, operators)
        return order.matrix([Part([elements.diagonal(masses)])], border, joints)

    @override
    def position_reactions(self, t, q):
        if self.stabilized_order is None:
            return super().position_reactions(t, q)
        return ElementReactions(*self.system.columns(t, q, *self.system.frames(q)))

    @property
    def order(self) -> AbstractOrder | None:
        """Order of the elimination along joints and forces, None if the full matrix is solved."""
        if not self.system.formulation.keeps_rotations:
            return None
        return elimination.order_of(*self._parts)

    @property
    def stabilized_order(self) -> AbstractOrder | None:
        """Order of a stabilised step, None if the full matrix is to be solved."""
        return None if self.order is None else elimination.stabilized_order_of(*self._parts)

    @property
    def _parts(self) -> tuple[int, AbstractCoordinates, Groups, Groups]:
        system = self.system
        return len(system.names), system.formulation, system.joints, system.forces
