"""Files of trajectories, mechanisms, systems and states.

A file is in the classic format of NetCDF, which most tools of science read; `xarray.open_dataset`
does so in one line. Every array is a variable, those of a trajectory along the dimension `instant`.
The attribute `tree` holds in JSON the objects that the arrays are parts of; `lie_jax_checksum` is
the SHA-256 of all bytes of the file but its own.
"""

import dataclasses
import errno
import hashlib
import importlib
import json
import math
import mmap
import operator
import os
import reprlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.io import sound
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.numerics import forks
from lie_jax.simulation.trajectory import (
    INSTANTS,
    EnumerationItem,
    Trajectory,
    flag_attributes,
    item_of,
)
from lie_jax.sweeps import unfinished

_FORMAT = 2
_UNCHECKED = 1  # The format before checksums.
# The start of the checksum's attribute: its name, then 2 for characters and how many, as the format
# has them. It is the first attribute, so that nothing before it but names of dimensions is free.
_CHECKSUM = "lie_jax_checksum"
_DIGITS = 64
_MARK = _CHECKSUM.encode() + (2).to_bytes(4) + _DIGITS.to_bytes(4)
_PACKAGE = "lie_jax"
# Types of the classic format by dtype; the tree notes the dtype itself.
_STORED = {"float32": "f4", "float64": "f8", "bool": "i1"}
_STORED |= {"int8": "i1", "int16": "i2", "int32": "i4", "int64": "i4"}
# The format has no unsigned integers; doubles hold these.
_STORED |= {"uint8": "i2", "uint16": "i4", "uint32": "f8"}
# A variable of the format may be no larger.
_LARGEST = 2**32 - 4


class _Variable(NamedTuple):
    values: np.ndarray
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]


def save(path: str | os.PathLike, what: Any) -> None:
    """Write a trajectory, mechanism, system or state, or a dictionary, list or tuple of such.

    `what`: the object; `load` returns an equal object, to the last bit. `path`: the file, usually
    `*.nc`; an existing one is replaced, at once and only when all is written, and keeps its
    permissions. Raises `ValueError` for functions, classes from outside of lie_jax, complex
    numbers, integers beyond 32 bits, masks, arrays of more than 4 GB, two names that are one when
    joined by dots, mechanisms that constructors refuse, values nested hundreds deep, and a path
    that cannot be written.
    """
    checks.path("io.save(path=)", path)
    variables: dict[str, _Variable] = {}
    try:
        text = json.dumps(_encode(what, (), variables))
    except RecursionError as error:
        raise ValueError(
            "io.save(what=) is nested too deeply, in hundreds of lists, dictionaries or objects; "
            "it must be flatter: put its parts side by side in one list."
        ) from error
    try:
        with unfinished.replacing(path) as new:
            _write(new, text, variables)
    except OSError as error:
        raise ValueError(
            f"io.save(path=) is {str(path)!r}, which cannot be written ({error.strerror}); it must "
            "be a file in a folder that exists and that you may write to: take another."
        ) from error


def load(path: str | os.PathLike) -> Any:
    """Object that `save` has written to `path`, now or in an earlier version of lie_jax.

    Arrays of JAX have the dtype that they had. Raises `FileNotFoundError`, and `ValueError` for a
    file that `save` has not written, that is damaged or of a newer version of lie_jax, for a
    mechanism that constructors refuse, and for 64 bits without `lie_jax.configure()`;
    `RuntimeError` in a forked process in which JAX would wait forever.
    """
    forks.refuse()
    checks.path("io.load(path=)", path)
    name = f"io.load(path=): {str(path)!r}"
    try:
        checked = _check_sum(path)
        version, text, values = _read(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{name} does not exist; it must be a file of lie_jax.io.save: check its name and the "
            "folder that you are in."
        ) from None
    except OSError as error:
        raise ValueError(
            f"{name} cannot be read ({error.strerror}); it must be a file that you may read: check "
            "its name and its permissions."
        ) from error
    # The reader of a damaged file raises exceptions of any class.
    except Exception as error:
        raise _damage(name, error) from error
    if version is None or text is None:
        raise ValueError(
            f"{name} is a NetCDF file that lie_jax.io.save did not write; open it with "
            "xarray.open_dataset."
        )
    if version > _FORMAT:
        raise ValueError(
            f"{name} has format {version}, and this lie_jax reads formats up to {_FORMAT}: it was "
            "saved by a newer version; install that one or a later one."
        )
    if not checked and version != _UNCHECKED:
        raise _damage(name, "its checksum is missing")
    try:
        return _decode(json.loads(text), values, name)
    # So does a tree that `save` has not written; an error that names the file has its reason.
    except Exception as error:
        if str(error).startswith(name):
            raise
        raise _damage(name, repr(error)) from error


def _write(path: Path, tree: str, variables: dict[str, _Variable]) -> None:
    from scipy.io import netcdf_file

    with netcdf_file(path, "w", version=2) as file:
        setattr(file, _CHECKSUM, "0" * _DIGITS)
        file.lie_jax_format = _FORMAT
        file.tree = tree
        for name, variable in variables.items():
            for dimension, size in zip(variable.dimensions, variable.values.shape, strict=True):
                if dimension not in file.dimensions:
                    file.createDimension(dimension, size)
            stored = file.createVariable(name, variable.values.dtype, variable.dimensions)
            stored[...] = variable.values
            for key, value in variable.attributes.items():
                setattr(stored, key, value)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        start = content.find(_MARK) + len(_MARK)
        content[start : start + _DIGITS] = _digest(content, start)


def _read(path: str | os.PathLike) -> tuple[int | None, bytes | None, dict[str, np.ndarray]]:
    """Format, tree and arrays."""
    from scipy.io import netcdf_file

    with netcdf_file(Path(path), "r", mmap=False) as file:
        version, text = getattr(file, "lie_jax_format", None), getattr(file, "tree", None)
        values = {name: variable.data for name, variable in file.variables.items()}
    return None if version is None else int(version), text, values


def _check_sum(path: str | os.PathLike) -> bool:
    """Whether a file has a checksum; raises `ValueError` for a wrong one."""
    if Path(path).is_fifo():
        raise OSError(errno.EINVAL, "it is a pipe")
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        mark = content.find(_MARK)
        start = mark + len(_MARK)
        if mark >= 0 and content[start : start + _DIGITS] != _digest(content, start):
            raise ValueError("its bytes are not those that were saved")
        return mark >= 0


def _digest(content: mmap.mmap, start: int) -> bytes:
    """SHA-256 of all but the checksum, which begins at `start`, in hexadecimal digits."""
    digest = hashlib.sha256()
    with memoryview(content) as view, view[:start] as before, view[start + _DIGITS :] as after:
        digest.update(before)
        digest.update(after)
    return digest.hexdigest().encode()


def _damage(name: str, reason: Any) -> ValueError:
    return ValueError(
        f"{name} is a damaged file, or no file of lie_jax.io.save: {reason}; every bit must be as "
        "it was saved: take a copy of the file, or compute and save anew."
    )


def _encode(x: Any, words: tuple[str, ...], variables: dict[str, _Variable]) -> Any:
    if x is None or isinstance(x, bool | int | float | str):
        return x
    if isinstance(x, type):
        return {"type": _reference(x, words)}
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return _array(x, words, variables, {})
    if isinstance(x, EnumerationItem):
        kind: Any = x._enumeration
        # The format has no lists of strings.
        flags = {k: v for k, v in flag_attributes(kind).items() if k != "messages"}
        return {"item": _reference(kind, words), "value": _array(x._value, words, variables, flags)}

    def inside(parts):
        return {key: _encode(part, (*words, str(key)), variables) for key, part in parts.items()}

    if isinstance(x, Mechanism):
        sound.check(f"io.save: {_path(words)}", x)
    if isinstance(x, eqx.Module) or hasattr(x, "_fields"):
        fields = inside({name: getattr(x, name) for name in _field_names(type(x))})
        if isinstance(x, Trajectory):
            _name_instants(words, variables)
        return {"class": _reference(type(x), words), "fields": fields}
    if isinstance(x, dict) and all(isinstance(key, str) for key in x):
        return {"dict": inside(x)}
    if type(x) in (list, tuple):
        return {type(x).__name__: list(inside(dict(enumerate(x))).values())}
    raise ValueError(
        f"io.save: {_path(words)} is {reprlib.repr(x)}; it must be made of numbers, strings, "
        "arrays, objects of lie_jax, and lists, tuples and dictionaries with strings as keys: "
        "leave it out, and build it anew after loading."
    )


def _field_names(of: type) -> list[str]:
    if issubclass(of, eqx.Module):
        return [field.name for field in dataclasses.fields(of)]
    return list(getattr(of, "_fields"))  # noqa: B009


def _path(words: tuple[str, ...]) -> str:
    return ".".join(words) or "the value"


def _reference(of: type, words: tuple[str, ...]) -> str:
    module = of.__module__
    if module.split(".")[0] != _PACKAGE:
        raise ValueError(
            f"io.save: {_path(words)} is a {of.__name__} from {module}; only classes of lie_jax "
            "can be loaded again: save its parameters, and build it anew after loading."
        )
    return f"{module}:{of.__qualname__}"


def _array(
    x: Any, words: tuple[str, ...], variables: dict[str, _Variable], attributes: dict[str, Any]
) -> dict[str, Any]:
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(
            f"io.save: {_path(words)} has a mask, which the format does not have; it must be a "
            "plain array: take .filled(np.nan), or save .data and .mask."
        )
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        raise ValueError(
            f"io.save: {_path(words)} is a key of jax.random.key; it must be made of numbers: "
            "take jax.random.PRNGKey in its place, which draws the same."
        )
    values = np.asarray(x)
    # The format fills up names with zero bytes, and so cuts those at an end.
    name = ".".join(words).replace("\0", r"\0") or "value"
    dtype = str(values.dtype)
    if dtype not in _STORED:
        raise ValueError(
            f"io.save: {_path(words)} has dtype {dtype}; it must be float32, float64, "
            "bool or an integer type but uint64: convert it, for example by .astype(float)."
        )
    if values.nbytes > _LARGEST:
        raise ValueError(
            f"io.save: {_path(words)} takes {values.nbytes / 1e9:.3g} GB; an array must take at "
            f"most {_LARGEST / 1e9:.3g} GB: save fewer instants."
        )
    stored = values.astype(_STORED[dtype], copy=False)
    if dtype == "int64" and not np.array_equal(stored, values):
        raise ValueError(
            f"io.save: {_path(words)} holds integers beyond 32 bits, which the format does "
            "not have: convert it to float64."
        )
    if any(ord(letter) > 0xFF for letter in name):
        raise ValueError(
            f"io.save: the array {name!r} cannot be named in the format; keys must be made of "
            "letters of Latin-1, which has no Greek: rename it."
        )
    if name in variables:
        raise ValueError(
            f"io.save: two arrays are named {name!r}, by keys joined with dots; names must differ: "
            "rename one of them."
        )
    # The format has no dimension of size zero.
    if values.size:
        dimensions = tuple(f"{name}_{axis}" for axis in range(values.ndim))
        variables[name] = _Variable(stored, dimensions, attributes)
    is_jax = isinstance(x, jax.Array)
    return {"array": name, "dtype": dtype, "shape": list(values.shape), "jax": is_jax}


def _name_instants(words: tuple[str, ...], variables: dict[str, _Variable]) -> None:
    """Give the arrays of a trajectory, and the values that it saved, their common dimensions."""
    saved = (*words, "saved")
    # An array without numbers is no variable.
    rows = {".".join((*words, field)): words for field in INSTANTS}
    rows |= {name: saved for name in variables if name.startswith(".".join((*saved, "")))}
    for name in rows.keys() & variables.keys():
        dimensions = (".".join((*rows[name], "instant")), *variables[name].dimensions[1:])
        variables[name] = variables[name]._replace(dimensions=dimensions)


def _decode(x: Any, values: dict[str, np.ndarray], path: str) -> Any:
    if not isinstance(x, dict):
        return x
    if "array" in x:
        return _load_array(x, values, path)
    if "type" in x:
        return _class(x["type"], path)
    if "item" in x:
        return item_of(_class(x["item"], path), _decode(x["value"], values, path))
    if "class" in x:
        fields = {name: _decode(part, values, path) for name, part in x["fields"].items()}
        return _build(_class(x["class"], path), fields, path)
    if "dict" in x:
        return {name: _decode(part, values, path) for name, part in x["dict"].items()}
    ((word, parts),) = x.items()
    return (list if word == "list" else tuple)(_decode(part, values, path) for part in parts)


def _load_array(x: dict[str, Any], values: dict[str, np.ndarray], path: str) -> Any:
    if x["dtype"] not in _STORED:
        raise _damage(path, f"{x['array']!r} has dtype {reprlib.repr(x['dtype'])}")
    dtype, shape = np.dtype(x["dtype"]), tuple(x["shape"])
    stored = values[x["array"]] if math.prod(shape) else np.zeros(0)
    if stored.size != math.prod(shape):
        raise _damage(path, f"{x['array']!r} has {stored.size} numbers for the shape {shape}")
    numbers = stored.reshape(shape).astype(dtype)
    if not x["jax"]:
        return numbers
    array = jnp.asarray(numbers)
    if array.dtype != dtype:
        raise ValueError(
            f"{path} holds {dtype} in {x['array']!r}, which JAX would round to {array.dtype}: call "
            "lie_jax.configure() first."
        )
    return array


def _class(reference: str, path: str) -> type:
    module, _, name = reference.partition(":")
    in_package = module.split(".")[0] == _PACKAGE
    if in_package and (loaded := _class_in(module, name)):
        return loaded
    # Classes move from module to module between versions: the name alone decides then, if only one
    # class has it.
    modules = [m for m in sys.modules if m.startswith(f"{_PACKAGE}.")] if in_package else []
    namesakes = {_class_in(m, name) for m in modules} - {None}
    if len(namesakes) == 1:
        return namesakes.pop()
    raise ValueError(
        f"{path} holds a {reference!r}, which this version of lie_jax does not have: load it "
        "with the version that saved it."
    )


def _class_in(module: str, name: str) -> Any:
    """Class that a module defines under a name; None if there is none."""
    try:
        value = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return value if isinstance(value, type) and value.__module__ == module else None


def _build(of: type, fields: dict[str, Any], path: str) -> Any:
    names, is_module = _field_names(of), issubclass(of, eqx.Module)
    if is_module:
        # Fields that the version of the file did not have yet.
        defaults = {f.name: f.default for f in dataclasses.fields(of)}
        fields = {k: v for k, v in defaults.items() if v is not dataclasses.MISSING} | fields
    if set(names) != set(fields):
        raise ValueError(
            f"{path} holds a {of.__name__} with the fields {sorted(fields)}, and this version of "
            f"lie_jax has {sorted(names)}: load it with the version that saved it."
        )
    if not is_module:
        return of(**fields)
    # Its own constructor may convert and so round.
    instance = object.__new__(of)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    if isinstance(instance, Mechanism):
        sound.check(path, instance)
    return instance
