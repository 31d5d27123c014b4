"""Plastic impacts: the velocities with which a joint begins to hold."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.systems.index1 import smallest_change
from lie_jax.user_functions import snapshots


class Impact(eqx.Module):
    """Change of the state by which a joint begins to hold; made by `lie_jax.impact`.

    A function of (t, q, v), as `lie_jax.Event` calls it, or of (q, v), which returns (q, v); `t`
    is the time (s) of drivers, zero without.
    """

    system: AbstractMultibodySystem
    joint: Label = eqx.field(static=True)

    def __call__(self, *instant: Any) -> tuple[Float[Array, " nq"], Float[Array, " nv"]]:
        """State (q, v) after the impact at (t, q, v), or at (q, v)."""
        if len(instant) not in (2, 3):
            raise ValueError(
                f"an impact is called with {len(instant)} values; it must be called with (t, q, v) "
                "or with (q, v)."
            )
        *time, q, v = instant
        t = jnp.asarray(time[0] if time else 0.0, q.dtype)
        rates = self.system.constraint_rate(t, q, v)
        return q, v + smallest_change(self.system, t, q, -rates)


def impact(system: AbstractMultibodySystem, joint: Label | AbstractJoint) -> Impact:
    """Plastic impact by which a joint begins to hold, as a function of (t, q, v) or (q, v).

    Impulses act along the constraints of the system, so that their rates vanish after it: those of
    the joint, and those by which all others hold on. Velocities change least in the norm of the
    kinetic energy, and positions not at all: the joint must fit where it begins to hold. What has
    no impulse is conserved, as the angular momentum about a foot that strikes the ground. The
    function is the `action` of a `lie_jax.Event`, or a part of the `symmetry` of
    `lie_jax.periodic_orbit`. Differentiable.

    **Arguments:** `system`: the one after the impact, whose constraints hold the joint; states
    before it must have the same coordinates, as those of the same bodies without the joint, or with
    another one in its place, have in absolute coordinates. In `lie_jax.Minimal()` a joint is a
    constraint if it closes a loop, or is in `cut=`. `joint`: its name, without one the pair
    (parent, child), or the joint itself.

    Raises `ValueError` for a joint that is no constraint of the system.
    """
    if not isinstance(system, AbstractMultibodySystem):
        raise ValueError(
            f"impact(system=) is a {type(system).__name__}; it must be a mechanism's system, as "
            "lie_jax.assemble returns it beside the state: unpack the pair."
        )
    label = joint
    if isinstance(label, AbstractJoint):
        label = (label.parent, label.child) if label.name is None else label.name
    known = system.constraint_labels
    if label not in known:
        raise ValueError(
            f"impact(joint=) is {joint!r}, which is no joint that the system has as a constraint; "
            f"those are {', '.join(map(repr, known)) or 'none'}: assemble the system after the "
            "impact, with the joint in it, in absolute coordinates, such as lie_jax.R3SO3(), or "
            "with the joint's label in lie_jax.Minimal(cut=)."
        )
    return Impact(snapshots.freeze(system), label)
