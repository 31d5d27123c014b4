"""Systems of rigid bodies: what mechanisms offer in every formulation."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics.body import MassProperties, Rotations, Vector, Vectors
from lie_jax.mechanics.forces.loads import PartOfLoad
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody import (
    arguments,
    beam_readings,
    contact_readings,
    memories,
    readings,
    stacking,
    turns,
)
from lie_jax.multibody import contact_impulses as impulses
from lie_jax.multibody.contact_readings import Contacts
from lie_jax.multibody.readings import JointReaction, Labels, Powers
from lie_jax.multibody.stacking import Connected, Groups
from lie_jax.multibody.validity import MultibodyValidity
from lie_jax.numerics import gather, small, waits
from lie_jax.numerics.conversion import in_precision
from lie_jax.systems.system import (
    Configuration,
    Inputs,
    Multipliers,
    Time,
    Velocity,
)
from lie_jax.systems.touching import AbstractTouchingSystem

# Names in a text.
_MOST_NAMES = 8

# Time, and rotation, position, ṙ and ω of bodies.
Instant = tuple[Array, ...]


class AbstractMultibodySystem(AbstractTouchingSystem):
    """A mechanism in some formulation; made by `lie_jax.assemble`.

    `bodies`, `joints`, `forces` and `gravity` are physical parameters, stacked by kind; `names` are
    the bodies' names in the mechanism's order.
    """

    bodies: MassProperties
    joints: Any
    forces: tuple[Connected, ...]
    gravity: Float[Array, "..."]
    names: tuple[str, ...] = eqx.field(static=True)

    def __repr__(self):
        """Sizes, and the bodies by name."""
        sizes = f"q ({self.nq},), v ({self.nv},), constraints {self.nc}, inputs {self.nu}"
        names = ", ".join(self.names[:_MOST_NAMES])
        more = (
            f", ... {len(self.names) - _MOST_NAMES} more" if len(self.names) > _MOST_NAMES else ""
        )
        return f"{type(self).__name__}: {sizes}\n  bodies {len(self.names):4}  {names}{more}"

    @abc.abstractmethod
    def poses(self, q: Configuration) -> tuple[Rotations, Vectors]:
        """Rotation matrices (N, 3, 3), body to inertial, and positions (N, 3) of body frames."""

    def twists(self, q: Configuration, v: Velocity) -> Float[Array, "bodies 6"]:
        """Body-fixed twists (N, 6): Rᵀṙ (m/s) and ω (rad/s), both in body components.

        In the order of `names`, which is the mechanism's, in every formulation.
        """
        _, rotation, _, velocity, omega = self._instant(0.0, q, v)
        linear = jax.vmap(small.matvec)(rotation.swapaxes(1, 2), velocity)
        return gather.pick(self.slots, jnp.concatenate([linear, omega], axis=1))

    def poses_and_jacobians(
        self, q: Configuration, bodies: tuple[int, ...]
    ) -> tuple[Rotations, Vectors, Float[Array, "bodies 6 nv"]]:
        """Rotations, positions, and Jacobians of the body-fixed twists of bodies by number."""
        rotation, position = self.poses(q)
        still = jnp.zeros(self.nv, q.dtype)
        twists, transpose = jax.vjp(lambda v: gather.pick(bodies, self.twists(q, v)), still)
        units = jnp.eye(twists.size, dtype=q.dtype).reshape(-1, *twists.shape)
        (rows,) = jax.vmap(transpose)(units)
        rows = rows.reshape(*twists.shape, self.nv)
        return gather.pick(bodies, rotation), gather.pick(bodies, position), rows

    def kinetic_energy(self, q: Configuration, v: Velocity) -> Float[Array, ""]:
        """Kinetic energy (J)."""
        _, rotation, _, velocity, omega = self._instant(0.0, q, v)
        return jnp.sum(jax.vmap(rigid.kinetic_energy)(self.bodies, rotation, velocity, omega))

    def potential_energy(self, q: Configuration) -> Float[Array, ""]:
        """Potential energy (J) of gravity, zero at the world origin, and of conservative forces."""
        _, *pose, _, _ = self._instant(0.0, q, jnp.zeros(self.nv, q.dtype))
        center = pose[1] + jax.vmap(small.matvec)(pose[0], self.bodies.center_of_mass)
        energy = -jnp.sum(self.bodies.mass[:, None] * center * self.gravity[None, :])
        wound = [g for g in self.forces if g.element.winds and g.element.last is None]
        energies = "lie_jax.energies(system, trajectory)"
        turns.warn_of_unknown("potential_energy(q)", wound, energies)
        for group in self.forces:
            energy = energy + jnp.sum(
                stacking.each(lambda element, poses: element.potential_energy(poses), group, pose)
            )
        return energy

    def momentum(self, q: Configuration, v: Velocity) -> tuple[Vector, Vector]:
        """Linear and angular momentum about the world origin (3,), inertial, kg m/s, kg m²/s."""
        _, *motion = self._instant(0.0, q, v)
        linear, angular = jax.vmap(rigid.momentum)(self.bodies, *motion)
        return jnp.sum(linear, axis=0), jnp.sum(angular, axis=0)

    @waits.announce("the powers")
    def powers(
        self,
        t: Time,
        q: Configuration,
        v: Velocity,
        multipliers: Multipliers,
        u: Inputs = None,
    ) -> Powers:
        """Powers (W) of forces, joints and within bodies; their sum is the rate of the energy.

        The energy is `kinetic_energy` + `potential_energy`. Of a contact these are the powers of
        its law at the instant, not of the impulses of `ConvexContact`. In absolute coordinates q
        does not tell whole turns, on which the slope of a coupling may depend: take the system
        that recalls them, as in `lie_jax.Trajectory`. Warns where turns matter and are unknown.
        """
        given = {"q": q, "v": v, "multipliers": multipliers}
        q, v, multipliers = arguments.arrays("powers", self, None, **given)
        checks.scalar("powers(t=)", t, "s")
        u = arguments.input_vector("powers(u=)", u, self, q.dtype)
        return self._powers(jnp.asarray(t, q.dtype), q, v, multipliers, u)

    def _powers(self, t: Array, q: Array, v: Array, multipliers: Array, u: Inputs) -> Powers:
        now, *motion = self._instant(t, q, v)
        joints, labels = self._constraints(q)
        wound = [group for group in (*self.forces, *joints) if group.element.lacks_turns]
        turns.warn_of_unknown("powers(q)", wound)
        by_group = stacking.split(joints, multipliers, self.nc - self.velocity_rows)
        return Powers(
            readings.force_powers(self.forces, now, motion, u),
            readings.joint_powers(joints, labels, now, motion, by_group),
            self._body_powers(q, v),
        )

    def _body_powers(self, q: Array, v: Array) -> dict[str, Array]:
        """Powers within bodies by their names."""
        return {}

    @waits.announce("the reactions")
    def reactions(
        self,
        t: Time | Float[Array, " instants"],
        q: Float[Array, "*instants nq"],
        v: Float[Array, "*instants nv"],
        acceleration: Float[Array, "*instants nv"],
        multipliers: Float[Array, "*instants nc"],
        u: Float[Array, "*instants nu"] | None = None,
    ) -> dict[Label, JointReaction]:
        """Force (N) and torque (N m), inertial, by which each joint acts on its child.

        At an instant, or at those of a trajectory: t (n,), q (n, nq), v and acceleration (n, nv),
        multipliers (n, nc), u (n, nu), all rows of the run, as in `system.reactions(run.t, run.q,
        run.v, run.acceleration, run.multipliers, run.u)`. The torque is about the joint's
        `child_point`. Joints are called as by `joint_coordinates`. Motors, springs and friction
        between the same two bodies are forces of their own, and no part of a reaction: a
        `RigidJoint` in the way of all of them reads their sum, as a sensor of force and torque
        does. Raises `ValueError` for arrays of other shapes.

        Joints that are constraints act by their multipliers. Those of a tree in joint coordinates
        act as Newton and Euler require of all that they carry; about its own axis a joint with an
        armature acts with the torque of that inertia.
        """
        rows = None if np.ndim(q) < 2 else len(q)
        given = {"q": q, "v": v, "acceleration": acceleration, "multipliers": multipliers}
        q, v, acceleration, multipliers = arguments.arrays("reactions", self, rows, **given)
        arguments.check_times("reactions(t=)", t, rows)
        u = arguments.input_vector("reactions(u=)", u, self, q.dtype, rows)

        def at(t, q, v, acceleration, multipliers, u):
            return self._joint_reactions(t, q, v, acceleration, multipliers, u)

        t = jnp.asarray(t, q.dtype)
        return (at if rows is None else jax.vmap(at))(t, q, v, acceleration, multipliers, u)

    @waits.announce("the contacts")
    def contacts(self, t: Time, q: Configuration, v: Velocity) -> Contacts:
        """Gap, normal and point, forces and slip at each place of each `Contact`, at an instant."""
        q, v = arguments.arrays("contacts", self, None, q=q, v=v)
        checks.scalar("contacts(t=)", t, "s")
        _, *motion = self._instant(t, q, v)
        return contact_readings.contacts(self.forces, motion)

    @waits.announce("the beams")
    def beams(
        self, q: Configuration, v: Velocity | None = None, points: int = 2
    ) -> beam_readings.Beams:
        """Strain, resultants and places of each `Beam`, at so many points of its line.

        Without v the resultants are those of a beam at rest.
        """
        given = {"q": q, "v": np.zeros(self.nv) if v is None else v}
        q, v = arguments.arrays("beams", self, None, **given)
        checks.positive_integer("beams(points=)", points, "points of each beam's line")
        _, *motion = self._instant(0.0, q, v)
        return beam_readings.beams(self.forces, motion, points)

    @override
    def places(self, t, q, v):
        units = jax.vmap(lambda v: self._instant(t, q, v)[3:])(jnp.eye(self.nv, dtype=q.dtype))
        return impulses.places_at(self.forces, self._instant(t, q, v)[1:], units)

    @override
    def without_places(self):
        return dataclasses.replace(self, forces=impulses.split(self.forces)[1])

    @override
    def no_places(self):
        return impulses.refusal(self.forces)

    @waits.announce("the joint coordinates")
    def joint_coordinates(
        self,
        q: Float[Array, "*instants nq"],
        v: Float[Array, "*instants nv"] | None = None,
        t: Float[Array, " instants"] | None = None,
    ) -> dict[Label, Array]:
        """Angles (rad) and distances (m) of joints at q (nq,), or at instants of a run in order: q
        (n, nq), v (n, nv) and t (n,).

        One array (k,) or (n, k) for each joint that has them (revolute, universal, prismatic,
        cylindrical, planar), in the mechanism's order, called by its name, without one by (parent,
        child); the second one without a name between the same two by (parent, child, 2), and so on.
        In joint coordinates angles count whole turns from the initial state on. In absolute
        coordinates, and at joints that close loops, they lie between -π and π; those of instants
        are continued from the first one by their rates. Warns of angles whose turns these rates do
        not settle, and of instants without v and t, between which they change by less than half a
        turn (not in JAX's transformations). Raises `ValueError` for arrays of other shapes.
        """
        rows = None if np.ndim(q) < 2 else len(q)
        given = {"q": q} if v is None else {"q": q, "v": v}
        q, *rates = arguments.arrays("joint_coordinates", self, rows, **given)
        v = rates[0] if rates else None
        if t is not None:
            arguments.check_times("joint_coordinates(t=)", t, rows)
            t = in_precision(t, q.dtype)
        return self._joint_coordinates(q, v, t)

    @abc.abstractmethod
    def _joint_coordinates(self, q: Array, v: Array | None, t: Array | None) -> dict[Label, Array]:
        """Joint coordinates at an instant or at those of a run."""

    @property
    def slots(self) -> tuple[int, ...]:
        """Places in `bodies` of the mechanism's bodies, in its order."""
        return tuple(range(len(self.names)))

    @property
    def frame_slots(self) -> tuple[int, ...]:
        """Slots of the bodies in the mechanism's order, then of further frames of them."""
        return self.slots

    def frame_poses(self, q: Configuration) -> tuple[Rotations, Vectors]:
        """Rotations and positions in the order of `frame_slots`."""
        return self.poses(q)

    @property
    def names_by_slot(self) -> tuple[str, ...]:
        """Names of the bodies by their places in `bodies`."""
        return self.names

    def poses_by_slot(self, q: Configuration) -> tuple[Rotations, Vectors]:
        """Rotations and positions by the places of bodies in `bodies`."""
        _, rotation, position, *_ = self._instant(0.0, q, jnp.zeros(self.nv, q.dtype))
        return rotation, position

    @property
    @abc.abstractmethod
    def connections(self) -> list[tuple[int, ...]]:
        """Places in `bodies` of the bodies that each joint connects, -1 for the ground."""

    @abc.abstractmethod
    def translate(self, q: Configuration, shift: Vectors) -> Configuration:
        """Configuration with each body moved by a vector (m), inertial, by its place in `bodies`.

        Bodies that joints connect move by one vector, those that joints hold to the ground by none.
        """

    @abc.abstractmethod
    def joint_points(self) -> list[tuple[int, Array]]:
        """Numbers of bodies, -1 for the ground, and points (3,) of their joints, body frame (m)."""

    @abc.abstractmethod
    def joint_axes(self) -> list[tuple[int, Array, Array]]:
        """Numbers of bodies, -1 for the ground, points (3,) and unit vectors (3,) of the axes of
        hinges and sliders on them, body frame (m).

        A joint of several motions has the first one's axis on its parent and the last one's on its
        child.
        """

    @property
    @override
    def nu(self):
        return 1 + max((number for group in self.forces for number in group.inputs), default=-1)

    @property
    def most_inputs(self) -> int | None:
        """Number of inputs that forces read at most; None where one may read all that are given."""
        # Forces of one's own that declare no input get all of them.
        for element in (group.element for group in self.forces if not group.inputs):
            while isinstance(element, PartOfLoad):
                element = element.element
            if not type(element).__module__.startswith("lie_jax."):
                return None
        return self.nu

    @override
    def under_loads(self, part):
        forces = tuple(
            dataclasses.replace(
                group, element=PartOfLoad(group.element, jnp.broadcast_to(part, (group.count,)))
            )
            if group.element.is_load
            else group
            for group in self.forces
        )
        return dataclasses.replace(self, forces=forces, gravity=part * self.gravity)

    @property
    @override
    def validity(self):
        return MultibodyValidity(self)

    @override
    def memory_after(self, t, q, v):
        now, *motion = self._instant(t, q, v)
        return tuple(
            stacking.each(lambda element, *pair: element.memory_after(now, *pair), group, motion)
            for group in self.forces
        )

    @override
    def with_memory(self, memory):
        memories.check(self, memory)
        return self._with_memory(memory)

    def _with_memory(self, memory: tuple) -> "AbstractMultibodySystem":
        return dataclasses.replace(self, forces=stacking.with_memory(self.forces, memory))

    def _joint_reactions(
        self, t: Time, q: Array, v: Array, acceleration: Array, multipliers: Array, u: Inputs
    ) -> dict[Label, JointReaction]:
        """Reactions of joints that are constraints, at an instant."""
        now, *pose, _, _ = self._instant(t, q, v)
        joints, labels = self._constraints(q)
        wound = [group for group in joints if group.element.lacks_turns]
        turns.warn_of_unknown("reactions(q)", wound)
        by_group = stacking.split(joints, multipliers, self.nc - self.velocity_rows)
        return readings.reactions(joints, labels, now, (pose[0], pose[1]), by_group)

    @property
    def constraint_labels(self) -> Labels:
        """Labels of joints that are constraints."""
        return ()

    def _constraints(self, q: Configuration) -> tuple[Groups, Labels]:
        """Joints that are constraints, stacked, and labels of all of them by their places."""
        return (), ()

    def _applied_wrenches(self, instant: Instant, u: Inputs) -> Wrench:
        """Hybrid wrenches of gravity and of all forces on all slots of `bodies`."""
        arguments.check_inputs(u, self)
        t, *motion = instant
        weight = self.bodies.mass[:, None] * self.gravity[None, :]
        force = jax.vmap(small.matvec)(motion[0].swapaxes(1, 2), weight)
        total = Wrench(weight, jax.vmap(small.cross)(self.bodies.center_of_mass, force))
        for group in self.forces:
            inputs = stacking.own_inputs(group, u)
            wrenches = stacking.each(
                lambda element, *acting: element.wrenches(t, *acting), group, motion, inputs
            )
            total = stacking.add_wrenches(total, group, wrenches)
        return total

    @abc.abstractmethod
    def _instant(self, t: Time, q: Array, v: Array) -> Instant:
        """Time, and rotation, position, ṙ and ω of all slots of `bodies`."""
