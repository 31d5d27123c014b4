"""Checksums of all parts of an object, to find the part in which another object differs."""

import reprlib
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lie_jax.numerics import conversion, jax_internals
from lie_jax.user_functions import snapshots
from lie_jax.user_functions.parts import named_parts

# Checksum of a part that JAX traces, whose value is unknown: it equals every checksum.
UNKNOWN = 0
# Numbers of an array in a message: those of a matrix (3, 3), not the weights of a network.
_FEW = 9


def checksums(**objects: Any) -> np.ndarray:
    """Checksums (parts,) int32 of the named objects, part by part.

    Arrays, numbers and words count with all their bits, functions with their names only: code
    cannot be compared from process to process.
    """
    return np.asarray([checksum for _, _, checksum in _parts_of(objects)], np.int32)


def difference(earlier: np.ndarray, **objects: Any) -> tuple[str, str] | None:
    """Name and value of the first part that differs from the objects of earlier checksums."""
    parts = list(_parts_of(objects))
    for (name, value, now), then in zip(parts, earlier.tolist(), strict=False):
        if UNKNOWN not in (now, then) and now != then:
            return name, _text(value)
    return None


def _text(value: Any) -> str:
    """Numbers of an array if they are few, else its dtype and shape; other values shortened."""
    if not isinstance(value, jax.Array | np.ndarray):
        return reprlib.repr(value)
    array = conversion.as_numpy(value)
    if array.size <= _FEW:
        return np.array2string(array)
    return f"an array of {array.dtype} of shape {array.shape}"


def _parts_of(objects: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    for name, x in objects.items():
        yield from _parts(name, x)


def _parts(name: str, x: Any) -> Iterator[tuple[str, Any, int]]:
    """Parts with their checksums: of a container first its type and names, then its content."""
    x = x.target if isinstance(x, snapshots.Function) else x
    if jax_internals.is_traced(x):
        yield name, x, UNKNOWN
    elif isinstance(x, jax.Array | np.ndarray | np.generic):
        values = conversion.as_numpy(x)
        start = _checksum(f"{x.dtype}{values.shape}".encode())
        yield name, x, _checksum(values.tobytes(), start)
    elif _plain(x):
        yield name, x, _checksum(repr(x).encode())
    else:
        content = named_parts(x)
        # A module of Equinox with a field at its class's default has no word there.
        is_named = callable(x) and isinstance(getattr(x, "__qualname__", None), str)
        named = x if is_named else type(x)
        words = [str(named.__module__), named.__qualname__, *(suffix for suffix, _ in content)]
        yield name, named.__qualname__, _checksum(" ".join(words).encode())
        for suffix, part in content:
            yield from _parts(name + suffix, part)


def _plain(x: Any) -> bool:
    """Whether the value is made of numbers and words only, so that its `repr` is complete."""
    if type(x) in (list, tuple):
        return all(map(_plain, x))
    return x is None or isinstance(x, bool | int | float | complex | str)


def _checksum(content: bytes, start: int = 0) -> int:
    # Signed, for file formats without unsigned integers; never `UNKNOWN`.
    checksum = zlib.crc32(content, start & 0xFFFFFFFF)
    return (checksum if checksum < 2**31 else checksum - 2**32) or 1
