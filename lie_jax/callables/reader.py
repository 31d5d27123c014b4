"""Hashable copies of everything that a function reads: code, globals, closures, objects."""

import collections.abc
import contextvars
import dis
import functools
import hashlib
import io
import logging
import random
import sys
import threading
import types
import weakref
from collections.abc import Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.callables import libraries
from lie_jax.numerics import jax_internals


class Unreadable(ValueError):
    """A function reads a value whose changes cannot be detected."""


class Snapshot:
    """Code of a function with the values that it read; equal for equal code and values."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Hashable):
        self.key, self._hash = key, hash(key)

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Snapshot) and self._hash == other._hash and self.key == other.key
        )

    def __hash__(self):
        return self._hash


def name_of(function: Any) -> str:
    """Name of a function or of an object's class, for messages."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


_seen: "weakref.WeakKeyDictionary[Any, Snapshot]" = weakref.WeakKeyDictionary()


def refuse_change(static: Any, now: Snapshot) -> None:
    """Raise `ValueError` if code that JAX knows by identity has another snapshot than before."""
    if _seen.setdefault(static, now) != now:
        # A call with the old values is right again; one with new values was never compiled.
        raise ValueError(
            f"{name_of(static)} reads values that have changed since it was compiled; they must "
            "stay: pass what changes as an argument, a field of the module, or an argument of "
            "jax.tree_util.Partial."
        )


class _Same:
    """Reference to an object, equal to references to the same object only."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, _Same) and self.x is other.x

    def __hash__(self):
        return id(self.x)


_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis))
_BASES = (bool, int, str, bytes, float, complex, tuple, list, dict, set, frozenset, np.ndarray)
_UNREADABLE = (
    collections.abc.Iterator,
    io.IOBase,
    random.Random,
    contextvars.ContextVar,
    memoryview,
    np.random.Generator,
    np.random.RandomState,
)
# The content of these has no part in the result of a function.
_CONSTANT = (logging.Logger, type(threading.Lock()), type(threading.RLock()))
# Modules whose functions return another value in each call.
_DRAWING = ("random", "time", "datetime", "secrets", "numpy.random")
_DESCRIPTORS = (property, types.MemberDescriptorType, types.GetSetDescriptorType)


def _has_value(x: Any) -> bool:
    """Whether the object equals others of the same value, which cannot change."""
    if type(x).__hash__ in (object.__hash__, None):
        return False
    try:
        hash(x)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Globals that code reads, modules that it imports, all its names (attributes included), and
    the globals of which it reads an attribute `random`.
    """
    read, imported, names, drawing, last = set(), set(), set(code.co_names), set(), ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(instruction.argval)
            last = instruction.argval
            continue
        if instruction.opname == "IMPORT_NAME":
            imported.add(instruction.argval)
        elif instruction.argval == "random" and last:
            drawing.add(last)
        last = ""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            for mine, theirs in zip((read, imported, names, drawing), inner, strict=True):
                mine.update(theirs)
    return tuple(tuple(sorted(part)) for part in (read, imported, names, drawing))


class Reader:
    """Copies values into hashable ones, each object once.

    `name` is the function's, for messages. An object of the class `wrapper` is read as its
    attribute `function`. Raises `Unreadable` for a value whose changes cannot be detected.
    """

    def __init__(self, name: str, wrapper: type):
        self.name, self.wrapper = name, wrapper
        self.numbers, self.kept = {}, []
        # All names in the code met so far: the attributes that it may read of a module.
        self.names: set[str] = set()

    def read(self, x: Any, where: str = "") -> Hashable:
        """Hashable copy of a value, found at `where`."""
        cls, value = type(x), self._value(x, where)
        if cls in _BASES or not isinstance(x, _BASES) or libraries.holds_class(cls):
            return value
        # A user's class derived from a number, a container or an array has attributes as well.
        attributes = self.read(getattr(x, "__dict__", {}), f"{where}.__dict__")
        return value, self.read(cls, where), attributes

    def _value(self, x: Any, where: str) -> Hashable:
        if isinstance(x, _PLAIN):
            return type(x), x
        if isinstance(x, float | complex) and not isinstance(x, np.generic):
            # By digits: NaN does not equal itself, and -0.0 equals 0.0.
            return type(x), repr(x)
        if jax_internals.is_traced(x):
            return _Same(x)
        if isinstance(x, jax.Array | np.ndarray | np.generic):
            return self._array(x, where)
        if isinstance(x, types.ModuleType):
            return self._module(x, where)
        if id(x) in self.numbers:
            return "again", self.numbers[id(x)]
        self._number(x)
        if isinstance(x, tuple | list):
            return type(x), tuple(self.read(item, f"{where}[{i}]") for i, item in enumerate(x))
        if isinstance(x, dict | types.MappingProxyType):
            items = ((self.read(k, where), self.read(v, f"{where}[{k!r}]")) for k, v in x.items())
            return type(x), tuple(items)
        if isinstance(x, set | frozenset):
            return type(x), frozenset(self.read(item, where) for item in x)
        if isinstance(x, type):
            return self._class(x, where)
        return self._callable(x, where)

    def _number(self, x: Any) -> int:
        # The reader keeps the object alive, so that no other object takes its identity.
        number = self.numbers.setdefault(id(x), len(self.kept))
        if number == len(self.kept):
            self.kept.append(x)
        return number

    def _module(self, x: types.ModuleType, where: str) -> Hashable:
        """Attributes of a user's module that go by one of the names, each once."""
        if x.__name__ in _DRAWING:
            raise self._drawn(x.__name__)
        if libraries.holds_module(x):
            return "module", x.__name__
        number, parts = self._number(x), []
        for name in sorted(self.names.intersection(vars(x))):
            if (id(x), name) not in self.numbers:
                self.numbers[id(x), name] = number
                parts.append((name, self.read(vars(x)[name], f"{where}.{name}")))
        return x.__name__, tuple(parts)

    def _array(self, x: Any, where: str) -> Hashable:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        if isinstance(x, np.ma.MaskedArray):
            return "masked", self.read((np.asarray(x), np.ma.getmaskarray(x)), where)
        values = np.asarray(x)
        if values.dtype.hasobject:
            raise self._unreadable(x, where)
        # As bytes: types from outside of NumPy, such as bfloat16, have no buffers.
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        digest = hashlib.blake2b(content.data, digest_size=16).digest()
        weak = getattr(x, "weak_type", False)
        return type(x), str(values.dtype), weak, values.shape, digest

    def _callable(self, x: Any, where: str) -> Hashable:
        if isinstance(x, types.FunctionType):
            return self._function(x, where)
        if isinstance(x, types.MethodType):
            return self.read(x.__func__, where), self.read(x.__self__, where)
        if isinstance(x, functools.partial):
            return "partial", self.read((x.func, x.args, x.keywords), where)
        if isinstance(x, types.BuiltinFunctionType):
            bound = x.__self__
            if isinstance(bound, types.ModuleType) and bound.__name__ in _DRAWING:
                raise self._drawn(f"{bound.__name__}.{x.__name__}")
            if bound is None or isinstance(bound, types.ModuleType | type):
                return x
            return x.__name__, self.read(bound, where)
        if isinstance(x, self.wrapper):
            return self.read(x.function, where)
        if callable(x) and hasattr(x, "__wrapped__") and libraries.holds_class(type(x)):
            # `jax.jit`, `functools.cache` and the like keep computed results: the function inside
            # must read the same values as before.
            inner = Reader(self.name, self.wrapper).read(getattr(x, "__wrapped__"), where)  # noqa: B009
            now = Snapshot(inner)
            refuse_change(x, now)
            return now
        return self._object(x, where)

    def _function(self, x: types.FunctionType, where: str) -> Hashable:
        code, library = x.__code__, libraries.holds(x.__code__.co_filename)
        if library and x.__closure__ is None:
            return x
        read, imported, names, drawing = _names(code)
        if not library:
            self.names.update(names)
        cells = []
        for name, cell in zip(code.co_freevars, x.__closure__ or (), strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # The cell has no value yet.
                continue
            try:
                cells.append((name, self.read(contents, f"{where}{name}")))
            except Unreadable:
                if not library:
                    raise
                cells.append((name, _Same(contents)))
        defaults = x.__defaults__, x.__kwdefaults__
        if library:
            return code, tuple(cells), self.read(defaults, where)
        scope = x.__globals__
        if any(scope.get(name) is np for name in drawing):
            raise self._drawn("numpy.random")
        values = [(n, self.read(scope[n], f"{where}{n}")) for n in read if n in scope]
        modules = [(n, self.read(sys.modules.get(n), n)) for n in imported]
        attributes = self.read((*defaults, vars(x)), where)
        return code, tuple(cells), tuple(values), tuple(modules), attributes

    def _class(self, cls: type, where: str) -> Hashable:
        if libraries.holds_class(cls):
            return cls
        parts = []
        for base in cls.__mro__:
            if libraries.holds_class(base):
                continue
            for name, value in vars(base).items():
                if isinstance(value, functools.cached_property):
                    value = value.func
                for inner in ("__func__", "fget", "method", "__wrapped__"):
                    value = getattr(value, inner, value)
                is_value = not isinstance(value, _DESCRIPTORS) and name != "_abc_impl"
                if isinstance(value, types.FunctionType) or (is_value and name[:2] != "__"):
                    parts.append((name, self.read(value, f"{where}.{name}")))
        return cls, tuple(parts)

    def _object(self, x: Any, where: str) -> Hashable:
        cls = type(x)
        library = libraries.holds_class(cls)
        if isinstance(x, _UNREADABLE):
            raise self._unreadable(x, where)
        if isinstance(x, _CONSTANT):
            return _Same(x)
        if isinstance(x, weakref.ref):
            return "weakly", self.read(x(), where)
        if library and not isinstance(x, eqx.Module) and _has_value(x):
            return x
        values = dict(getattr(x, "__dict__", {}))
        for base in cls.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(x, name) and name not in ("__dict__", "__weakref__"):
                    values[name] = getattr(x, name)
        # An object of a type in C may hold values that no attribute shows.
        in_c = cls.__base__ is not object and library
        shown = hasattr(x, "__dict__") and (not in_c or isinstance(x, eqx.Module))
        if not values and not shown:
            return x if isinstance(x, np.ufunc) else self._pickled(x, where)
        items = ((n, self.read(v, f"{where}.{n}")) for n, v in values.items())
        return self.read(cls, where), tuple(items)

    def _pickled(self, x: Any, where: str) -> Hashable:
        """Object of a type in C, such as a slice or a deque, by its parts for `pickle`."""
        cls = type(x)
        if (cls.__reduce__, cls.__reduce_ex__) == (object.__reduce__, object.__reduce_ex__):
            raise self._unreadable(x, where)
        try:
            maker, arguments, *rest = x.__reduce_ex__(4)
        except (TypeError, ValueError):
            raise self._unreadable(x, where) from None
        # The state comes first, then items one by one.
        state, *items = (*rest, None, None, None)[:3]
        contents = [None if part is None else tuple(part) for part in items]
        return cls, self.read((maker, arguments, state, contents), where)

    def _drawn(self, source: str) -> Unreadable:
        return Unreadable(
            f"{self.name} uses {source}, whose values are others in each call, while a compiled "
            "program keeps those of its first call; make an array of them beforehand, or take "
            "jax.random with a key."
        )

    def _unreadable(self, x: Any, where: str) -> Unreadable:
        return Unreadable(
            f"{self.name} reads {where.lstrip('.') or 'itself'!r} of type {type(x).__name__}, in "
            "which lie_jax cannot detect changes after compiling; a function may read numbers, "
            "arrays, and containers and objects of them: make an array of its values beforehand, "
            "or pass what changes as a field of an equinox.Module with __call__ or an argument of "
            "jax.tree_util.Partial."
        )
