"""Motions that drivers give, and torques that motors give."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax.mechanics.signals import as_signal
from lie_jax.numerics.conversion import as_float


def started(t: Array, speed: float, duration: float) -> Float[Array, ""]:
    """Angle (rad) of a crank whose speed (rad/s) grows from rest by a half period of a cosine,
    for a `duration` (s), and stays.
    """
    growing = 0.5 * speed * (t - duration / jnp.pi * jnp.sin(jnp.pi * t / duration))
    return jnp.where(t < duration, growing, speed * (t - 0.5 * duration))


class Sine(eqx.Module):
    """The function amplitude · sin(rate · t) of the time, with a `rate` in rad/s."""

    amplitude: Float[Array, "..."] = eqx.field(converter=as_float)
    rate: Float[Array, "..."] = eqx.field(converter=as_float)

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """Value at a time (s)."""
        return self.amplitude * jnp.sin(self.rate * t)


class Along(eqx.Module):
    """A function of the time times a constant direction (3,)."""

    size: Any = eqx.field(converter=as_signal)
    direction: Float[Array, "..."] = eqx.field(converter=as_float)

    def __call__(self, t: Float[Array, ""]) -> Float[Array, "3"]:
        """Vector at a time (s)."""
        return self.size(t) * self.direction


def motor(
    parent: str, child: str, axis: Float[Array, "3"], torque: Callable
) -> tuple[lie_jax.extend.AbstractForce, lie_jax.extend.AbstractForce]:
    """Torque (N m), a function of the time (s), about the axis on the child, its opposite on the
    parent.

    The hinge's frames are parallel at the angle zero, so that both bodies see the same axis. The
    inputs of a `JointMotor` are constant over each step, which this torque is not.
    """
    return (
        lie_jax.Torque(child, Along(torque, axis), frame="body"),
        lie_jax.Torque(parent, Along(torque, -axis), frame="body"),
    )
