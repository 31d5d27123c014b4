"""States and inputs of an imported model by the names of its file."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.mechanism import Label
from lie_jax.numerics.conversion import in_precision

T = TypeVar("T")


class Named(dict[str, T]):
    """Parts of a file of one `kind` by name; the error for another name lists the names."""

    def __init__(self, kind: str, parts: Mapping[str, T] | Iterable[tuple[str, T]] = ()):
        super().__init__(parts)
        self.kind = kind

    def __missing__(self, key: Any) -> T:
        raise KeyError(f"{key!r} is the name of no {self.kind} of the file; {_names(key, self)}")


# Like a dict, in the order of the names.
jax.tree_util.register_pytree_with_keys(
    Named,
    lambda named: (
        [(jax.tree_util.DictKey(name), named[name]) for name in sorted(named)],
        (named.kind, tuple(sorted(named))),
    ),
    lambda static, parts: Named(static[0], zip(static[1], parts, strict=True)),
)

# Names in a message.
_MOST = 20


def _names(key: Any, names: Iterable[str]) -> str:
    """Names that a key may mean, and the names that there are."""
    names = list(names)
    known = ", ".join(map(repr, names[:_MOST])) or "none"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    close = difflib.get_close_matches(str(key), names, cutoff=0.5)
    guess = f"perhaps {' or '.join(map(repr, close))} is meant; " if close else ""
    return f"{guess}the names are {known}{more}: correct it."


def by_label(
    name: str,
    joints: Sequence[Any],
    values: Mapping[str, Any] | None,
    bodies: Sequence[Body] | None = None,
) -> dict[Label, Any]:
    """Values of joints, which the mechanism calls by the file's names.

    With the bodies of the mechanism, coordinates: less the file's zeros, and those of ball joints,
    which the file counts from its pose, from the parent.
    """
    named = {joint.name: joint for joint in joints}
    orientations = {} if bodies is None else {body.name: body.orientation for body in bodies}
    placed = {}
    for key, value in ({} if values is None else values).items():
        where = f"ImportedModel.state({name}=)[{key!r}]"
        _require_known(where, key, named, "joint")
        joint = named[key]
        checks.real(where, value)
        placed[key] = value
        if bodies is not None and np.shape(value) == (4,):
            turn = in_precision(value, None)
            placed[key] = quaternion.multiply(at_zero(joint, orientations), turn)
        elif bodies is not None and joint.zero != 0.0:
            placed[key] = in_precision(value, None) - joint.zero
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
        _require_known(f"{where}: {key!r}", key, names, "actuator")
        checks.scalar(f"{where}: {key!r}", value, "N m or N")
        checks.finite(f"{where}: {key!r}", value)
    given = [jnp.asarray(in_precision(values.get(name, 0.0), dtype), dtype) for name in names]
    return jnp.stack(given) if given else jnp.zeros(0, dtype)


def _require_known(where: str, key: Any, names: Any, kind: str) -> None:
    if key not in names:
        raise ValueError(
            f"{where} is given, which is the name of no {kind} of the file; {_names(key, names)}"
        )
