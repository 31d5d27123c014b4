"""States from coordinates of joints by name."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import jax.numpy as jnp

from lie_jax import checks
from lie_jax.mechanics.mechanism import Label
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics.conversion import in_precision
from lie_jax.systems.system import State


def joint_state(
    system: AbstractMultibodySystem,
    state: State,
    positions: Mapping[Label, Any] | None = None,
    velocities: Mapping[Label, Any] | None = None,
) -> State:
    """The state with other coordinates and velocities of some joints.

    **Arguments:** `system`: a mechanism in `lie_jax.Minimal()`; `positions`, `velocities`: values
    by the labels of joints, their name or `(parent, child)` or `(parent, child, 2)` as in
    `joint_coordinates`: angles (rad) and distances (m), or their rates, in the joint's order, one
    number or (k,). Free rotations of a ball joint are a unit quaternion (4,) and an angular
    velocity (3,).

    Raises `ValueError` for other formulations, for labels of no joint and for joints that close a
    loop, and for values of other shapes.
    """
    if not isinstance(system, TreeSystem):
        raise ValueError(
            f"joint_state(system=) is a {type(system).__name__}; coordinates of joints are those "
            "of a mechanism in joint coordinates: lie_jax.assemble(mechanism, lie_jax.Minimal())."
        )
    q = _replace_coordinates("positions", system, system.coordinates, state.q, positions)
    return State(
        q, _replace_coordinates("velocities", system, system.velocities, state.v, velocities)
    )


def _replace_coordinates(name: str, system: TreeSystem, layout: Any, flat: Any, values: Any) -> Any:
    starts = list(accumulate(layout.by_motion, initial=layout.base))
    for label, value in ({} if values is None else values).items():
        where = f"joint_state({name}=)[{label!r}]"
        if label not in system.labels:
            known = ", ".join(map(repr, system.labels))
            raise ValueError(
                f"{where} is given, which is the label of no joint with coordinates; the labels "
                f"are {known}: correct it."
            )
        owner = system.labels.index(label)
        motions = [i for i, joint in enumerate(system.owners) if joint == owner]
        first, last = starts[motions[0]], starts[motions[-1] + 1]
        checks.real(where, value)
        numbers = jnp.atleast_1d(in_precision(value, flat.dtype)).astype(flat.dtype)
        checks.shape(where, numbers, (last - first,), f"those of {system.titles[owner]}")
        checks.finite(where, numbers)
        if name == "positions" and layout.by_motion[motions[-1]] == 4:
            checks.unit_quaternion(f"the quaternion in {where}", numbers[-4:])
        flat = jnp.concatenate([flat[:first], numbers, flat[last:]])
    return flat
