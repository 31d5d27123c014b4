"""Limits of a system's model that a run checks, and names of forces and joints for messages."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Time = float | Float[Array, ""]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]


class Validity(eqx.Module):
    """Where the model of a `system` holds; here everywhere.

    A system of one's own with limits returns a subclass as its `validity`.
    """

    system: Any

    def regular(self, q: Configuration) -> Bool[Array, ""]:
        """Whether q is away from the singularities of the coordinates, if they have any."""
        return jnp.ones((), bool)

    def leaves_range(self, t: Time, q: Configuration, v: Velocity) -> Bool[Array, " laws"]:
        """True for each law that describes no motion from the recalled instant to this one."""
        return jnp.zeros(0, bool)

    def branch_signs(self, t: Time, q: Configuration) -> Float[Array, " joints"]:
        """Numbers of joints whose signs no continuous motion changes; positive where they hold."""
        return jnp.zeros(0, q.dtype)

    def invalid_start(self, t: Time, q: Configuration, v: Velocity) -> str | None:
        """Sentence on a law that does not describe this instant, or None."""
        return None

    def doubts(self, q: Float[Array, "instants nq"], v: Float[Array, "instants nv"]) -> list[str]:
        """Sentences on what the model leaves out of a run that ends well, with these saved rows."""
        return []

    def singular(self, t: Time, q: Configuration) -> str | None:
        """Sentence on a singular part of the equations of motion at q, or None."""
        return None

    def force_name(self, number: int) -> str:
        """Force with that number among those of `leaves_range`, in words."""
        return f"force {number}"

    def joint_name(self, number: int) -> str:
        """Joint with that number among those of `branch_signs`, in words."""
        return f"joint {number}"
