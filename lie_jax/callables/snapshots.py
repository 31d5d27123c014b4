"""Functions of users as static parts of compiled programs, told apart by everything that they read.

JAX compiles a function once and takes it for the same ever after. A `Function` is a pytree node
whose static part is a snapshot of the code and of what it reads: globals that it names, closures,
defaults, attributes of objects. A value that has changed gives another program, and a new function
with the same code and values the one that there is.
"""

import collections.abc
import contextvars
import dis
import functools
import hashlib
import io
import logging
import os
import random
import sys
import sysconfig
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import jax_internals


class Snapshot:
    """Code of a function with the values that it read, equal to another one of the same values."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Hashable):
        self.key, self._hash = key, hash(key)

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Snapshot) and self._hash == other._hash and self.key == other.key
        )

    def __hash__(self):
        return self._hash


def snapshot(function: Callable) -> Snapshot:
    """Code of the function with the values that it reads now.

    Raises `ValueError` for what cannot be read, as an iterator or a generator of random numbers.
    """
    return Snapshot(_Reader(_name(function)).read(function, ""))


@jax.tree_util.register_pytree_node_class
class Function:
    """A function of a user in the form that modules hold; equal to one of an equal snapshot.

    JAX takes the snapshot whenever it flattens the node. `frozen` takes it once, for the time of a
    call.
    """

    def __init__(self, function: Callable, frozen: Snapshot | None = None):
        self.function, self.frozen = function, frozen

    def __call__(self, *args: Any) -> Any:
        """What the function returns."""
        return self.function(*args)

    def __repr__(self):
        return f"Function({_name(self.function)})"

    def __eq__(self, other):
        return isinstance(other, Function) and self._snapshot() == other._snapshot()

    def __hash__(self):
        return hash(self._snapshot())

    def _snapshot(self) -> Snapshot:
        return snapshot(self.function) if self.frozen is None else self.frozen

    def tree_flatten(self):
        """No arrays: the function is static."""
        return (), _Static(self._snapshot(), self.function, self.frozen is not None)

    @classmethod
    def tree_unflatten(cls, static, children):
        """The function again, frozen if it was."""
        return cls(static.function, static.snapshot if static.is_frozen else None)


class _Static:
    __slots__ = ("function", "is_frozen", "snapshot")

    def __init__(self, snapshot: Snapshot, function: Callable, is_frozen: bool):
        self.snapshot, self.function, self.is_frozen = snapshot, function, is_frozen

    def __eq__(self, other):
        return (
            isinstance(other, _Static)
            and self.is_frozen == other.is_frozen
            and self.snapshot == other.snapshot
        )

    def __hash__(self):
        return hash(self.snapshot)


def watched(function: Any) -> Any:
    """A plain function as a `Function`; modules and `Partial`s hold parameters and stay.

    Raises `ValueError` for a function that reads what cannot be read.
    """
    if isinstance(function, eqx.Module | jax.tree_util.Partial | Function):
        return function
    snapshot(function)
    return Function(function)


def identities(tree: Any) -> tuple[int, ...]:
    """The functions in a pytree by identity: equal ones may differ later."""
    return tuple(id(x.function) for x in _functions(tree))


def frozen(tree: Any) -> Any:
    """The pytree with the snapshots of now, for the time of a call.

    Warns of functions that are compiled anew again and again. Raises `ValueError` where code that
    was compiled, of a module's methods or of a `Partial`, reads what has changed since.
    """
    _refuse_changes(tree)
    if not _functions(tree):
        return tree

    def freeze(x):
        if not isinstance(x, Function):
            return x
        now = snapshot(x.function)
        _count(x.function, now)
        return Function(x.function, now)

    return jax.tree.map(freeze, tree, is_leaf=_is_function)


def _is_function(x: Any) -> bool:
    return isinstance(x, Function)


def _functions(tree: Any) -> list[Function]:
    return [x for x in jax.tree.leaves(tree, is_leaf=_is_function) if isinstance(x, Function)]


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


# So many programs of one code tell that a number should be a parameter; after so many more, what
# was compiled is dropped, for nobody will ask for most of it again.
_MANY, _TOO_MANY = 8, 32
_compiled: "weakref.WeakKeyDictionary[Any, set[Snapshot]]" = weakref.WeakKeyDictionary()
_warned: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _count(function: Callable, now: Snapshot) -> None:
    code = getattr(getattr(function, "__func__", function), "__code__", type(function))
    programs = _compiled.setdefault(code, set())
    programs.add(now)
    if len(programs) > _MANY and code not in _warned:
        _warned.add(code)
        warnings.warn(
            f"{_name(function)} was compiled for {len(programs)} different sets of the values "
            "that it reads, each of which takes the time of a compilation: pass what changes as a "
            "field of an equinox.Module with __call__, or as an argument of jax.tree_util.Partial.",
            stacklevel=2,
        )
    if len(programs) > _TOO_MANY:
        programs.clear()
        jax.clear_caches()


_seen: "weakref.WeakKeyDictionary[Any, Snapshot]" = weakref.WeakKeyDictionary()


def _refuse_changes(tree: Any) -> None:
    """Raise where code that JAX knows by identity reads what has changed since it was seen."""
    for static in _by_identity(tree, set()):
        try:
            now = snapshot(static)
        except Unreadable:
            continue
        _same_as_before(static, now)


def _same_as_before(static: Any, now: Snapshot) -> None:
    if _seen.setdefault(static, now) != now:
        # The next call with the old values is right again; one with new values never was compiled.
        raise ValueError(
            f"{_name(static)} reads values that have changed since it was compiled; they must "
            "stay: pass what changes as an argument, a field of the module, or an argument of "
            "jax.tree_util.Partial."
        )


def _by_identity(x: Any, seen: set[int]) -> collections.abc.Iterator[Any]:
    """Classes of users' modules in a pytree, and plain functions beside `Function`s."""
    if id(x) in seen or x is None or isinstance(x, str | int | float | np.ndarray | jax.Array):
        return
    seen.add(id(x))
    if isinstance(x, types.FunctionType):
        if not _of_library(x.__code__.co_filename):
            yield x
    elif isinstance(x, functools.partial):
        yield from _by_identity((x.func, x.args, x.keywords), seen)
    elif isinstance(x, eqx.Module):
        if not _is_library_class(type(x)):
            yield type(x)
        yield from _by_identity(tuple(vars(x).values()), seen)
    elif isinstance(x, tuple | list):
        for item in x:
            yield from _by_identity(item, seen)
    elif isinstance(x, dict):
        yield from _by_identity(tuple(x.values()), seen)


class _Same:
    """Equal to another one of the same object only."""

    __slots__ = ("x",)

    def __init__(self, x: Any):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, _Same) and self.x is other.x

    def __hash__(self):
        return id(self.x)


class Unreadable(ValueError):
    """A function reads something whose changes cannot be seen."""


_LIBRARIES = tuple(
    os.path.join(os.path.abspath(path), "")
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(os.path.dirname(str(m.__file__)) for m in (jax, np, eqx)),
        os.path.dirname(os.path.dirname(__file__)),
    }
)
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
# What these hold has no part in what a function returns.
_CONSTANT = (logging.Logger, type(threading.Lock()), type(threading.RLock()))
# Modules whose functions give another value each time.
_DRAWING = ("random", "time", "datetime", "secrets", "numpy.random")
_DESCRIPTORS = (property, types.MemberDescriptorType, types.GetSetDescriptorType)


@functools.lru_cache(maxsize=4096)
def _of_library(path: str) -> bool:
    return path.startswith("<frozen") or os.path.abspath(path).startswith(_LIBRARIES)


def _is_library(module: types.ModuleType | None) -> bool:
    if module is None or module.__name__ == "__main__":
        return False
    path = getattr(module, "__file__", None)
    return module.__name__.partition(".")[0] in sys.builtin_module_names or (
        path is not None and _of_library(path)
    )


def _is_library_class(kind: type) -> bool:
    return _is_library(sys.modules.get(kind.__module__))


def _has_value(x: Any) -> bool:
    """Whether the object is equal to others of the same value, which cannot change."""
    if type(x).__hash__ in (object.__hash__, None):
        return False
    try:
        hash(x)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Globals that code reads, modules that it imports, all its names, attributes too, and the
    globals of which it reads an attribute `random`.
    """
    found, imported, names, drawing, last = set(), set(), set(code.co_names), set(), ""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.add(instruction.argval)
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
            for mine, theirs in zip((found, imported, names, drawing), inner, strict=True):
                mine.update(theirs)
    return tuple(tuple(sorted(part)) for part in (found, imported, names, drawing))


class _Reader:
    """Reads values into hashable copies, each object once."""

    def __init__(self, name: str):
        self.name, self.numbers, self.kept = name, {}, []
        # All names in the code that was met so far: what it may read of a module.
        self.names: set[str] = set()

    def read(self, x: Any, where: str) -> Hashable:
        kind, value = type(x), self._value(x, where)
        if kind in _BASES or not isinstance(x, _BASES) or _is_library_class(kind):
            return value
        # A class of one's own on top of a number, a container or an array.
        rest = self.read(getattr(x, "__dict__", {}), f"{where}.__dict__")
        return value, self.read(kind, where), rest

    def _value(self, x: Any, where: str) -> Hashable:
        if isinstance(x, _PLAIN):
            return type(x), x
        if isinstance(x, float | complex) and not isinstance(x, np.generic):
            # By their digits: NaN is not equal to itself, and -0.0 is to 0.0.
            return type(x), repr(x)
        if jax_internals.is_traced(x):
            return _Same(x)
        if isinstance(x, jax.Array | np.ndarray | np.generic):
            return self._array(x, where)
        if isinstance(x, types.ModuleType):
            return self._module(x, where)
        if id(x) in self.numbers:
            return "again", self.numbers[id(x)]
        self._keep(x)
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

    def _keep(self, x: Any) -> None:
        # Alive as long as the reader, so that no other object takes its identity.
        self.numbers[id(x)] = len(self.kept)
        self.kept.append(x)

    def _module(self, x: types.ModuleType, where: str) -> Hashable:
        """Of a module that is no library's all that goes by one of the names, each once."""
        if x.__name__ in _DRAWING:
            raise self._drawn(x.__name__)
        if _is_library(x):
            return "module", x.__name__
        known = self.numbers.setdefault(id(x), len(self.kept))
        if known == len(self.kept):
            self.kept.append(x)
        inside, parts = vars(x), []
        for name in sorted(self.names.intersection(inside)):
            if (id(x), name) not in self.numbers:
                self.numbers[id(x), name] = known
                parts.append((name, self.read(inside[name], f"{where}.{name}")))
        return x.__name__, tuple(parts)

    def _array(self, x: Any, where: str) -> Hashable:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x = jax.random.key_data(x)
        if isinstance(x, np.ma.MaskedArray):
            return "masked", self.read((np.asarray(x), np.ma.getmaskarray(x)), where)
        values = np.asarray(x)
        if values.dtype.hasobject:
            raise self._unreadable(x, where)
        # As bytes, for types that are not NumPy's own, as bfloat16, have no buffers.
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
            known = bound is None or isinstance(bound, types.ModuleType | type)
            return x if known else (x.__name__, self.read(bound, where))
        if isinstance(x, Function):
            return self.read(x.function, where)
        if callable(x) and hasattr(x, "__wrapped__") and _is_library_class(type(x)):
            # `jax.jit`, `functools.cache` and their like keep what they have computed.
            inner = Snapshot(_Reader(self.name).read(getattr(x, "__wrapped__"), where))  # noqa: B009
            _same_as_before(x, inner)
            return inner
        return self._object(x, where)

    def _function(self, x: types.FunctionType, where: str) -> Hashable:
        code, library = x.__code__, _of_library(x.__code__.co_filename)
        if library and x.__closure__ is None:
            return x
        found, imported, names, drawing = _names(code)
        if not library:
            self.names.update(names)
        cells = []
        for name, cell in zip(code.co_freevars, x.__closure__ or (), strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # It has no value yet.
                continue
            try:
                cells.append((name, self.read(contents, f"{where}{name}")))
            except Unreadable:
                if not library:
                    raise
                cells.append((name, _Same(contents)))
        if library:
            return code, tuple(cells), self.read((x.__defaults__, x.__kwdefaults__), where)
        known = x.__globals__
        if any(known.get(name) is np for name in drawing):
            raise self._drawn("numpy.random")
        values = [(n, self.read(known[n], f"{where}{n}")) for n in found if n in known]
        modules = [(n, self.read(sys.modules.get(n), n)) for n in imported]
        rest = self.read((x.__defaults__, x.__kwdefaults__, vars(x)), where)
        return code, tuple(cells), tuple(values), tuple(modules), rest

    def _class(self, kind: type, where: str) -> Hashable:
        if _is_library_class(kind):
            return kind
        parts = []
        for base in kind.__mro__:
            if _is_library_class(base):
                continue
            for name, value in vars(base).items():
                if isinstance(value, functools.cached_property):
                    value = value.func
                for inner in ("__func__", "fget", "method", "__wrapped__"):
                    value = getattr(value, inner, value)
                is_value = not isinstance(value, _DESCRIPTORS) and name != "_abc_impl"
                if isinstance(value, types.FunctionType) or (is_value and name[:2] != "__"):
                    parts.append((name, self.read(value, f"{where}.{name}")))
        return kind, tuple(parts)

    def _object(self, x: Any, where: str) -> Hashable:
        kind = type(x)
        if isinstance(x, _UNREADABLE):
            raise self._unreadable(x, where)
        if isinstance(x, _CONSTANT):
            return _Same(x)
        if isinstance(x, weakref.ref):
            return "weakly", self.read(x(), where)
        if _is_library_class(kind) and not isinstance(x, eqx.Module) and _has_value(x):
            return x
        values = dict(getattr(x, "__dict__", {}))
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(x, name) and name not in ("__dict__", "__weakref__"):
                    values[name] = getattr(x, name)
        # An object of a type in C may hold what it does not show.
        in_c = kind.__base__ is not object and _is_library_class(kind)
        shown = hasattr(x, "__dict__") and (not in_c or isinstance(x, eqx.Module))
        if not values and not shown:
            return x if isinstance(x, np.ufunc) else self._made(x, where)
        items = ((n, self.read(v, f"{where}.{n}")) for n, v in values.items())
        return self.read(kind, where), tuple(items)

    def _made(self, x: Any, where: str) -> Hashable:
        """An object of a type in C, as a slice or a deque, by what it tells to `pickle`."""
        kind = type(x)
        if (kind.__reduce__, kind.__reduce_ex__) == (object.__reduce__, object.__reduce_ex__):
            raise self._unreadable(x, where)
        try:
            maker, arguments, *rest = x.__reduce_ex__(4)
        except (TypeError, ValueError):
            raise self._unreadable(x, where) from None
        # The state comes first, then items one by one.
        state, *items = (*rest, None, None, None)[:3]
        contents = [None if each is None else tuple(each) for each in items]
        return kind, self.read((maker, arguments, state, contents), where)

    def _drawn(self, what: str) -> Unreadable:
        return Unreadable(
            f"{self.name} uses {what}, whose values are others in each call, while a compiled "
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
