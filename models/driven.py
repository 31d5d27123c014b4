"""Motions that drivers give."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def started(t: Array, speed: float, duration: float) -> Float[Array, ""]:
    """Angle (rad) of a crank whose speed (rad/s) grows from rest by a half period of a cosine,
    for a `duration` (s), and stays.
    """
    growing = 0.5 * speed * (t - duration / jnp.pi * jnp.sin(jnp.pi * t / duration))
    return jnp.where(t < duration, growing, speed * (t - 0.5 * duration))
