"""Flexible bodies of a mechanism: each has amplitudes beside the motion of its frame.

The frames of interfaces are further slots of motion, behind those of the bodies: joints and forces
act on them as on bodies without mass. Their wrenches go back to the bodies and the amplitudes.
Bodies of as many modes and interfaces make a group. Amplitudes of all bodies stand group by group.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.mechanics.body import Body
from lie_jax.mechanics.flexible import deformation, interfaces
from lie_jax.mechanics.flexible.body import FlexibleBody
from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.mechanics.flexible.interfaces import Interface
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.multibody import stacking
from lie_jax.numerics import gather

# Amplitudes e of all bodies, their rates or accelerations.
Amplitudes = Float[Array, " all_modes"]


class FlexibleGroup(eqx.Module):
    """Deformations of bodies with as many modes and interfaces, stacked; numbers of the bodies."""

    deformation: Deformation
    bodies: tuple[int, ...] = eqx.field(static=True)

    @property
    def modes(self) -> int:
        """Number of modes of each body."""
        return self.deformation.stiffness.shape[-1]

    @property
    def interfaces(self) -> int:
        """Number of interfaces of each body."""
        return self.deformation.points.shape[-2]

    @property
    def at(self) -> Interface:
        """Interfaces of all bodies, (count, i, ...)."""
        of = self.deformation
        return Interface(of.points, of.shifts, of.turns)

    def of_bodies(self, values: Float[Array, "slots ..."]) -> Float[Array, "count ..."]:
        """Entries of the group's bodies."""
        return gather.pick(self.bodies, values)

    def at_interfaces(self, function: Callable, *of_bodies: Any) -> Any:
        """function(interface, *values) for each interface (count, i, ...), values of its body."""
        inner = jax.vmap(function, (0, *(None for _ in of_bodies)))
        return jax.vmap(inner)(self.at, *of_bodies)


class Loads(NamedTuple):
    """Hybrid wrenches on all slots, and forces along all amplitudes."""

    wrench: Wrench
    along: Amplitudes


class Flexibility(eqx.Module):
    """All flexible bodies of a mechanism, none for a rigid one; `bodies`: number of all bodies."""

    groups: tuple[FlexibleGroup, ...]
    bodies: int = eqx.field(static=True)

    @property
    def modes(self) -> tuple[int, ...]:
        """Number of modes of each flexible body, group by group."""
        return tuple(group.modes for group in self.groups for _ in group.bodies)

    @property
    def interfaces(self) -> int:
        """Number of interfaces."""
        return sum(len(group.bodies) * group.interfaces for group in self.groups)

    def body_of(self, amplitude: int) -> int:
        """Number of the body to which an amplitude belongs."""
        bodies = [body for group in self.groups for body in group.bodies]
        owners = [body for body, m in zip(bodies, self.modes, strict=True) for _ in range(m)]
        return owners[amplitude]

    def split(self, amplitudes: Amplitudes) -> list[Array]:
        """Amplitudes (count, modes) of each group."""
        parts, first = [], 0
        for group in self.groups:
            last = first + len(group.bodies) * group.modes
            parts.append(amplitudes[first:last].reshape(len(group.bodies), group.modes))
            first = last
        return parts

    def frames(self, pose: BodyPose, amplitudes: Amplitudes) -> BodyPose:
        """Poses of all slots from those of the bodies."""
        rotations, positions = [pose.rotation], [pose.position]
        for group, e in zip(self.groups, self.split(amplitudes), strict=True):
            body = BodyPose(*map(group.of_bodies, pose))
            at = group.at_interfaces(interfaces.pose, body, e)
            rotations.append(at.rotation.reshape(-1, 3, 3))
            positions.append(at.position.reshape(-1, 3))
        return BodyPose(jnp.concatenate(rotations), jnp.concatenate(positions))

    def velocities(
        self, pose: BodyPose, velocity: BodyVelocity, amplitudes: Amplitudes, rates: Amplitudes
    ) -> BodyVelocity:
        """Velocities of all slots from those of the bodies."""
        linear, angular = [velocity.linear], [velocity.omega_body]
        of_groups = self.split(amplitudes), self.split(rates)
        for group, e, rate in zip(self.groups, *of_groups, strict=True):
            body = BodyPose(*map(group.of_bodies, pose))
            moving = BodyVelocity(*map(group.of_bodies, velocity))
            at = group.at_interfaces(interfaces.velocity, body, moving, e, rate)
            linear.append(at.linear.reshape(-1, 3))
            angular.append(at.omega_body.reshape(-1, 3))
        return BodyVelocity(jnp.concatenate(linear), jnp.concatenate(angular))

    def pull_back(self, pose: BodyPose, amplitudes: Amplitudes, wrench: Wrench) -> Loads:
        """Wrenches on bodies and forces along amplitudes from wrenches on all slots."""
        n, along = self.bodies, []
        total, first = Wrench(wrench.force[:n], wrench.torque[:n]), n
        for group, e in zip(self.groups, self.split(amplitudes), strict=True):
            count = len(group.bodies) * group.interfaces
            acting = self.of_interfaces(group, wrench, first)
            first += count
            body = BodyPose(*map(group.of_bodies, pose))
            pulled = jax.vmap(jax.vmap(interfaces.pull_back, (0, None, None, 0)))(
                group.at, body, e, acting
            )
            sums = jax.tree.map(lambda x: jnp.sum(x, axis=1), pulled)
            total = Wrench(
                *(
                    x + gather.add_up(group.bodies, y, n)
                    for x, y in zip(total, sums.wrench, strict=True)
                )
            )
            along.append(sums.along.reshape(-1))
        return Loads(total, jnp.concatenate(along) if along else jnp.zeros(0, total.force.dtype))

    def of_interfaces(self, group: FlexibleGroup, wrench: Wrench, first: int) -> Wrench:
        """Wrenches on the interfaces of a group, (count, i, 3), whose slots begin at `first`."""
        count = len(group.bodies)
        return Wrench(
            *(
                x[first : first + count * group.interfaces].reshape(count, group.interfaces, 3)
                for x in wrench
            )
        )

    def motions(self, moving: "BodyMotions") -> list[deformation.Motion]:
        """Motions of the flexible bodies, of each group."""
        of_bodies, of_amplitudes = moving[:4], zip(*map(self.split, moving[4:]), strict=True)
        return [
            deformation.Motion(*map(group.of_bodies, of_bodies), *part)
            for group, part in zip(self.groups, of_amplitudes, strict=True)
        ]

    def forces(self, moving: "BodyMotions") -> Loads:
        """Inertia and elastic forces beyond those of undeformed bodies: wrenches on bodies."""
        total, along = [jnp.zeros_like(moving.omega)] * 2, []
        for group, motion in zip(self.groups, self.motions(moving), strict=True):
            *wrench, of_amplitudes = jax.vmap(deformation.forces)(group.deformation, motion)
            added = (gather.add_up(group.bodies, part, self.bodies) for part in wrench)
            total = [x + y for x, y in zip(total, added, strict=True)]
            along.append(of_amplitudes.reshape(-1))
        return Loads(Wrench(*total), jnp.concatenate(along))

    def kinetic_energy(
        self, pose: BodyPose, velocity: BodyVelocity, amplitudes: Amplitudes, rates: Amplitudes
    ) -> Float[Array, ""]:
        """Kinetic energy (J) beyond that of the undeformed bodies."""
        of_bodies = pose.rotation, *velocity
        return self._sum(deformation.kinetic_energy, of_bodies, (amplitudes, rates))

    def momentum(
        self, pose: BodyPose, velocity: BodyVelocity, amplitudes: Amplitudes, rates: Amplitudes
    ) -> tuple[Array, Array]:
        """Linear and angular momentum (3,) beyond those of the undeformed bodies."""
        return self._sum(deformation.momentum, (*pose, *velocity), (amplitudes, rates))

    def potential_energy(
        self, pose: BodyPose, gravity: Float[Array, "3"], amplitudes: Amplitudes
    ) -> Float[Array, ""]:
        """Elastic energy (J), and that of gravity beyond that of the undeformed bodies."""

        def energy(of, rotation, amplitudes):
            return deformation.potential_energy(of, rotation, gravity, amplitudes)

        return self._sum(energy, (pose.rotation,), (amplitudes,))

    def powers(
        self,
        names: tuple[str, ...],
        omega: Float[Array, "bodies 3"],
        e: Amplitudes,
        rate: Amplitudes,
    ) -> dict[str, Float[Array, ""]]:
        """Powers within the flexible bodies by their names."""
        result, split = {}, zip(*map(self.split, (e, rate)), strict=True)
        for group, part in zip(self.groups, split, strict=True):
            values = jax.vmap(deformation.power)(group.deformation, group.of_bodies(omega), *part)
            result |= {names[k]: value for k, value in zip(group.bodies, values, strict=True)}
        return result

    def by_name(self, names: tuple[str, ...], amplitudes: Array) -> dict[str, Array]:
        """Amplitudes (..., modes) of each flexible body from those of all of them."""
        bodies = [names[k] for group in self.groups for k in group.bodies]
        parts = jnp.split(amplitudes, np.cumsum(self.modes)[:-1].tolist(), axis=-1)
        return dict(zip(bodies, parts, strict=True)) if bodies else {}

    def _sum(self, function: Callable, of_bodies: tuple, of_amplitudes: tuple) -> Any:
        """Sum of function(deformation, *of_bodies, *of_amplitudes) over all flexible bodies."""
        parts = zip(*map(self.split, of_amplitudes), strict=True)
        sums = [
            jax.tree.map(
                lambda x: jnp.sum(x, axis=0),
                jax.vmap(function)(group.deformation, *map(group.of_bodies, of_bodies), *part),
            )
            for group, part in zip(self.groups, parts, strict=True)
        ]
        return jax.tree.map(lambda *x: functools.reduce(jnp.add, x), *sums)


class BodyMotions(NamedTuple):
    """Motion of all bodies: R, ω, r̈ less gravity (inertial) and ω̇, and all e, ė and ë."""

    rotation: Float[Array, "bodies 3 3"]
    omega: Float[Array, "bodies 3"]
    acceleration: Float[Array, "bodies 3"]
    angular: Float[Array, "bodies 3"]
    amplitudes: Amplitudes
    rates: Amplitudes
    growth: Amplitudes


def stack_flexible(bodies: Sequence[Body]) -> tuple[Flexibility, tuple[str, ...]]:
    """Flexibility of a mechanism's bodies, those of as many modes and interfaces together, and the
    names of the interfaces in the order of their slots.
    """
    kinds: dict[Any, list[int]] = {}
    flexible = {k: body for k, body in enumerate(bodies) if isinstance(body, FlexibleBody)}
    for number, body in flexible.items():
        leaves, structure = jax.tree.flatten(body.deformation)
        key = structure, tuple((x.shape, x.dtype) for x in leaves)
        kinds.setdefault(key, []).append(number)
    groups = [
        FlexibleGroup(stacking.stack([flexible[k].deformation for k in numbers]), tuple(numbers))
        for numbers in kinds.values()
    ]
    names = [name for group in groups for k in group.bodies for name in bodies[k].frames]
    return Flexibility(tuple(groups), len(bodies)), tuple(names)


def initial_amplitudes(
    flexibility: Flexibility, bodies: Sequence[Body]
) -> tuple[list[Array], list[Array]]:
    """Initial amplitudes of all flexible bodies in order, and their rates."""
    ordered = [bodies[k] for group in flexibility.groups for k in group.bodies]
    flexible = [body for body in ordered if isinstance(body, FlexibleBody)]
    return [b.amplitudes for b in flexible], [b.amplitude_rates for b in flexible]
