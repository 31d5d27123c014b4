"""The shell element: screws along the edges and diagonals of four nodes."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.beams import screw
from lie_jax.mechanics.beams.node import Node, node_at
from lie_jax.mechanics.beams.screw import Screw
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.joints.base import BodyPose, Poses
from lie_jax.mechanics.shells import laws
from lie_jax.numerics import conversion, small
from lie_jax.numerics.conversion import as_float

# rad; the logarithm of a rotation jumps at π.
_LARGEST_TURN = 3.0
_SECTION = "N/m, N and N m by strains 11, 22, 12, curvatures 11, 22, 12 and shears 1, 2"
_CORNERS = np.eye(4)
_ENDS = laws.FIRST, laws.SECOND
# Whether a screw begins, and ends, at a node.
_PLACES = tuple(_CORNERS[ends] for ends in _ENDS)


def check_section(where: str, value: Any) -> None:
    """Raise unless a concrete matrix (8, 8) is symmetric and positive definite."""
    checks.definite_by_units(where, value, 8, _SECTION)


def _shape(expected: tuple[int, ...], meaning: str, **default: Any) -> Any:
    def check(where: str, value: Any) -> None:
        checks.shape(where, value, expected, meaning)
        checks.finite(where, value)

    return fields.parameter(check, **default)


def _check_orientations(where: str, value: Any) -> None:
    checks.shape(where, value, (4, 4), "unit quaternions of four nodes")
    checks.unit_quaternions(where, value)


def _as_orientations(value: Any) -> Any:
    """Unit quaternions along traced ones; anything else as it is, for the checks to refuse."""
    array = as_float(value)
    if conversion.real_shape(array) != (4, 4) or not checks.has_tracers(array):
        return array
    return jnp.stack([fields.as_orientation(row) for row in array])


def corner_points() -> Any:
    """Field with the points (4, 3) of nodes in the frames of their bodies, by default zeros."""
    return _shape((4, 3), "m, of four nodes", default=((0.0, 0.0, 0.0),) * 4)


class Shell(AbstractForce):
    """A shell element between four bodies that are its nodes, by screws on SE(3).

    A node is a frame of a body, or of the ground: its origin in the middle surface, its z axis
    along the normal there, x and y along the axes 1 and 2 of the element. Strains follow from the
    screws log(C_A⁻¹ C_B) of the four edges and both diagonals: membrane strains from their lengths,
    curvatures and shears from those of the edges, interpolated as natural strains across the
    element, which does not lock as it becomes thin. Only the poses of nodes against each other
    count: rigid motions strain nothing, and a plate rolls up exactly. Convergence is of order 2. A
    shell has no mass: that is in the bodies which are its nodes, see `lie_jax.shells.surface`,
    which makes elements from a mesh.

    **Arguments:**

    - `first`, `second`, `third`, `fourth`: names of the bodies that are its nodes, or `"ground"`,
      counter-clockwise seen from the tip of the normal.
    - `section`: (8, 8), symmetric and positive definite: forces 11, 22 and 12 (N/m), moments
      likewise (N) and shear forces 1, 2 (N/m) by strains 11, 22, twice 12, curvatures (1/m)
      likewise and shears 1, 2, such as `lie_jax.shells.isotropic(...)`.
    - `rest`: (6, 6), the screws without stress of the edges 12, 43, 14 and 23 and the diagonals 13
      and 24.
    - `points` (4, 3), m, `orientations` (4, 4), unit quaternions: the frames of the nodes in those
      of the bodies.

    Nodes that turn about the normal against the surface, and against each other, are held by the
    shear stiffness of the membrane, and 1e-4 of it. An element may turn by at most 3 rad between
    any two nodes: take smaller ones. Runs end as `departed` where it turns by more, or is pressed
    to no area. Source: Bathe and Dvorkin, "A four-node plate bending element" (1985) for natural
    strains of shear; Pian and Sumihara (1984) for bending in the plane.
    """

    is_relative = True
    shares_bodies = True
    first: str = eqx.field(static=True, metadata=fields.BODY)
    second: str = eqx.field(static=True, metadata=fields.BODY)
    third: str = eqx.field(static=True, metadata=fields.BODY)
    fourth: str = eqx.field(static=True, metadata=fields.BODY)
    section: Parameter = fields.parameter(check_section)
    rest: Parameter = _shape((6, 6), "screws of four edges and two diagonals")
    points: Parameter = corner_points()
    orientations: Parameter = fields.parameter(
        _check_orientations, _as_orientations, default=((1.0, 0.0, 0.0, 0.0),) * 4
    )

    def __check_init__(self):
        if checks.has_tracers(self.rest):
            return
        rest = np.asarray(self.rest, dtype=float)
        name, turn = element_name(self), float(np.linalg.norm(rest[:, 3:], axis=1).max())
        if turn > _LARGEST_TURN:
            raise ValueError(
                f"{name} turns by {turn:.4g} rad between two nodes at rest; it may turn by at most "
                f"{_LARGEST_TURN} rad: take smaller elements."
            )
        if not laws.least_area(rest) > 0.0:
            raise ValueError(
                f"{name}.rest spans no area at one of its points: {rest[:, :3].tolist()} must be "
                "the ways along the edges 12, 43, 14 and 23 and the diagonals 13 and 24, with the "
                "nodes counter-clockwise; lie_jax.shells.surface makes them from a mesh."
            )

    @override
    def wrenches(self, t, poses, velocities, u):
        screws = self._screws(poses)
        sigma, _ = laws.forces(*self._law(), self._state(screws))
        on_nodes = _on_nodes(screws, sigma)

        return tuple(
            node.wrench(pose, -on_node)
            for node, pose, on_node in zip(self._nodes, poses, on_nodes, strict=True)
        )

    @override
    def potential_energy(self, poses):
        """Strain energy."""
        return laws.energy(*self._law(), self._state(self._screws(poses)))

    def strain(self, poses: Poses) -> Float[Array, "8"]:
        """Mean strains 11, 22 and twice 12, curvatures likewise (1/m), and shears 1, 2."""
        shape, _ = self._law()
        at_points = laws.strains(shape, self._state(self._screws(poses)))
        return jnp.sum(shape.weights[:, None] * at_points, axis=0) / jnp.sum(shape.weights)

    def nodes(self, poses: Poses) -> list[BodyPose]:
        """Inertial frames of the nodes, z along the normal."""
        return [node.frame(pose) for node, pose in zip(self._nodes, poses, strict=True)]

    def resultant(self, poses: Poses) -> Float[Array, "8"]:
        """Mean forces 11, 22 and 12 (N/m), moments likewise (N), and shear forces 1, 2 (N/m)."""
        return small.matvec(self.section, self.strain(poses))

    @property
    @override
    def is_bounded(self):
        return True

    @override
    def leaves_range(self, t, poses, velocities):
        """Whether nodes turn against each other by more than the logarithm of a rotation can show,
        or the element is pressed through itself.
        """
        screws = self._screws(poses)
        turns = jnp.max(jnp.sum(screws.phi**2, axis=1)) > _LARGEST_TURN**2
        return turns | (laws.area(screws.y) * laws.area(self.rest) <= 0.0)

    @override
    def prediction(self, poses, increments):
        screws = self._screws(poses)
        steps = [
            small.matvec(carry, jnp.concatenate([step.linear, step.omega_body]))
            for carry, step in zip(self._carries(poses), increments, strict=True)
        ]
        at_ends = [jnp.stack([steps[k] for k in ends]) for ends in _ENDS]
        rates = jax.vmap(screw.rate)(screws, *at_ends)
        return laws.prediction(self.rest, _twists(screws), rates)

    @override
    def derivatives(self, t, poses, velocities, u):
        """The wrenches' derivatives, written out, elements on the last axis.

        Wrenches of nodes are -Pᵀ σ with ḣ = P η. They change with σ, which h moves by the tangent,
        and with P; then they are turned and carried from the nodes to the frames of the bodies,
        whose velocities have other components.
        """
        screws = jax.vmap(Shell._screws)(self, poses)
        rest, section, twists = (
            jnp.moveaxis(x, 0, -1) for x in (self.rest, self.section, jax.vmap(_twists)(screws))
        )
        shape = laws.geometry(rest)
        stiff = laws.stiffness(section, shape.weights)
        now = laws.state(shape, rest, twists)
        acts = now
        if self.predicted is not None:
            squares, screws_then = (jnp.moveaxis(x, 0, -1) for x in self.predicted)
            acts = laws.state_ahead(now, shape, rest, (squares, screws_then))
        sigma, on_squares = laws.forces(shape, stiff, acts)
        elastic = laws.tangent(shape, stiff, now, on_squares)
        acting = jnp.moveaxis(sigma, -1, 0)
        elastic, sigma = jax.lax.optimization_barrier((elastic, sigma))
        carries = jax.vmap(Shell._carries, out_axes=-1)(self, poses)
        # Of nodes at both ends, edges and elements last.
        at_ends = [jnp.stack([carries[k] for k in ends], axis=2) for ends in _ENDS]
        rates = map(small.products, _by_edge(screw.rates_by_twists)(screws), at_ends)
        changes = _by_edge(screw.change_of_pulled_back)(screws, acting)
        turned = map(small.products, map(small.transpose, at_ends), changes)
        pulled = _by_edge(screw.pullback)(screws, acting)
        count = elastic.shape[-1]

        def at_nodes(parts: Iterable[Array]) -> Array:
            """Sums (4, ..., edges, count) at nodes of what is at both ends."""
            both = [
                jnp.asarray(at.T.reshape(4, *(1,) * (x.ndim - 2), 6, 1), x.dtype) * x[None]
                for at, x in zip(_PLACES, parts, strict=True)
            ]
            return both[0] + both[1]

        by_twists = jnp.moveaxis(at_nodes(rates), 3, 0).swapaxes(1, 2)
        by_twists = by_twists.reshape(36, 24, count)
        by_screws = at_nodes(turned).swapaxes(2, 3).reshape(24, 36, count)
        by_twists, by_screws = jax.lax.optimization_barrier((by_twists, by_screws))
        by_screws = by_screws + small.products(small.transpose(by_twists), elastic)
        by_screws = jax.lax.optimization_barrier(by_screws)
        along = -small.products(by_screws, by_twists).reshape(4, 6, 4, 6, count)
        # Forces of constant components in a body's frame turn with it.
        on_nodes = jnp.sum(at_nodes(pulled), axis=2)
        forces = jnp.sum(carries[:, :, :3] * on_nodes[:, :, None], axis=1)
        of_frames = jnp.stack(
            [
                small.matmul(small.hat(force), pose.rotation.transpose(1, 2, 0))
                for force, pose in zip(forces, poses, strict=True)
            ]
        )
        of_frames = jnp.pad(of_frames, ((0, 0), (0, 3), (3, 0), (0, 0)))
        same = jnp.asarray(_CORNERS[:, None, :, None, None], along.dtype)
        along = along + same * of_frames[:, :, None]
        return along, jnp.zeros_like(along)

    def _carries(self, poses: Poses) -> Float[Array, "4 6 6"]:
        """Matrices from the hybrid velocities of bodies to the twists of nodes."""
        return jnp.stack([node.carry(pose) for node, pose in zip(self._nodes, poses, strict=True)])

    @property
    def _nodes(self) -> list[Node]:
        return [node_at(self.points[slot], self.orientations[slot]) for slot in range(4)]

    def _screws(self, poses: Poses) -> Screw:
        """Screws of the edges and diagonals, stacked."""
        nodes = self.nodes(poses)
        return screws_between(
            jnp.stack([node.rotation for node in nodes]),
            jnp.stack([node.position for node in nodes]),
        )

    def _law(self) -> tuple[laws.Geometry, laws.Stiffness]:
        shape = laws.geometry(self.rest)
        return shape, laws.stiffness(self.section, shape.weights)

    def _state(self, screws: Screw) -> laws.State:
        return laws.state(laws.geometry(self.rest), self.rest, _twists(screws))


def screws_between(rotation: Float[Array, "4 3 3"], position: Float[Array, "4 3"]) -> Screw:
    """Screws of edges and diagonals between the inertial frames of four nodes, stacked."""

    def along(first, second):
        turn, place = rotation[first], position[second] - position[first]
        return small.matmul(turn.T, rotation[second]), small.matvec(turn.T, place)

    pairs = [along(*ends) for ends in zip(*_ENDS, strict=True)]
    return jax.vmap(screw.between)(*(jnp.stack(x) for x in zip(*pairs, strict=True)))


def _by_edge(function: Callable) -> Callable:
    """A function of screws for those of all elements and edges, these on the last axes."""
    return jax.vmap(jax.vmap(function, out_axes=-1), out_axes=-1)


def _twists(screws: Screw) -> Float[Array, "6 6"]:
    return jnp.concatenate([screws.y, screws.phi], axis=1)


def _on_nodes(screws: Screw, sigma: Float[Array, "6 6"]) -> Float[Array, "4 6"]:
    """Products of σ with the rates of screws by the twists of nodes."""
    pulled = jax.vmap(screw.pullback)(screws, sigma)
    parts = (
        jnp.asarray(at.T[:, :, None], x.dtype) * x[None]
        for at, x in zip(_PLACES, pulled, strict=True)
    )
    return jnp.sum(sum(parts), axis=1)
