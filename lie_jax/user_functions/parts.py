"""Parts of containers, with their names."""

import dataclasses
import functools
import types
from typing import Any

import equinox as eqx


def named_parts(x: Any) -> list[tuple[str, Any]]:
    """Parts of a container, each with the suffix that makes its name from the container's."""
    if isinstance(x, eqx.Module):
        return [(f".{f.name}", getattr(x, f.name, None)) for f in dataclasses.fields(x)]
    if hasattr(x, "_fields"):
        return [(f".{field}", getattr(x, field)) for field in x._fields]
    if isinstance(x, dict | types.MappingProxyType):
        return [(f"[{key!r}]", value) for key, value in x.items()]
    if isinstance(x, list | tuple):
        return [(f"[{index}]", value) for index, value in enumerate(x)]
    if isinstance(x, functools.partial):
        return [(".func", x.func), (".args", x.args), (".keywords", x.keywords)]
    return []
