"""Interfaces and numbers of modes that a user chooses, checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lie_jax import checks


def check_number(where: str, modes: Any, frame: str, interfaces: int) -> None:
    """Raise where a number of modes is too small for these interfaces."""
    least = max(6 * (interfaces - 1) if frame == "interface" else 1, 1)
    if isinstance(modes, int | np.integer) and modes < least:
        raise ValueError(
            f"{where}: modes= is {modes}; it must be {least} at least, six for each "
            "interface but the first: raise it, or merge interfaces."
        )


def interfaces_of(where: str, interfaces: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    """Numbers of nodes of each interface."""
    if not isinstance(interfaces, Mapping) or not interfaces:
        raise ValueError(
            f"{where}: interfaces= is {interfaces!r}; it must be a dictionary of names and numbers "
            "of nodes, at least one: the body frame is held to the first."
        )
    members = {}
    for name, numbers in interfaces.items():
        checks.name(f"{where}: the name of an interface", name)
        numbers = np.asarray(numbers)
        if numbers.dtype == bool and numbers.shape == (n,):
            numbers = np.flatnonzero(numbers)
        if numbers.size < 3 or numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"{where}: interface {name!r} has {numbers.size} nodes; it must have numbers of "
                "three nodes at least: choose them by their places, as in "
                "numpy.flatnonzero(nodes[:, 0] < 1e-9)."
            )
        if numbers.min() < 0 or numbers.max() >= n:
            raise ValueError(
                f"{where}: interface {name!r} has nodes from {numbers.min()} to {numbers.max()}; "
                f"nodes are counted from 0 to {n - 1}: subtract one if the file counts from 1."
            )
        members[name] = np.unique(numbers)
    return members
