"""Rigid-body systems in joint coordinates: trees of bodies on floating bases or on the ground.

Accelerations come from the articulated-body algorithm: their cost grows linearly with the number of
joints, and compile time not at all with the length of a chain.
"""

import dataclasses
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics import body as rigid
from lie_jax.mechanics import stacking
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.coordinates.base import AbstractFormulation
from lie_jax.mechanics.coordinates.se3 import SE3
from lie_jax.mechanics.joints.base import GROUND, BodyPose
from lie_jax.mechanics.mechanism import Label, Mechanism, labels
from lie_jax.mechanics.minimal import (
    compound_joints,
    hinges,
    recursions,
    state,
    trees,
)
from lie_jax.mechanics.minimal import (
    joints as tree_joints,
)
from lie_jax.mechanics.minimal.compound_joints import MASSLESS
from lie_jax.mechanics.minimal.hinges import Hinges
from lie_jax.mechanics.minimal.joints import SIZES, Size, TreeJoints
from lie_jax.mechanics.minimal.recursions import Accelerations, Links, Motion
from lie_jax.mechanics.minimal.state import Start
from lie_jax.mechanics.minimal.trees import Tree
from lie_jax.mechanics.multibody import AbstractMultibodySystem
from lie_jax.mechanics.stacking import Connected
from lie_jax.numerics import gather, small
from lie_jax.spaces.base import AbstractSpace, Rn
from lie_jax.spaces.products import Power, Product
from lie_jax.spaces.rotations import UnitQuaternions
from lie_jax.system import State


class Minimal(AbstractFormulation):
    """Joint coordinates of trees of bodies, with floating bases or on the ground. [S1] Section V

    Takes revolute, prismatic, cylindrical, universal, planar, spherical and rigid joints that close
    no loop. The body of a tree that is no joint's child is its base, unless the tree hangs on the
    ground. q holds position and quaternion (7) of each base in the mechanism's order of bodies,
    then the coordinates of the joints in their order: angles (rad) and distances (m) as the joints
    define them, or for a spherical joint the unit quaternion (4) of the body farther from the base
    in the nearer one's frame. v holds the bases' body-fixed twists (6), then the rates of angles
    and distances, and for a spherical joint the angular velocity (3) relative to the nearer body,
    components of the farther one. A joint with several numbers is a row of hinges and sliders with
    massless bodies between them, and costs as much.
    """


class TreeSystem(AbstractMultibodySystem):
    """A mechanism in joint coordinates, without constraints; made by `lie_jax.assemble`.

    `bodies`, `joints`, `forces` and `gravity` are the physical parameters, stacked; bodies and
    joints stand in the order of the tree, with empty slots where its levels differ in width.
    `hinges` are the joint coordinates that forces about an axis follow.
    """

    bodies: MassProperties
    joints: TreeJoints
    forces: tuple[Connected, ...]
    gravity: Float[Array, "..."]
    hinges: tuple[Hinges | None, ...]
    tree: Tree = eqx.field(static=True)
    sizes: tuple[Size, ...] = eqx.field(static=True)
    labels: tuple[Label, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def space(self) -> AbstractSpace:
        """Poses of the bases, numbers, and unit quaternions of spherical joints."""
        bases, free = self.tree.bases, sum(size.nq == 4 for size in self.sizes)
        numbers = sum(size.nq == 1 for size in self.sizes)
        factors = (
            *((Power(SE3(), bases),) if bases else ()),
            *((Rn(numbers),) if numbers else ()),
            *((Power(UnitQuaternions(), free, "spherical joint"),) if free else ()),
        )
        if len(factors) == 1:
            return factors[0]
        return Product(
            factors,
            _order(7 * bases, numbers, [size.nq for size in self.sizes]),
            _order(6 * bases, numbers, [size.nv for size in self.sizes]),
        )

    def poses(
        self, q: Float[Array, " nq"]
    ) -> tuple[Float[Array, "bodies 3 3"], Float[Array, "bodies 3"]]:
        """Rotation matrices (N, 3, 3), body to inertial, and positions (N, 3) of body frames."""
        pose = self._moving(q, jnp.zeros(self.nv, q.dtype))[1].pose
        return gather.pick(self.slots, pose.rotation), gather.pick(self.slots, pose.position)

    def twists(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, "bodies 6"]:
        """Body-fixed twists (N, 6): Rᵀṙ and ω, both in body components."""
        return gather.pick(self.slots, self._moving(q, v)[1].twist)

    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, by the composite-rigid-body algorithm."""
        links, _ = self._moving(q, jnp.zeros(self.nv, q.dtype))
        parts = recursions.composite(self.tree, links, recursions.inertias(self.bodies))
        identity = jnp.broadcast_to(jnp.eye(6, dtype=q.dtype), parts.bases.shape)
        rows = self._velocity_places()
        twists, momenta = (
            jnp.concatenate([base.reshape(-1, 6), gather.pick(rows, own.reshape(-1, 6))])
            for base, own in ((identity, parts.twists), (parts.bases, parts.momenta))
        )
        products = momenta @ twists.T
        same, beyond = (jnp.asarray(part, q.dtype) for part in self._branches())
        own = self.flat(jnp.zeros_like(parts.bases[..., 0]), links.armature)
        return (same + beyond) * products + (beyond * products).T + jnp.diag(own)

    def force(self, t, q, v, u=None):
        """Applied, gyroscopic and centrifugal forces f (nv,): M v̇ = f."""
        return -self._needed(t, q, v, jnp.zeros_like(v), u)

    def internal_force(self, t, q, v, u=None):
        """The force f (nv,) without gravity, given forces and torques."""
        pairs = zip(self.forces, self.hinges, strict=True)
        kept = tuple(hinge for group, hinge in pairs if not group.element.is_load)
        inner = dataclasses.replace(stacking.without_loads(self), hinges=kept)
        return inner.force(t, q, v, u)

    def _name(self, body: int) -> str:
        # Joints of several numbers have massless bodies between their hinges and sliders.
        if body < 0:
            return GROUND
        return self.names[body] if body < len(self.names) else "inside a joint"

    def owner(self, equation):
        """The floating base or joint that an equation belongs to, in words, for messages."""
        if equation < 6 * self.tree.bases:
            return f"body {self.names[self.tree.bodies[equation // 6]]!r}"
        ends = accumulate((size.nv for size in self.sizes), initial=6 * self.tree.bases)
        joint = sum(end <= equation for end in ends) - 1
        kind: Any = self.joints.kinds[self.tree.joint_slots[joint]]
        parent, child = map(self._name, self.tree.connected(joint))
        return f"{kind.__name__}({parent!r}, {child!r})"

    def residual(self, t, q, v, acceleration, multipliers, u=None):
        """M v̇ - f (nv,), by the recursive Newton-Euler algorithm."""
        return self._needed(t, q, v, acceleration, u)

    def acceleration(self, t, q, v, u=None):
        """v̇ (nv,), by the articulated-body algorithm."""
        links, motion = self._moving(q, v)
        inertia = recursions.inertias(self.bodies)
        wrench, drift = self._loads(t, q, links, motion, inertia, v, u)
        found = recursions.forward_dynamics(self.tree, links, inertia, wrench, drift)
        return self.flat(found.bases, found.rates)

    def kinetic_energy(self, q: Float[Array, " nq"], v: Float[Array, " nv"]) -> Float[Array, ""]:
        """Kinetic energy (J)."""
        links, (_, twist) = self._moving(q, v)
        momenta = jax.vmap(small.matvec)(recursions.inertias(self.bodies), twist)
        # Rates that a joint does not have are zero.
        own = jnp.sum(links.armature * self._rates(v) ** 2)
        return 0.5 * (jnp.sum(twist * momenta) + own)

    def potential_energy(self, q: Float[Array, " nq"]) -> Float[Array, ""]:
        """Potential energy (J) of gravity, zero at the world origin, and of conservative forces."""
        pose = self._moving(q, jnp.zeros(self.nv, q.dtype))[1].pose
        forces = hinges.following(self.forces, self.hinges, jnp.zeros((), q.dtype), q)
        return stacking.potential_energy(self.bodies, forces, self.gravity, *pose)

    def remember(self, t, q, v):
        """What the forces keep of an instant, but for those that follow a joint's coordinate."""
        pairs = zip(self.forces, self.hinges, strict=True)
        own = tuple(group for group, hinge in pairs if hinge is None)
        kept = iter(stacking.remember(own, *self._instant(t, q, v)) if own else ())
        return tuple(next(kept) if hinge is None else None for hinge in self.hinges)

    def law(self, number):
        """The force with that number among those of `departed`, in words."""
        return stacking.owner(self.forces, self._in_slots, number)

    @property
    def _in_slots(self) -> tuple[str, ...]:
        return tuple(
            self.names[i] if 0 <= i < len(self.names) else GROUND for i in self.tree.bodies
        )

    def _instant(self, t, q: Array, v: Array) -> tuple[Array, ...]:
        """Time, and rotation, position, ṙ and ω of all slots."""
        (rotation, position), twist = self._moving(q, v)[1]
        velocity = jax.vmap(small.matvec)(rotation, twist[:, :3])
        return jnp.asarray(t, q.dtype), rotation, position, velocity, twist[:, 3:]

    def momentum(
        self, q: Float[Array, " nq"], v: Float[Array, " nv"]
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Linear and angular momentum about the world origin (3,), inertial, kg m/s, kg m²/s."""
        _, (pose, twist) = self._moving(q, v)
        velocity = jax.vmap(small.matvec)(pose.rotation, twist[:, :3])
        linear, angular = jax.vmap(rigid.momentum)(self.bodies, *pose, velocity, twist[:, 3:])
        return jnp.sum(linear, axis=0), jnp.sum(angular, axis=0)

    def joint_coordinates(self, q: Float[Array, "*instants nq"]) -> dict[Label, Array]:
        """Angles (rad) and distances (m) of joints at q (nq,), or at instants q (n, nq).

        As that of `RigidBodySystem`, but angles count whole turns from the initial state on.
        """
        found, place = {}, 7 * self.tree.bases
        for label, size in zip(self.labels, self.sizes, strict=True):
            if size.nq == 1:
                found[label] = jnp.concatenate(
                    [found.get(label, q[..., :0]), q[..., place : place + 1]], axis=-1
                )
            place += size.nq
        return found

    def joint_points(self):
        """Points of all joints."""
        tree, joints = self.tree, self.joints.parameters
        return [
            pair
            for slot, joint in enumerate(tree.joints)
            if joint >= 0
            for pair in (
                (tree.bodies[tree.parent_slots[slot]], joints.parent_point[slot]),
                (tree.bodies[tree.width + slot], joints.child_point[slot]),
            )
            if pair[0] < len(self.names)
        ]

    @property
    def slots(self) -> tuple[int, ...]:
        """Places in `bodies` of the mechanism's bodies; massless ones between hinges follow."""
        return self.tree.slots[: len(self.names)]

    def _moving(self, q: Array, v: Array) -> tuple[Links, Motion]:
        """The links, and poses and twists of all slots."""
        checks.instant("q", q, self.nq)
        checks.instant("v", v, self.nv)
        bases, rest = self.tree.bases, self.tree.width - self.tree.bases
        pose = jax.vmap(SE3().pose)(q[: 7 * bases].reshape(bases, 7))
        identity = jnp.broadcast_to(jnp.eye(3, dtype=q.dtype), (rest, 3, 3))
        start = Motion(
            BodyPose(
                jnp.concatenate([pose[0], identity]),
                jnp.concatenate([pose[1], jnp.zeros((rest, 3), q.dtype)]),
            ),
            jnp.concatenate([v[: 6 * bases].reshape(bases, 6), jnp.zeros((rest, 6), q.dtype)]),
        )
        places = _padded(self.tree, [size.nq for size in self.sizes], self.joints.size.nq)
        x = gather.pick(places, q[7 * bases :]).reshape(-1, self.joints.size.nq)
        relative = self.joints.poses(x)
        links = Links(
            jax.vmap(tree_joints.from_nearer)(relative),
            self.joints.twists(),
            self.joints.armature(),
        )
        return links, recursions.motion(self.tree, links, start, relative, self._rates(v))

    def _rates(self, v: Array) -> Array:
        places = _padded(self.tree, [size.nv for size in self.sizes], self.joints.size.nv)
        own = gather.pick(places, v[6 * self.tree.bases :])
        return own.reshape(-1, self.joints.size.nv)

    def flat(self, bases: Array, rates: Array) -> Array:
        """Velocities (nv,) from those of the bases (bases, 6) and of the links."""
        own = gather.pick(self._velocity_places(), rates.reshape(-1))
        return jnp.concatenate([bases.reshape(-1), own])

    def _velocity_places(self) -> tuple[int, ...]:
        return _unpadded(self.tree, [size.nv for size in self.sizes], self.joints.size.nv)

    def _loads(
        self, t, q: Array, links: Links, motion: Motion, inertia: Array, v: Array, u: Array | None
    ) -> tuple[Array, Array]:
        """Wrenches on the bodies, gyroscopic ones included, and the links' drifts."""
        (rotation, position), twist = motion
        velocity = jax.vmap(small.matvec)(rotation, twist[:, :3])
        t = jnp.asarray(t, v.dtype)
        forces = hinges.following(self.forces, self.hinges, t, q)
        applied = stacking.applied(
            self.bodies, forces, self.gravity, t, rotation, position, velocity, twist[:, 3:], u
        )
        own = jax.vmap(lambda r, force: small.matvec(r.T, force))(rotation, applied.force)
        wrench = jnp.concatenate([own, applied.torque], axis=1)
        drift = recursions.drift(links, twist[self.tree.width :], self._rates(v))
        return wrench - recursions.gyroscopic(inertia, twist), drift

    def _needed(self, t, q: Array, v: Array, acceleration: Array, u: Array | None) -> Array:
        links, motion = self._moving(q, v)
        inertia = recursions.inertias(self.bodies)
        wrench, drift = self._loads(t, q, links, motion, inertia, v, u)
        bases = acceleration[: 6 * self.tree.bases].reshape(-1, 6)
        own = Accelerations(bases, self._rates(acceleration))
        return self.flat(
            *recursions.inverse_dynamics(self.tree, links, inertia, wrench, drift, own)
        )

    def _branches(self) -> tuple[np.ndarray, np.ndarray]:
        """For two velocities (nv, nv): whether they belong to one joint or base, and whether the
        first one's joint hangs, over others, from what the second one moves.
        """
        tree = self.tree
        owner = np.concatenate(
            [np.repeat(np.arange(tree.bases), 6)]
            + [
                np.full(size.nv, tree.width + slot)
                for slot, size in zip(tree.joint_slots, self.sizes, strict=True)
            ]
        ).astype(int)
        above = np.zeros((len(tree.bodies), len(tree.bodies)))
        for link, parent in enumerate(tree.parent_slots):
            if parent >= 0:
                above[tree.width + link] = above[parent]
                above[tree.width + link, parent] = 1.0
        return (owner[:, None] == owner).astype(float), above[np.ix_(owner, owner)]


def _padded(tree: Tree, sizes: list[int], width: int) -> tuple[int, ...]:
    """For each number of each link, as many as of the widest joint, its place in the flat array."""
    starts = [0, *accumulate(sizes)]
    return tuple(
        starts[joint] + k if joint >= 0 and k < sizes[joint] else -1
        for joint in tree.joints
        for k in range(width)
    )


def _unpadded(tree: Tree, sizes: list[int], width: int) -> tuple[int, ...]:
    """For each number in the flat array, its place among those of all links."""
    return tuple(
        slot * width + k
        for slot, size in zip(tree.joint_slots, sizes, strict=True)
        for k in range(size)
    )


def _order(first: int, numbers: int, sizes: list[int]) -> tuple[int, ...]:
    """Places of coordinates in their order when single numbers come before larger ones."""
    single, larger, order = first, first + numbers, list(range(first))
    for size in sizes:
        if size == 1:
            order.append(single)
            single += 1
        else:
            order += range(larger, larger + size)
            larger += size
    return tuple(order)


def system_of(mechanism: Mechanism) -> tuple[TreeSystem, State]:
    """The mechanism in joint coordinates, and the state of its bodies' initial motion.

    Raises `ValueError` for a joint without coordinates here, for joints that close a loop or leave
    nothing to move, for massless bodies that carry no mass, and for initial poses or velocities
    that do not fit the joints.
    """
    for joint in mechanism.joints:
        if type(joint) not in (kinds := (*SIZES, *MASSLESS)):
            raise ValueError(
                f"lie_jax.Minimal has no coordinates for {type(joint).__name__}({joint.parent!r}, "
                f"{joint.child!r}); it takes {', '.join(kind.__name__ for kind in kinds)}: use "
                "lie_jax.R3SO3() or lie_jax.SE3(), where joints are constraints."
            )
    trees.refuse_loops(mechanism.names, mechanism.joints)
    rows = compound_joints.rows_of(mechanism)
    tree = trees.tree_of((*mechanism.names, *rows.massless), rows.joints)
    if not tree.bases and not any(SIZES[type(joint)].nv for joint in rows.joints):
        raise ValueError(
            "the mechanism has no joint coordinates: rigid joints hold every body to the ground. "
            "Replace one by a joint that moves."
        )
    _refuse_idle_massless(mechanism, tree)
    of_links = [rows.joints[k] if k >= 0 else None for k in tree.joints]
    backwards = [k >= 0 and tree.reversed[k] for k in tree.joints]
    joints = tree_joints.stack(of_links, backwards, mechanism.gravity.dtype)
    bodies = [MassProperties(b.mass, b.inertia, b.center_of_mass) for b in mechanism.bodies]
    nothing = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), bodies[0])
    masses = tuple(i if i < len(bodies) else -1 for i in tree.bodies)
    in_slots = tuple(mechanism.names[i] if i >= 0 else GROUND for i in masses)
    names = labels([(joint.parent, joint.child) for joint in mechanism.joints])
    sizes = tuple(SIZES[type(joint)] for joint in rows.joints)
    followed = [hinges.joint_of(mechanism, force) for force in mechanism.forces]
    forces = stacking.by_kind(mechanism.forces, in_slots, [k is None for k in followed])
    places = accumulate((size.nq for size in sizes), initial=7 * tree.bases)
    starts = dict(zip(rows.owners, places, strict=False))
    system = TreeSystem(
        bodies=stacking.stack([bodies[i] if i >= 0 else nothing for i in masses]),
        joints=joints,
        forces=forces,
        gravity=mechanism.gravity,
        hinges=hinges.hinges_of(mechanism, forces, followed, starts),
        tree=tree,
        sizes=sizes,
        labels=tuple(names[k] for k in rows.owners),
        names=mechanism.names,
    )
    start = state.initial(mechanism, tree, joints, rows)
    return system, _flat_state(system, start)


@eqx.filter_jit
def _flat_state(system: TreeSystem, start: Start) -> State:
    sizes = [size.nq for size in system.sizes]
    places = _unpadded(system.tree, sizes, system.joints.size.nq)
    own = gather.pick(places, start.coordinates.reshape(-1))
    q = jnp.concatenate([start.poses.reshape(-1), own])
    return State(q, system.flat(start.twists, start.rates))


def _refuse_idle_massless(mechanism: Mechanism, tree: Tree) -> None:
    """Raise for a body without mass that is a base or carries no body with mass."""
    massless = {i for i, body in enumerate(mechanism.bodies) if body.is_massless}
    heavy = set(range(len(mechanism.bodies))) - massless
    carrying = {slot for slot, i in enumerate(tree.bodies) if i in heavy}
    for slot in tuple(carrying):
        while (place := slot - tree.width) >= 0 and (slot := tree.parent_slots[place]) >= 0:
            carrying.add(slot)
    for slot, i in enumerate(tree.bodies):
        floats = slot < tree.bases
        if i in massless and (floats or slot not in carrying):
            raise ValueError(
                f"Body({mechanism.bodies[i].name!r}) has no mass, and "
                f"{'no joint holds it' if floats else 'carries no body with mass'}; a massless "
                "body must stand between a "
                "joint that holds it and one that carries a body with mass: give it mass and "
                "inertia, or leave it out."
            )
