"""Frames at the interfaces of a flexible body: where joints, forces and other parts attach.

An interface at the point p of the undeformed body has its frame at r + R (p + Φ e), turned by
R cay(Θ e / 2), with the modes' shifts Φ and turns Θ there. Turns are known to first order, to which
all maps are one: Cayley's needs neither series nor branches, a third of the code of exp.
Hybrid components as in `body`.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.groups import so3
from lie_jax.mechanics.body import Matrix, Vector
from lie_jax.mechanics.flexible.deformation import Amplitudes
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench
from lie_jax.numerics import small

# Columns for hybrid velocities of the body (6), then for rates of amplitudes (m).
Columns = Float[Array, "6 columns"]


class Interface(eqx.Module):
    """Point (3,), shifts Φ (3, m) and turns Θ (3, m) of an interface."""

    point: Float[Array, "..."]
    shifts: Float[Array, "..."]
    turns: Float[Array, "..."]


class _Bending(NamedTuple):
    """Place (3,) of an interface in its body, its rotation there, and the differential of that."""

    arm: Vector
    rotation: Matrix
    differential: Matrix


def _bending(at: Interface, amplitudes: Amplitudes) -> _Bending:
    # All functions below use the same two matrices, or their transposes, which XLA computes once.
    half = 0.5 * small.matvec(at.turns, amplitudes)
    arm = at.point + small.matvec(at.shifts, amplitudes)
    return _Bending(arm, so3.cay(half), 0.5 * so3.dcay(half))


def pose(at: Interface, body: BodyPose, amplitudes: Amplitudes) -> BodyPose:
    """Frame of an interface."""
    bending = _bending(at, amplitudes)
    return BodyPose(
        small.matmul(body.rotation, bending.rotation),
        body.position + small.matvec(body.rotation, bending.arm),
    )


def velocity(
    at: Interface, body: BodyPose, moving: BodyVelocity, amplitudes: Amplitudes, rates: Amplitudes
) -> BodyVelocity:
    """Velocity (inertial) and angular velocity (own axes) of the frame of an interface."""
    bending = _bending(at, amplitudes)
    moved = small.cross(moving.omega_body, bending.arm) + small.matvec(at.shifts, rates)
    turning = small.matvec(bending.differential.T, small.matvec(at.turns, rates))
    omega = small.matvec(bending.rotation.T, moving.omega_body) + turning
    return BodyVelocity(moving.linear + small.matvec(body.rotation, moved), omega)


def _omega(turn: Vector, omega: Vector, rate: Vector) -> Vector:
    """Angular velocity, in its own axes, of a frame turned in a body with ω."""
    half = 0.5 * turn
    turning = small.matvec(0.5 * so3.dcay(-half), rate)
    return small.matvec(so3.cay(-half), omega) + turning


def columns(at: Interface, body: BodyPose, amplitudes: Amplitudes) -> Columns:
    """Velocity of an interface's frame (6,) for unit velocities of the body and of amplitudes."""
    arm, rotation, differential = _bending(at, amplitudes)
    none = jnp.zeros((3, 3), arm.dtype)
    linear = [
        jnp.eye(3, dtype=arm.dtype),
        -small.matmul(body.rotation, small.hat(arm)),
        small.matmul(body.rotation, at.shifts),
    ]
    angular = [none, rotation.T, small.matmul(differential.T, at.turns)]
    return jnp.concatenate([jnp.concatenate(x, axis=1) for x in (linear, angular)])


def relative_columns(at: Interface, amplitudes: Amplitudes) -> Columns:
    """Motion of an interface's frame in its body for unit rates of amplitudes (6, m), body axes:
    the velocity of the point of the frame that is at the body's origin, and angular velocity.
    """
    arm, rotation, differential = _bending(at, amplitudes)
    angular = small.matmul(rotation, small.matmul(differential.T, at.turns))
    return jnp.concatenate([at.shifts + small.matmul(small.hat(arm), angular), angular])


def change_of_velocity(
    at: Interface, body: BodyPose, moving: BodyVelocity, amplitudes: Amplitudes, rates: Amplitudes
) -> Columns:
    """Derivatives of `velocity` along hybrid velocities and rates, which stay constant."""
    arm = at.point + small.matvec(at.shifts, amplitudes)
    bend = small.cross(moving.omega_body, arm) + small.matvec(at.shifts, rates)
    turn, rate = small.matvec(at.turns, amplitudes), small.matvec(at.turns, rates)
    by_turn = jax.jacfwd(_omega)(turn, moving.omega_body, rate)
    none = jnp.zeros((3, 3), arm.dtype)
    shifted = small.matmul(small.hat(moving.omega_body), at.shifts)
    linear = [
        none,
        -small.matmul(body.rotation, small.hat(bend)),
        small.matmul(body.rotation, shifted),
    ]
    angular = [none, none, small.matmul(by_turn, at.turns)]
    return jnp.concatenate([jnp.concatenate(x, axis=1) for x in (linear, angular)])


class PullBack(NamedTuple):
    """Wrench on a body, and forces along its amplitudes (m,)."""

    wrench: Wrench
    along: Amplitudes


def pull_back(at: Interface, body: BodyPose, amplitudes: Amplitudes, wrench: Wrench) -> PullBack:
    """Wrench on an interface, pulled back to body and amplitudes: transpose of `columns`."""
    arm, rotation, differential = _bending(at, amplitudes)
    force = small.matvec(body.rotation.T, wrench.force)
    torque = small.cross(arm, force) + small.matvec(rotation, wrench.torque)
    bend = small.matvec(differential, wrench.torque)
    along = small.matvec(at.shifts.T, force) + small.matvec(at.turns.T, bend)
    return PullBack(Wrench(wrench.force, torque), along)


def pull_back_change(
    at: Interface, body: BodyPose, amplitudes: Amplitudes, wrench: Wrench
) -> Float[Array, "n n"]:
    """Derivatives (6 + m, 6 + m) of `pull_back` along hybrid velocities and rates; the wrench is
    constant.
    """
    arm = at.point + small.matvec(at.shifts, amplitudes)
    turn = small.matvec(at.turns, amplitudes)
    force = small.hat(small.matvec(body.rotation.T, wrench.force))

    def of_torque(turn: Vector) -> tuple[Array, Array]:
        half = 0.5 * turn
        turned = small.matvec(so3.cay(half), wrench.torque)
        return turned, small.matvec(0.5 * so3.dcay(half), wrench.torque)

    turned, bent = jax.jacfwd(of_torque)(turn)
    size, shifts = amplitudes.size, at.shifts
    by_turn = jnp.concatenate(
        [
            jnp.zeros((3, 3), arm.dtype),
            small.matmul(small.hat(arm), force),
            small.matmul(shifts.T, force),
        ]
    )
    by_amplitudes = jnp.concatenate(
        [
            jnp.zeros((3, size), arm.dtype),
            small.matmul(turned, at.turns) - small.matmul(force, shifts),
            small.matmul(at.turns.T, small.matmul(bent, at.turns)),
        ]
    )
    return jnp.concatenate([jnp.zeros((6 + size, 3), arm.dtype), by_turn, by_amplitudes], axis=1)
