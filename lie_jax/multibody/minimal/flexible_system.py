"""Systems in joint coordinates with flexible bodies, whose amplitudes follow the joints in q.

Newton and Euler go along the tree of all frames, interfaces included: a wrench that an interface
hands on acts along the amplitudes, too. The mass matrix has full size, and accelerations are its
solution: all amplitudes and joints of a tree are coupled.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics.flexible import deformation
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.multibody import flexible_limits
from lie_jax.multibody.flexible import BodyMotions, Flexibility
from lie_jax.multibody.flexible_readings import AbstractFlexibleSystem
from lie_jax.multibody.minimal import recursions
from lie_jax.multibody.minimal.flexible_algebra import FlexibleAlgebra, FlexibleLoopAlgebra
from lie_jax.multibody.minimal.flexible_frames import ModalFrames, Shapes
from lie_jax.multibody.minimal.kinematics import Kinematics, SpatialVectors, rotate
from lie_jax.multibody.minimal.layout import Layout, make_space
from lie_jax.multibody.minimal.loops import LoopSystem, LoopValidity
from lie_jax.multibody.minimal.state import Start
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.multibody.validity import MultibodyValidity
from lie_jax.numerics import gather, small, waits
from lie_jax.numerics.dense import product
from lie_jax.systems.algebra import Algebra
from lie_jax.systems.system import AbstractSystem, State


class _Validity(MultibodyValidity):
    """Limits of the forces, and of flexible bodies by modes."""

    @override
    def doubts(self, q, v):
        return flexible_limits.doubts(self.system, q, v)


class FlexibleTreeSystem(AbstractFlexibleSystem, TreeSystem):
    """A mechanism with flexible bodies in joint coordinates, without constraints; made by
    `lie_jax.assemble`.

    q holds what that of a `TreeSystem` holds, then all amplitudes, and v their rates. Frames are
    the bodies, then their `interfaces`, which are links without coordinates.
    """

    flexibility: Flexibility
    interfaces: tuple[str, ...] = eqx.field(static=True)

    @property
    def modal(self) -> ModalFrames:
        """The interfaces as links."""
        return ModalFrames(self.flexibility, self.tree)

    @property
    @override
    def space(self):
        modes, motions = sum(self.flexibility.modes), len(self.tree.motions)
        layouts = (
            Layout(
                layout.base,
                (*layout.motions, *range(motions, motions + modes)),
                (*layout.counts, *(1 for _ in range(modes))),
            )
            for layout in (self.coordinates, self.velocities)
        )
        return make_space(self.tree.bases, *layouts)

    @property
    @override
    def named(self):
        return *self.names, *self.interfaces

    @property
    @override
    def frame_slots(self):
        return self.tree.slots[: len(self.named)]

    @override
    def frame_poses(self, q):
        rotation, position, *_ = self._frames(self.kinematics(q))
        return gather.pick(self.frame_slots, rotation), gather.pick(self.frame_slots, position)

    @override
    def body_motion(self, q, v):
        motion = (gather.pick(self.slots, x) for x in self._frames(self.kinematics(q, v)))
        rotation, position, velocity, omega = motion
        return BodyPose(rotation, position), BodyVelocity(velocity, omega)

    @override
    def kinematics(self, q, v=None):
        checks.instant("q", q, self.nq)
        v = jnp.zeros(self.nv, q.dtype) if v is None else v
        checks.instant("v", v, self.nv)
        modal, amplitudes, rates = self.modal, self.all_amplitudes(q), self.all_rates(v)

        def beyond_joints(rotation, arm):
            shapes = modal.shapes(rotation, arm, amplitudes)
            drift = modal.drift(rotation, arm, amplitudes, rates)
            return modal.twists(shapes, rates), drift

        return self._kinematics(modal.joints(self.joints, amplitudes), q, v, beyond_joints)

    def _shapes(self, q: Array, motion: Kinematics) -> Shapes:
        return self.modal.shapes(motion.rotation, motion.arm, self.all_amplitudes(q))

    @override
    def unit_motions(self, q, motion):
        of_tree, shapes = super().unit_motions(q, motion), self._shapes(q, motion)

        def of(slots):
            more = self.modal.columns(shapes, slots)
            pairs = zip(of_tree(slots), (more[:3], more[3:]), strict=True)
            linear, angular = (jnp.concatenate(pair, axis=1) for pair in pairs)
            return linear, angular

        return of

    @override
    def frame_accelerations(self, q, motion, x):
        more = self.modal.twists(self._shapes(q, motion), self.all_rates(x))
        return recursions.frame_accelerations(self.tree, motion, self.split(x), more)

    @override
    @waits.announce("the forces")
    def force(self, t, q, v, u=None):
        return -self._forces(t, q, v, jnp.zeros_like(v), u)

    @override
    @waits.announce("the residual")
    def residual(self, t, q, v, acceleration, multipliers, u=None):
        return self._forces(t, q, v, acceleration, u)

    def _forces(self, t, q: Array, v: Array, acceleration: Array, u: Array | None) -> Array:
        """Forces along v that a motion needs, less those that act."""
        motion, whole, along = self._needed(t, q, v, acceleration, u)
        bases = self.tree.bases
        forces = jnp.sum(motion.columns * whole[None, :, bases:], axis=1).T
        forces = forces + self.joints.inertia().T * self.split(acceleration).rates
        back = small.transpose(motion.rotation[..., :bases])
        on_bases = rotate(back, whole[:, :bases]).T
        return jnp.concatenate([self.velocities.flat(on_bases, forces), along])

    def _needed(
        self, t, q: Array, v: Array, acceleration: Array, u: Array | None
    ) -> tuple[Kinematics, SpatialVectors, Array]:
        """Motion, wrenches that frames take from the nearer side, and forces along amplitudes."""
        motion, _, inertia, bias = self._terms(t, q, v, u)
        shapes, modal = self._shapes(q, motion), self.modal
        bending = modal.twists(shapes, self.all_rates(acceleration))
        rates = self.split(acceleration)
        growth = recursions.frame_accelerations(self.tree, motion, rates, bending)
        of_modes = self.all_amplitudes(q), self.all_rates(v), self.all_rates(acceleration)
        more, along = self._of_deformation(motion, motion.drift + growth, of_modes)
        wrench = bias + small.matvec(inertia, growth) + more
        whole = recursions.transmitted_wrenches(self.tree, motion, inertia, wrench, None)
        return motion, whole, along + modal.along(shapes, whole)

    def _of_deformation(
        self, motion: Kinematics, total: SpatialVectors, of_modes: tuple[Array, Array, Array]
    ) -> tuple[SpatialVectors, Array]:
        """Wrenches on frames with these accelerations, and forces along amplitudes, that what
        bodies deform needs.
        """
        rotation, _, velocity, omega = self._frames(motion)
        linear = total[:3] + small.cross(total[3:], motion.arm)
        linear = linear + small.cross(motion.twist[3:], velocity.T) - self.gravity[:, None]
        angular = jnp.sum(motion.rotation * total[3:][:, None], axis=0)
        of_frames = rotation, omega, linear.T, angular.T
        turn, spin, *rates = (gather.pick(self.slots, x) for x in of_frames)
        loads = self.flexibility.forces(BodyMotions(turn, spin, rates[0], rates[1], *of_modes))
        count = len(self.tree.bodies)
        force, torque = (gather.add_up(self.slots, x, count).T for x in loads.wrench)
        torque = small.matvec(motion.rotation, torque) + small.cross(motion.arm, force)
        return jnp.concatenate([force, torque]), loads.along

    @override
    def mass_matrix(self, q: Float[Array, " nq"]) -> Float[Array, "nv nv"]:
        """Mass matrix, from the twists of all bodies for unit velocities."""
        motion = self.kinematics(q)
        inertia = gather.pick(self.slots, recursions.inertias(self.bodies, motion), axis=2)
        moving = self.unit_motions(q, motion)
        twists, first = jnp.concatenate(moving(self.slots)), self.nv - sum(self.flexibility.modes)
        momenta, rows = small.matmul(inertia, twists), []
        split = self.flexibility.split(self.all_amplitudes(q))
        for group, slots, e in zip(self.flexibility.groups, self.modal.slots, split, strict=True):
            last = first + e.size
            rates = np.eye(self.nv)[:, first:last].reshape(self.nv, *e.shape).transpose(2, 0, 1)
            own = jnp.asarray(rates, q.dtype)
            mass = _masses(group.deformation, slots, motion, e)
            both = jnp.concatenate([gather.pick(group.bodies, twists, axis=2), own])
            needed = small.matmul(mass, both)
            of_group = needed[:6]
            momenta = momenta + gather.add_up(group.bodies, of_group, len(self.names), axis=2)
            rows.append(needed[6:].transpose(2, 0, 1).reshape(-1, self.nv))
            first = last
        left, right = twists.transpose(1, 0, 2), momenta.transpose(0, 2, 1)
        matrix = product(left.reshape(self.nv, -1), right.reshape(-1, self.nv))
        along = jnp.concatenate(rows)
        matrix = matrix + jnp.pad(along, ((self.nv - len(along), 0), (0, 0)))
        no_motors = jnp.zeros((self.tree.bases, 6), q.dtype)
        armature = self.velocities.flat(no_motors, self.joints.inertia().T)
        return matrix + jnp.diag(jnp.pad(armature, (0, len(along))))

    @override
    @waits.announce("the accelerations")
    def acceleration(self, t, q, v, u=None):
        return AbstractSystem.acceleration(self, t, q, v, u)

    @override
    @waits.announce("the linearization")
    def linearization(self, t, q, v, acceleration, multipliers, u=None):
        return AbstractSystem.linearization(self, t, q, v, acceleration, multipliers, u)

    @override
    def poses_and_jacobians(self, q, bodies):
        return AbstractMultibodySystem.poses_and_jacobians(self, q, bodies)

    @override
    def places(self, t, q, v):
        return AbstractMultibodySystem.places(self, t, q, v)

    @override
    def _transmitted(self, t, q, v, acceleration, u):
        return self._needed(t, q, v, acceleration, u)[:2]

    @override
    def owner(self, equation):
        amplitude = equation - self.nv + sum(self.flexibility.modes)
        if amplitude < 0:
            return super().owner(equation)
        return f"the amplitudes of body {self.names[self.flexibility.body_of(amplitude)]!r}"

    @property
    @override
    def algebra(self) -> Algebra:
        return FlexibleAlgebra(self)

    @property
    @override
    def validity(self):
        return _Validity(self)

    def start(self, start: Start, amplitudes: list[Array], rates: list[Array]) -> State:
        """State of a start of bases and joints, and of the amplitudes."""
        rigid = self.initial_state(start)
        return State(jnp.concatenate([rigid.q, *amplitudes]), jnp.concatenate([rigid.v, *rates]))


def _masses(
    of: deformation.Deformation, slots: tuple[int, ...], motion: Kinematics, e: Array
) -> Float[Array, "n n count"]:
    """Mass matrices for twists, about the reference point, and rates of amplitudes of bodies."""
    rotation = gather.pick(slots, motion.rotation, axis=2)
    mass = jax.vmap(deformation.mass_matrix, out_axes=-1)(of, jnp.moveaxis(rotation, -1, 0), e)
    lever = small.hat(gather.pick(slots, motion.arm, axis=1))
    identity = jnp.broadcast_to(jnp.eye(3, dtype=e.dtype)[:, :, None], lever.shape)
    hybrid = small.block_2x2(identity, -lever, jnp.zeros_like(lever), small.transpose(rotation))
    modes = e.shape[1]
    wide = jnp.pad(hybrid, ((0, modes), (0, modes), (0, 0)))
    own = jnp.pad(jnp.eye(modes, dtype=e.dtype), ((6, 0), (6, 0)))
    wide = wide + own[:, :, None]
    return small.matmul(small.matmul(small.transpose(wide), mass), wide)


class _LoopValidity(LoopValidity, _Validity):
    """Limits of the forces, of the joints that close loops, and of flexible bodies."""


class FlexibleLoopSystem(LoopSystem, FlexibleTreeSystem):
    """A mechanism with flexible bodies and loops in joint coordinates; made by
    `lie_jax.assemble`.
    """

    @override
    @waits.announce("the linearization")
    def linearization(self, t, q, v, acceleration, multipliers, u=None):
        return AbstractSystem.linearization(self, t, q, v, acceleration, multipliers, u)

    @property
    @override
    def algebra(self):
        return FlexibleLoopAlgebra(self)

    @property
    @override
    def validity(self):
        return _LoopValidity(self)
