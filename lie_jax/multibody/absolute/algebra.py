"""Linear algebra of mechanisms in absolute coordinates, in blocks along joints and forces."""

from typing_extensions import override

from lie_jax.multibody.absolute import along_graph, elimination, flexible_blocks, linearization
from lie_jax.multibody.absolute.along_graph import AbstractOrder, Part
from lie_jax.multibody.absolute.attachments import Attachments
from lie_jax.multibody.absolute.linearization import ElementReactions
from lie_jax.systems.algebra import Algebra

# Smooth forces from which on kept matrices save more than they take to compile.
_MANY_ELEMENTS = 4


class AbsoluteAlgebra(Algebra):
    """Matrices in blocks along the joints, for many bodies; of full size for few."""

    @property
    @override
    def slow_to_linearize(self):
        # Constraints have multipliers, and contacts places where they set in: both need a new
        # matrix in most steps.
        system = self.system
        elements = [group.element for group in system.forces for _ in range(group.count)]
        smooth = [element for element in elements if element.is_smooth]
        others = [e for e in elements if not (e.is_smooth or e.is_load)]
        return len(smooth) >= _MANY_ELEMENTS and not (system.nc or others)

    @override
    def momentum(self, t, q, v, u):
        if not self.system.flexibility.groups:
            return super().momentum(t, q, v, u)
        # The residual is many times the code of the mass matrices of flexible bodies.
        blocks = self.system.mass_blocks(q, *self.system.attachments(q))
        return linearization.product(blocks, self.system.layout, v)

    @override
    def saddle(self, t, q):
        return super().saddle(t, q) if self.order is None else self.step_saddle(t, q)

    @override
    def step_saddle(self, t, q, x=None):
        system, order = self.system, self.order
        if order is None:
            return super().step_saddle(t, q, x)
        pose, at = system.attachments(q)
        columns, coordinate_columns = system.columns(t, q, pose, at)
        operators = linearization.tangent_operators(system.layout, x)
        border = along_graph.border(coordinate_columns, operators)
        joints = along_graph.joint_blocks(order.graph, columns, operators)
        return order.matrix([Part(system.mass_blocks(q, pose, at))], border, joints)

    @override
    def position_reactions(self, t, q):
        system = self.system
        if self.stabilized_order is None:
            return super().position_reactions(t, q)
        columns, coordinate_columns = system.columns(t, q, *system.attachments(q))
        return ElementReactions(columns, coordinate_columns, system.layout)

    @property
    def order(self) -> AbstractOrder | None:
        """Order of the elimination along joints and forces, None if the full matrix is solved."""
        if not self.system.in_blocks:
            return None
        return elimination.order_of(self.system.layout, self._connections)

    @property
    def stabilized_order(self) -> AbstractOrder | None:
        """Order of a stabilised step, None if the full matrix is to be solved."""
        if not self.system.in_blocks:
            return None
        return elimination.stabilized_order_of(self.system.layout, self._connections)

    @property
    def _connections(self) -> elimination.Connections:
        system = self.system
        at = Attachments(table=flexible_blocks.table(system.flexibility, system.layout))
        return elimination.connections_of(system.joints, (*system.forces, *system.inertias), at)
