"""Interfaces and modes that a user chooses, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lie_jax import checks
from lie_jax.mechanics.flexible import pieces
from lie_jax.mechanics.flexible.meshes import SolidMesh, enumeration
from lie_jax.numerics import conversion

Array = np.ndarray


def check_modes(where: str, modes: Any, frame: str, members: Mapping[str, Array], n: int) -> None:
    """Raise for what is no number of modes or modes of n nodes, and for interfaces that leave a
    number of modes nothing to deform.
    """
    if checks.has_tracers(modes):
        raise ValueError(f"{where}: modes= is traced by JAX; it must be known: give an integer.")
    if isinstance(modes, bool) or not isinstance(modes, int | np.integer):
        shape = conversion.real_shape(modes) or ()
        if shape[:-1] not in ((n, 3), (3 * n,)) or 0 in shape:
            given = f"has the shape {shape}" if shape else f"is {modes!r}"
            raise ValueError(
                f"{where}: modes= {given}; it must be an integer, or ({n}, 3, m) displacements of "
                "the nodes by modes of your own."
            )
        checks.finite(f"{where}: modes=", modes)
        return
    least = max(6 * (len(members) - 1) if frame == "interface" else 1, 1)
    if modes < least:
        raise ValueError(
            f"{where}: modes= is {modes}; it must be {least} at least, six for each "
            "interface but the first: raise it, or merge interfaces."
        )
    if frame == "interface":
        _check_apart(where, members, n)


def _check_apart(where: str, members: Mapping[str, Array], n: int) -> None:
    """Raise where two rigid interfaces have a node together, or one of them has all nodes."""
    owners: dict[int, str] = {}
    for name, numbers in members.items():
        if len(numbers) == n:
            raise ValueError(
                f"{where}: interface {name!r} has all {n} nodes, which leaves nothing to deform: "
                "take fewer, or a lie_jax.Body."
            )
        shared = [int(k) for k in numbers if int(k) in owners]
        if shared:
            raise ValueError(
                f"{where}: interfaces {owners[shared[0]]!r} and {name!r} share "
                f"{enumeration('node', np.array(shared))}; each interface moves as one, so that "
                "these two would be one: take these nodes out of one of them, merge both, or take "
                "frame='free', which leaves interfaces elastic."
            )
        owners |= dict.fromkeys(numbers.tolist(), name)


def check_one_piece(
    where: str, n: int, groups: Sequence[Array], members: Mapping[str, Array], frame: str
) -> None:
    """Raise unless groups (k, s) of nodes, and interfaces that are rigid, join all of n nodes."""
    rigid = [numbers[None] for numbers in members.values()] if frame == "interface" else []
    pieces.check_one_piece(where, n, [*groups, *rigid])


def interfaces_of(
    where: str, interfaces: Any, nodes: Array, solid: SolidMesh | None = None
) -> dict[str, Array]:
    """Numbers of nodes of each interface, from numbers, truth values or functions of the places of
    nodes (n, 3); of a mesh from names of its sets, too.
    """
    if not isinstance(interfaces, Mapping) or not interfaces:
        raise ValueError(
            f"{where}: interfaces= is {interfaces!r}; it must be a dictionary of names and numbers "
            "of nodes, at least one: the body frame is held to the first."
        )
    members = {}
    for name, chosen in interfaces.items():
        checks.name(f"{where}: the name of an interface", name)
        numbers = np.unique(_numbers(where, name, chosen, nodes, solid))
        if numbers.size < 3:
            raise ValueError(
                f"{where}: interface {name!r} has {numbers.size} nodes; it must have numbers of "
                "three nodes at least: choose them by their places, as in lambda x: x[:, 0] < 1e-9."
            )
        members[name] = numbers if solid is None else solid.fill(numbers)
    return members


def _numbers(where: str, name: str, chosen: Any, nodes: Array, solid: SolidMesh | None) -> Array:
    if isinstance(chosen, str):
        sets = {} if solid is None else solid.sets
        if chosen not in sets:
            source = "of which matrices have none" if solid is None else "which mesh= has not"
            known = ", ".join(map(repr, sets)) or "none"
            raise ValueError(
                f"{where}: interface {name!r} is the set {chosen!r}, {source}; its "
                f"sets are {known}: give one of these, numbers of nodes, or a function of "
                "their places (n, 3)."
            )
        return sets[chosen]
    if callable(chosen):
        inside = np.asarray(chosen(nodes))
        if inside.shape != (len(nodes),) or inside.dtype != bool:
            raise ValueError(
                f"{where}: the function of interface {name!r} returns {inside.dtype} of the "
                f"shape {inside.shape}; it must be a truth value for each node, bool of the "
                f"shape ({len(nodes)},), of places (n, 3): lambda x: x[:, 0] < 1e-9."
            )
        return np.flatnonzero(inside)
    numbers = np.asarray(chosen)
    count = len(nodes) if solid is None else solid.first_added
    if numbers.dtype == bool and numbers.shape in ((count,), (len(nodes),)):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
        raise ValueError(
            f"{where}: interface {name!r} has {numbers.dtype} of the shape {numbers.shape}; it "
            f"must be numbers of nodes, integers (k,), a truth value for each of {count} nodes, or "
            "a function of places: lambda x: x[:, 0] < 1e-9."
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise ValueError(
            f"{where}: interface {name!r} has nodes from {numbers.min()} to {numbers.max()}; "
            f"nodes are counted from 0 to {count - 1}: subtract one if the file counts from 1."
        )
    return numbers.astype(int)
