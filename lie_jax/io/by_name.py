"""States and inputs of an imported model by the names of its file."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.mechanism import Label, labels
from lie_jax.numerics.conversion import in_precision


def by_label(
    name: str,
    joints: Sequence[Any],
    values: Mapping[str, Any] | None,
    bodies: Sequence[Body] | None = None,
) -> dict[Label, Any]:
    """Values of joints by their labels in the mechanism.

    With the bodies of the mechanism, coordinates: less the file's zeros, and those of ball joints,
    which the file counts from its pose, from the parent.
    """
    places = labels([(joint.parent, joint.child) for joint in joints])
    named = {joint.name: (label, joint) for label, joint in zip(places, joints, strict=True)}
    orientations = {} if bodies is None else {body.name: body.orientation for body in bodies}
    placed = {}
    for key, value in ({} if values is None else values).items():
        where = f"ImportedModel.state({name}=)[{key!r}]"
        _known(where, key, named, "joint")
        label, joint = named[key]
        checks.real(where, value)
        placed[label] = value
        if bodies is not None and np.shape(value) == (4,):
            turn = in_precision(value, None)
            placed[label] = quaternion.multiply(at_zero(joint, orientations), turn)
        elif bodies is not None and joint.zero != 0.0:
            placed[label] = in_precision(value, None) - joint.zero
    return placed


def at_zero(joint: Any, orientations: Mapping[str, Array]) -> Float[Array, "4"]:
    """Turn from the child's to the parent's axes where the file's coordinates are zero.

    `orientations`: those of the bodies of the mechanism by their names.
    """
    if joint.parent not in orientations:
        return orientations[joint.child]
    back = quaternion.conjugate(orientations[joint.parent])
    return quaternion.multiply(back, orientations[joint.child])


def inputs(actuators: Sequence[Any], values: Mapping[str, Any], dtype: Any) -> Float[Array, " nu"]:
    """Inputs by names of actuators, zero for those that have no value."""
    where, names = "ImportedModel.inputs", [actuator.name for actuator in actuators]
    for key, value in values.items():
        _known(f"{where}: {key!r}", key, names, "actuator")
        checks.scalar(f"{where}: {key!r}", value, "N m or N")
        checks.finite(f"{where}: {key!r}", value)
    given = [jnp.asarray(in_precision(values.get(name, 0.0), dtype), dtype) for name in names]
    return jnp.stack(given) if given else jnp.zeros(0, dtype)


def _known(where: str, key: Any, names: Any, kind: str) -> None:
    if key not in names:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(
            f"{where} is given, which is the name of no {kind} of the file; the names are {known}: "
            "correct it."
        )
