"""Hashable copies of everything that a function reads: code, globals, closures, objects."""

import collections
import contextlib
import contextvars
import dis
import functools
import hashlib
import io
import itertools
import logging
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from lie_jax.numerics import conversion, jax_internals
from lie_jax.user_functions import libraries
from lie_jax.user_functions.parts import named_parts


class Unreadable(ValueError):
    """A function reads a value whose changes cannot be detected."""


class Snapshot:
    """Code of a function with the values that it read; equal for equal code and values.

    `reads_outside`: by a name in its code, which may be that of something else, it reads files,
    clocks or the like, so that the values are not all.
    """

    __slots__ = ("_hash", "key", "reads_outside")

    def __init__(self, key: Hashable, names: Iterable[str] = ()):
        self.key, self._hash = key, hash(key)
        self.reads_outside = any(map(_OUTSIDE.fullmatch, names))

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
# Of objects that have no hash or no weak references.
_kept: dict[Hashable, Snapshot] = {}


def refuse_change(static: Any, now: Snapshot) -> None:
    """Raise `ValueError` if code that JAX knows by identity has another snapshot than before."""
    try:
        before = _seen.setdefault(static, now)
    except TypeError:
        before = _kept.setdefault(_Same(static), now)
    if before != now:
        # Keep the first values: a later call with them is correct, one with others not compiled.
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


PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis))
_BASES = (bool, int, str, bytes, float, complex, tuple, list, dict, set, frozenset, np.ndarray)
# Attributes that a program may have set in a module of a library.
_DATA = (bool, int, float, complex, np.ndarray, np.generic, jax.Array)
_UNREADABLE = (
    Iterator,
    io.IOBase,
    random.Random,
    contextvars.ContextVar,
    memoryview,
    np.random.Generator,
    np.random.RandomState,
)
# These hold nothing that has a part in the result of a function.
_CONSTANT = (logging.Logger, type(threading.Lock()), type(threading.RLock()))
# Functions in `jax.custom_jvp` and `jax.custom_vjp`.
_RULES = ("jvp", "fwd", "bwd")
# Modules whose functions return another value in each call.
_DRAWING = ("random", "time", "datetime", "secrets", "numpy.random")
# Names of functions and values that read the world outside of the program, in any package.
_OUTSIDE = re.compile(
    r"(open|load|read|import|request|stat|uuid|perf_counter|monotonic)\w*|from(file|txt|csv)"
    r"|genfromtxt|memmap|imread|input|argv|environ|getenv|getcwd|listdir|exists|glob|getcontext"
    r"|now|today|rvs|urandom|get_ident|current_thread"
)
# Instructions that read a global.
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_DESCRIPTORS = (property, types.MemberDescriptorType, types.GetSetDescriptorType)


def _has_value(x: Any) -> bool:
    """Whether the object equals others of the same value, which cannot change."""
    with contextlib.suppress(TypeError):
        hash(x)
        return type(x).__hash__ is not object.__hash__
    return False


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Globals that code reads, modules that it imports, all its names (attributes included), and
    the globals of which it reads an attribute `random`.
    """
    steps = list(dis.get_instructions(code))
    read = {step.argval for step in steps if step.opname in _LOADS}
    imported = {step.argval for step in steps if step.opname == "IMPORT_NAME"}
    drawing = {
        step.argval
        for step, following in itertools.pairwise(steps)
        if step.opname in _LOADS and following.argval == "random"
    }
    parts = read, imported, set(code.co_names), drawing
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for outer, inner in zip(parts, _names(constant), strict=True):
                outer.update(inner)
    return tuple(tuple(sorted(part)) for part in parts)


# Parts of a value, each with the suffix of its name.
_Parts = Iterable[tuple[str, Any]]


def array_key(x: Any) -> Hashable:
    """Type, shape and bits of an array; a value that JAX traces equals itself only."""
    if jax_internals.is_traced(x):
        return _Same(x)
    values = conversion.as_numpy(x)
    # As bytes: types from outside of NumPy, such as bfloat16, have no buffers.
    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    digest = hashlib.blake2b(content.data, digest_size=16).digest()
    return type(x), str(x.dtype), jax_internals.is_weak(x), values.shape, digest


class Reader:
    """Copies values into hashable ones, each object once; `name` is the function's, for messages.

    Raises `Unreadable` for a value whose changes cannot be detected.
    """

    def __init__(self, name: str, within: frozenset[int] = frozenset()):
        self.name = name
        # Identities of the wrapped functions that are being read: a rule may hold its function.
        self.within = within
        self.numbers, self.kept = {}, []
        # All names in the code met so far, which may be those of a module's attributes, and the
        # attributes read so far of each module.
        self.names: set[str] = set()
        self.attributes: dict[types.ModuleType, set[str]] = collections.defaultdict(set)

    def read(self, x: Any, where: str = "") -> Hashable:
        """Hashable copy of a value, found at `where`."""
        cls = type(x)
        content, parts = self._content(x, where)
        if isinstance(x, _BASES) and cls not in _BASES and not libraries.holds_class(cls):
            # A user's class derived from a number, a container or an array has attributes as well.
            parts = *parts, ("", cls), (".__dict__", getattr(x, "__dict__", {}))
        return content, tuple((suffix, self.read(part, where + suffix)) for suffix, part in parts)

    def _content(self, x: Any, where: str) -> tuple[Hashable, _Parts]:
        """Hashable content of a value itself, and the parts that are left to read."""
        cls = type(x)
        if isinstance(x, PLAIN):
            return (cls, x), ()
        if isinstance(x, float | complex) and not isinstance(x, np.generic):
            # By digits: NaN does not equal itself, and -0.0 equals 0.0.
            return (cls, repr(x)), ()
        if jax_internals.is_traced(x):
            return _Same(x), ()
        if isinstance(x, jax.Array | np.ndarray | np.generic):
            return self._array(x, where)
        if isinstance(x, types.ModuleType):
            return self._module(x)
        number = self.numbers.setdefault(id(x), len(self.kept))
        if number < len(self.kept):
            return ("again", number), ()
        # Kept alive, so that no other object takes its identity.
        self.kept.append(x)
        if isinstance(x, set | frozenset):
            return (cls, frozenset(self.read(item, where) for item in x)), ()
        if isinstance(x, tuple | list):
            return cls, named_parts(x)
        if isinstance(x, dict | types.MappingProxyType):
            return cls, [*(("", key) for key in x), *named_parts(x)]
        if isinstance(x, type):
            return self._class(x)
        if isinstance(x, types.FunctionType):
            return self._function(x, where)
        if isinstance(x, types.MethodType):
            return cls, [("", x.__func__), ("", x.__self__)]
        if isinstance(x, types.BuiltinFunctionType):
            return self._builtin(x)
        if callable(x) and hasattr(x, "__wrapped__") and libraries.holds_class(cls):
            # `jax.jit`, `functools.cache` and the like keep computed results: the function inside
            # must read the same values as before, and so must rules of derivatives.
            if id(x) in self.within:
                return _Same(x), ()
            rules = [getattr(x, name, None) for name in ("__wrapped__", *_RULES)]
            now = Snapshot(Reader(self.name, self.within | {id(x)}).read(rules, where))
            refuse_change(x, now)
            return now, ()
        return self._object(x, where)

    def _module(self, x: types.ModuleType) -> tuple[Hashable, _Parts]:
        """Attributes of a module that go by one of the names, each once; of a library's, data."""
        if x.__name__ in _DRAWING:
            raise self._unrepeatable(x.__name__)
        unread = self.names & vars(x).keys() - self.attributes[x]
        if libraries.holds_module(x):
            unread = {name for name in unread if isinstance(vars(x)[name], _DATA)}
        self.attributes[x] |= unread
        return x.__name__, [(f".{name}", vars(x)[name]) for name in sorted(unread)]

    def _array(self, x: Any, where: str) -> tuple[Hashable, _Parts]:
        if isinstance(x, np.ma.MaskedArray):
            return type(x), [("", np.asarray(x)), ("", np.ma.getmaskarray(x))]
        if not isinstance(x, jax.Array) and x.dtype.hasobject:
            raise self._unreadable(x, where)
        return array_key(x), ()

    def _builtin(self, x: types.BuiltinFunctionType) -> tuple[Hashable, _Parts]:
        bound = x.__self__
        if isinstance(bound, types.ModuleType) and bound.__name__ in _DRAWING:
            raise self._unrepeatable(f"{bound.__name__}.{x.__name__}")
        if bound is None or isinstance(bound, types.ModuleType | type):
            return x, ()
        return x.__name__, [("", bound)]

    def _function(self, x: types.FunctionType, where: str) -> tuple[Hashable, _Parts]:
        code, library = x.__code__, libraries.holds(x.__code__.co_filename)
        if library and x.__closure__ is None:
            return x, ()
        cells = []
        for name, cell in zip(code.co_freevars, x.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # The cell has no value yet.
                cells.append((name, cell.cell_contents))
        defaults = [("", x.__defaults__), ("", x.__kwdefaults__)]
        if library:
            return (code, tuple(self._if_readable(x, where + n) for n, x in cells)), defaults
        read, imported, names, drawing = _names(code)
        self.names.update(names)
        scope = x.__globals__
        if any(scope.get(name) is np for name in drawing):
            raise self._unrepeatable("numpy.random")
        values = [(name, scope[name]) for name in read if name in scope]
        modules = [(name, sys.modules.get(name)) for name in imported]
        return code, [*cells, *values, *modules, *defaults, ("", vars(x))]

    def _if_readable(self, x: Any, where: str) -> Hashable:
        try:
            return self.read(x, where)
        except Unreadable:
            return _Same(x)

    def _class(self, cls: type) -> tuple[Hashable, _Parts]:
        parts = []
        for base in cls.__mro__ if not libraries.holds_class(cls) else ():
            if libraries.holds_class(base):
                continue
            for name, value in vars(base).items():
                if isinstance(value, functools.cached_property):
                    value = value.func
                for inner in ("__func__", "fget", "method", "__wrapped__"):
                    value = getattr(value, inner, value)
                is_value = not isinstance(value, _DESCRIPTORS) and name != "_abc_impl"
                is_data = isinstance(value, _DATA) or name[:2] != "__"
                if isinstance(value, types.FunctionType) or (is_value and is_data):
                    parts.append((f".{name}", value))
        if not libraries.holds_class(type(cls)):
            parts.append(("", type(cls)))
        return (cls, cls.__qualname__), parts

    def _object(self, x: Any, where: str) -> tuple[Hashable, _Parts]:
        cls = type(x)
        library = libraries.holds_class(cls) and not isinstance(x, eqx.Module)
        if isinstance(x, _UNREADABLE):
            raise self._unreadable(x, where)
        if isinstance(x, _CONSTANT):
            return _Same(x), ()
        if isinstance(x, np.ufunc):
            # One of `np.frompyfunc` calls a function that it does not show.
            if "(vectorized)" in x.__name__:
                raise self._unreadable(x, where)
            return _Same(x), ()
        if isinstance(x, weakref.ref):
            return "weakly", [("", x())]
        if library and _has_value(x):
            return x, ()
        # Attributes, or a pair of those in `__dict__` and in `__slots__`.
        state: Any = object.__getstate__(x)
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        attributes = {**(attributes or {}), **(slots or {}), **getattr(x, "__dict__", {})}
        parts = [(f".{name}", value) for name, value in attributes.items()]
        # Types in C, such as a slice or a deque, hold values that no attribute shows.
        if (cls.__reduce__, cls.__reduce_ex__) != (object.__reduce__, object.__reduce_ex__):
            with contextlib.suppress(Exception):  # A class may refuse to be pickled.
                pickled = x.__reduce_ex__(4)
                # Items of containers are iterators.
                parts += [("", tuple(x) if isinstance(x, Iterator) else x) for x in pickled]
        in_c = library and cls.__base__ is not object
        if parts or (hasattr(x, "__dict__") and not in_c):
            return "object", [("", cls), *parts]
        raise self._unreadable(x, where)

    def _unrepeatable(self, source: str) -> Unreadable:
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
