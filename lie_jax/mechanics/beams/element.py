"""The beam element: a screw between two nodes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.groups import se3
from lie_jax.mechanics import fields
from lie_jax.mechanics.beams import laws, screw
from lie_jax.mechanics.beams.node import Node, node_at
from lie_jax.mechanics.beams.screw import Matrix6, Screw, Twist
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.forces.base import AbstractPairForce
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Poses, Velocities
from lie_jax.numerics import small

# rad; the logarithm of a rotation jumps at π.
_LARGEST_TURN = 3.0
_LAWS = {"constant": laws.Constant(), "linear": laws.Linear()}
_UNITS = "N, N m and N m², forces before moments; or six numbers along the section's axes"


def as_matrix(value: Any) -> Any:
    """Diagonal matrix of numbers (6,); all else as it is, for checks to refuse."""
    return None if value is None else fields.as_matrix(value, 6)


def check_definite(where: str, value: Any) -> None:
    """Raise unless a concrete matrix (6, 6) is symmetric and positive definite."""
    checks.definite_by_units(where, value, 6, _UNITS)


def check_semidefinite(where: str, value: Any) -> None:
    """Raise unless a concrete matrix (6, 6) is symmetric and positive semidefinite."""
    checks.definite_by_units(where, value, 6, _UNITS, semi=True)


def _strain() -> Any:
    """Field with a strain twist (6,), by default that of a straight beam."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (6,), "stretches, then curvatures in 1/m")
        checks.finite(where, value)

    return fields.parameter(check, default=(1.0, 0.0, 0.0, 0.0, 0.0, 0.0))


class Beam(AbstractPairForce):
    """A geometrically exact beam element: one screw between two nodes, on SE(3).

    A node is a frame of a body, or of the ground: its origin on the beam's line, its x axis along
    the beam, y and z across. With the poses C_A and C_B of the nodes the element's strain is

        f = log(C_A⁻¹ C_B) / length,

    constant along it by default: stretch and two shears (1, 0, 0 without load), then twist and two
    curvatures, rad/m. Force and moment in the section are K (f - f⁰) + D ḟ, in the section's axes,
    and the energy is ½ length (f - f⁰)·K (f - f⁰). Only the pose of B against A counts: rigid
    motions strain nothing, and bending, torsion and extension by end loads are exact with any
    number of elements. Convergence is of order 2 otherwise. A beam has no mass: that is in the
    bodies which are its nodes, see `lie_jax.beams.line`.

    **Arguments:**

    - `parent`, `child`: names of the bodies A and B that are its nodes, or `"ground"`.
    - `stiffness`: K, (6,) for the section's axes EA, GA_y, GA_z (N), GJ, EI_y, EI_z (N m²), or any
      symmetric positive definite matrix (6, 6).
    - `length`: arc length at rest, positive, m.
    - `damping`: D, of Kelvin and Voigt, (6,) or a symmetric positive semidefinite matrix (6, 6) in
      the units of K times s, or None. τ K with a time τ damps a mode of angular frequency ω by the
      ratio τ ω / 2.
    - `rest_strain`: f⁰ (6,). An arc of radius ρ that turns from x towards y has (1, 0, 0, 0, 0,
      1/ρ).
    - `interpolation`: of strains along the element, `"constant"` or `"linear"`. Linear ones take
      the values of least energy between given nodes, without further unknowns: equilibria under
      loads at nodes are of the fourth order, of the second otherwise.
    - `parent_point`, `child_point` (3,), m, `parent_orientation`, `child_orientation` (4,), unit
      quaternions: the frames of the nodes in those of the bodies. With them a beam is clamped to a
      body or the ground without a joint.

    An element may turn by at most 3 rad between its nodes: take shorter ones. Runs end as
    `departed` where it turns by more, or is pressed to no length.
    Source: Sonneville, Cardona, Brüls, "Geometrically exact beam finite element formulated on the
    special Euclidean group SE(3)" (2014); [S4] for the maps.
    """

    is_relative = True
    is_smooth = True
    stiffness: Parameter = fields.parameter(check_definite, as_matrix)
    length: Parameter = fields.positive("m")
    damping: OptionalParameter = fields.parameter(check_semidefinite, as_matrix, default=None)
    rest_strain: Parameter = _strain()
    parent_point: Parameter = fields.point()
    parent_orientation: Parameter = fields.orientation()
    child_point: Parameter = fields.point()
    child_orientation: Parameter = fields.orientation()
    interpolation: str = eqx.field(static=True, default="constant")

    def __check_init__(self):
        checks.one_of(f"{element_name(self)}.interpolation", self.interpolation, tuple(_LAWS))
        turn = self.length, self.rest_strain
        if checks.has_tracers(*turn):
            return
        # In NumPy: inside `jax.jit` a product of constant arrays would be a tracer.
        angle = float(self.length) * float(np.linalg.norm(np.asarray(self.rest_strain)[3:]))
        if angle > _LARGEST_TURN:
            raise ValueError(
                f"{element_name(self)} turns by {angle:.4g} rad between its nodes at rest; it may "
                f"turn by at most {_LARGEST_TURN} rad: take more elements."
            )

    @override
    def wrenches(self, t, poses, velocities, u):
        between = self._screw(poses)
        at_nodes = screw.pullback(between, self._force(between, poses, velocities))

        return tuple(
            node.wrench(pose, -on_node)
            for node, pose, on_node in zip(self._nodes, poses, at_nodes, strict=True)
        )

    @override
    def potential_energy(self, poses):
        """½ ∫ (f - f⁰)·K (f - f⁰) along the length."""
        return self._law.energy(self._numbers, self._screw(poses).twist)

    def strain(self, poses: Poses) -> Twist:
        """Strain f (6,) in the middle: stretch and shears, then twist and curvatures (rad/m)."""
        return self._law.strain(self._numbers, self._screw(poses).twist)

    def resultant(self, poses: Poses, velocities: Velocities) -> Twist:
        """Force (N) and moment (N m) in the middle section, in its axes (6,)."""
        between = self._screw(poses)
        strain = self._law.strain(self._numbers, between.twist) - self.rest_strain
        return small.matvec(self.stiffness, strain) + self._damping_force(
            between, poses, velocities
        )

    def line(self, poses: Poses, xi: Float[Array, ""]) -> BodyPose:
        """Section's frame at the part xi of the length, between 0 and 1."""
        start = self._nodes[0].frame(poses[0])
        along = se3.exp(self._law.screw_to(self._numbers, self._screw(poses).twist, xi))
        rotation = small.matmul(start.rotation, along[:3, :3])
        return BodyPose(rotation, start.position + small.matvec(start.rotation, along[:3, 3]))

    @property
    @override
    def is_bounded(self):
        return True

    @override
    def leaves_range(self, t, poses, velocities):
        """Whether the element turns by more than the logarithm of its rotation can show, or is
        pressed through itself.
        """
        between = self._screw(poses)
        turns = small.dot(between.phi, between.phi) > _LARGEST_TURN**2
        pressed = small.dot(between.twist[:3], self.rest_strain[:3]) <= 0.0
        return turns | pressed

    @override
    def derivatives(self, t, poses, velocities, u):
        """The wrenches' derivatives, written out, elements on the last axis.

        Wrenches of nodes are -Pᵢᵀ σ with ḣ = Σ Pⱼ ηⱼ. They change with σ, which h moves by K and D
        and the velocities by D, and with Pᵢ; then they are turned and carried from the nodes to
        the frames of the bodies, whose velocities have other components.
        """
        part = jax.vmap(Beam._parts, out_axes=-1)(self, poses, velocities)
        # ḣ by the hybrid velocities of both bodies, (6, 12).
        rates = jnp.concatenate(
            [small.products(p, c) for p, c in zip(part.rates, part.carries, strict=True)], axis=1
        )
        turned = jnp.concatenate(
            [
                small.products(small.transpose(c), g)
                for c, g in zip(part.carries, part.turned, strict=True)
            ]
        )
        by_h = small.products(small.transpose(rates), part.elastic) + turned
        along = -small.products(by_h, rates)
        count = along.shape[-1]
        zero = jnp.zeros((3, 3, count), along.dtype)
        of_frames = [small.block_2x2(zero, -force, zero, zero) for force in part.forces]
        none = jnp.zeros((6, 6, count), along.dtype)
        along = along + small.block_2x2(of_frames[0], none, none, of_frames[1])
        by_velocity = jnp.zeros_like(along)
        if part.viscous is not None:
            pulled = small.products(small.transpose(rates), part.viscous)
            by_velocity = -small.products(pulled, rates)
            # The body's components of a constant ṙ change as the body turns.
            spun = [
                small.products(small.products(p, o)[:, :3], spin)
                for p, o, spin in zip(part.rates, part.offsets, part.spins, strict=True)
            ]
            tall = jnp.zeros((6, 3, count), along.dtype)
            pushed = jnp.concatenate([tall, spun[0], tall, spun[1]], axis=1)
            along = along - small.products(pulled, pushed)
        shape = (2, 6, 2, 6, count)
        return along.reshape(shape), by_velocity.reshape(shape)

    def _parts(self, poses: Poses, velocities: Velocities) -> "_Parts":
        between = self._screw(poses)
        offsets = tuple(node.offset for node in self._nodes)
        sigma = self._force(between, poses, velocities)
        acting = screw.pullback(between, sigma)
        elastic, viscous = self._law.tangent(self._numbers, between.twist), None
        if self.damping is not None:
            viscous = self.damping / self.length
            twists = self._twists(poses, velocities)
            elastic = elastic + small.matmul(viscous, screw.change_of_rate(between, *twists))
        return _Parts(
            rates=screw.rates_by_twists(between),
            carries=tuple(screw.carry(o, p.rotation) for o, p in zip(offsets, poses, strict=True)),
            offsets=offsets,
            turned=screw.change_of_pulled_back(between, sigma),
            forces=tuple(
                small.matmul(p.rotation, small.hat(-small.matvec(o.T, w)[:3]))
                for p, o, w in zip(poses, offsets, acting, strict=True)
            ),
            spins=tuple(
                small.hat(small.matvec(p.rotation.T, v.linear))
                for p, v in zip(poses, velocities, strict=True)
            ),
            elastic=elastic,
            viscous=viscous,
        )

    @property
    def _nodes(self) -> tuple[Node, Node]:
        return (
            node_at(self.parent_point, self.parent_orientation),
            node_at(self.child_point, self.child_orientation),
        )

    def _screw(self, poses: Poses) -> Screw:
        a, b = (node.frame(pose) for node, pose in zip(self._nodes, poses, strict=True))
        rotation = small.matmul(a.rotation.T, b.rotation)
        return screw.between(rotation, small.matvec(a.rotation.T, b.position - a.position))

    def _twists(self, poses: Poses, velocities: Velocities) -> list[Twist]:
        """Body twists of both nodes."""

        def at(node: Node, pose: BodyPose, velocity: BodyVelocity) -> Twist:
            linear = small.matvec(pose.rotation.T, velocity.linear)
            return small.matvec(node.offset, jnp.concatenate([linear, velocity.omega_body]))

        return [at(*each) for each in zip(self._nodes, poses, velocities, strict=True)]

    @property
    def _law(self) -> laws.AbstractLaw:
        return _LAWS[self.interpolation]

    @property
    def _numbers(self) -> laws.Element:
        return laws.Element(self.length, self.stiffness, self.rest_strain)

    def _force(self, between: Screw, poses: Poses, velocities: Velocities) -> Twist:
        """σ (6,), which does work on the rate of the screw."""
        elastic = self._law.force(self._numbers, between.twist)
        return elastic + self._damping_force(between, poses, velocities)

    def _damping_force(self, between: Screw, poses: Poses, velocities: Velocities) -> Twist:
        """Force and moment of the damping, D ḣ / length."""
        if self.damping is None:
            return jnp.zeros_like(between.twist)
        rate = screw.rate(between, *self._twists(poses, velocities)) / self.length
        return small.matvec(self.damping, rate)


class _Parts(NamedTuple):
    """Parts of the wrenches' derivatives, for both nodes: P, carries from hybrid velocities and
    from twists of bodies to twists of nodes, derivatives of Pᵀσ by h, R times the forces' skew
    matrices, skew matrices of Rᵀṙ; derivatives of σ by h and by ḣ.
    """

    rates: tuple[Matrix6, Matrix6]
    carries: tuple[Matrix6, ...]
    offsets: tuple[Matrix6, ...]
    turned: tuple[Matrix6, Matrix6]
    forces: tuple[Array, ...]
    spins: tuple[Array, ...]
    elastic: Matrix6
    viscous: Matrix6 | None
