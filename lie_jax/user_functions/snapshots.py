"""Functions of users as static parts of compiled programs, told apart by everything that they read.

JAX compiles a function once and takes it for the same ever after. A `Function` is a pytree node
whose static part is a snapshot of code, globals, closures, defaults and attributes of objects, for
the time of a call with the traced programs. A changed value gives another program, a new function
with the same code and values the existing one.
"""

import contextlib
import dataclasses
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax

from lie_jax.user_functions import libraries
from lie_jax.user_functions.observed import Observed, bound
from lie_jax.user_functions.parts import named_parts
from lie_jax.user_functions.reader import (
    PLAIN,
    Reader,
    Snapshot,
    Unreadable,
    name_of,
    refuse_change,
)


def snapshot(function: Any) -> Snapshot:
    """Code of the function with the values that it reads now.

    Raises `Unreadable`, a `ValueError`, for iterators, generators of random numbers and the like.
    """
    reader = Reader(name_of(function))
    return Snapshot(reader.read(function), reader.names)


@jax.tree_util.register_pytree_node_class
class Function:
    """Function of a user as modules hold it; equal to one of an equal snapshot.

    JAX takes the snapshot whenever it flattens the node, `freeze` once, for the time of a call. In
    a frozen tree it also stands for a module or `Partial` that is called, with its `parameters`.
    """

    def __init__(
        self,
        function: Callable,
        frozen: Snapshot | Observed | None = None,
        parameters: Any = None,
    ):
        self.function, self.frozen, self.parameters = function, frozen, parameters

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Result of the function."""
        if isinstance(self.frozen, Observed):
            return self.frozen.call(self.function, self.parameters, *args, **kwargs)
        return self.function(*args, **kwargs)

    @property
    def target(self) -> Any:
        """Function, module or partial for which it stands."""
        return bound(self.function, self.parameters)

    def __getattr__(self, name: str) -> Any:
        """Attribute of the module or `Partial` for which it stands."""
        if name[:2] == "__" or self.__dict__.get("parameters") is None:
            raise AttributeError(f"a Function has no attribute {name!r}")
        return getattr(self.target, name)

    def __repr__(self):
        return f"Function({name_of(self.function)})"

    def __eq__(self, other):
        return isinstance(other, Function) and self._snapshot() == other._snapshot()

    def __hash__(self):
        if self.frozen is None:
            raise TypeError("unhashable: what the function reads may change")
        return hash(self.frozen)

    @property
    def reads_outside(self) -> bool:
        """Whether it may read files, clocks or the like, which a snapshot does not show."""
        return isinstance(self.frozen, Snapshot) and self.frozen.reads_outside

    def _snapshot(self) -> Snapshot | Observed:
        return snapshot(self.function) if self.frozen is None else self.frozen

    def tree_flatten(self):
        """Parameters; the function is static, and so is whether it is frozen."""
        children = () if self.parameters is None else (self.parameters,)
        return children, (Function(self.function, self._snapshot()), self.frozen is not None)

    @classmethod
    def tree_unflatten(cls, static, children):
        """Function of a static part, frozen if it was."""
        function, is_frozen = static
        return cls(function.function, function.frozen if is_frozen else None, *children)


def watch(function: Any) -> Any:
    """Plain function as a `Function`; modules and `Partial`s, which hold parameters, unchanged.

    Raises `Unreadable`, a `ValueError`, for a function that reads what cannot be read.
    """
    if isinstance(function, jax.tree_util.Partial):
        snapshot(function.func)
    if isinstance(function, eqx.Module | jax.tree_util.Partial | Function):
        return function
    snapshot(function)
    return Function(function)


def identities(tree: Any) -> tuple[int, ...]:
    """Identities of the functions in a pytree: functions equal now may differ later."""
    leaves = jax.tree.leaves(tree, is_leaf=_is_function)
    return tuple(id(x.function) for x in leaves if _is_function(x))


def with_snapshot(function: Callable) -> Function:
    """Function with the snapshot of now, for a cache of what was computed with it."""
    now = snapshot(function)
    _count(function, now)
    return Function(function, now)


def freeze(tree: Any) -> Any:
    """Pytree with all functions in it as snapshots and programs taken now, for the time of a call.

    Warns of functions that are compiled again and again. Raises `ValueError` where methods of a
    module, objects in its static fields or code compiled by `jax.jit` read values that have changed
    since, and for a `Partial` that reads what cannot be read.
    """
    for static in _static_objects(tree, set()):
        with contextlib.suppress(Unreadable) if isinstance(static, _CODE) else _nothing:
            refuse_change(static, snapshot(static))
    if not any(map(_is_called, jax.tree.leaves(tree, is_leaf=_is_called))):
        return tree
    return jax.tree.map(_freeze, tree, is_leaf=_is_called)


_nothing = contextlib.nullcontext()
# Methods that have no part in a run may read what cannot be read.
_CODE = types.FunctionType, type


def _is_function(x: Any) -> bool:
    return isinstance(x, Function)


def _is_called(x: Any) -> bool:
    """Whether a node is called as a whole, and not an element with methods of lie_jax."""
    if isinstance(x, jax.tree_util.Partial):
        return not str(getattr(x.func, "__module__", "")).startswith("lie_jax.")
    if not isinstance(x, eqx.Module) or not callable(x):
        return _is_function(x)
    # A method of a module is a module of Equinox.
    method = getattr(x, "__func__", None)
    if method is not None:
        return not libraries.holds(method.__code__.co_filename)
    return not any(
        base is not eqx.Module and issubclass(base, eqx.Module) and libraries.holds_class(base)
        for base in type(x).__mro__
    )


def _freeze(x: Any) -> Any:
    if not _is_called(x):
        return x
    if isinstance(x, Function):
        function, parameters = x.function, x.parameters
    else:
        is_partial = isinstance(x, jax.tree_util.Partial)
        function = x.func if is_partial else getattr(x, "__func__", type(x))
        parameters = (x.args, x.keywords) if is_partial else x
        parameters = jax.tree.map(
            _freeze, parameters, is_leaf=lambda y: y is not x and _is_called(y)
        )
    if parameters is None and _is_of_library(function):
        return Function(function, snapshot(function))
    # A module's methods must stay.
    is_class = isinstance(function, type) and parameters is not None
    now = Snapshot(function) if is_class else snapshot(function)
    observed = Observed(now, _code(function), function, parameters)
    _count(function, observed)
    return Function(function, observed, parameters)


def _is_of_library(function: Any) -> bool:
    """Whether a function, such as a network's activation, is one that libraries define."""
    inner = inspect.unwrap(function)
    return (
        isinstance(inner, types.FunctionType)
        and inner.__closure__ is None
        and libraries.holds(inner.__code__.co_filename)
    )


def _code(function: Any) -> Any:
    """Code of the function inside of an object that is called, or its class."""
    while True:
        inner = function.func if isinstance(function, functools.partial) else None
        inner = inner or getattr(function, "__wrapped__", getattr(function, "__func__", None))
        if inner is None:
            break
        function = inner
    return getattr(function, "__code__", function if isinstance(function, type) else type(function))


# This many programs of one code suggest that a number should be a parameter.
_MANY = 8
_compiled: "weakref.WeakKeyDictionary[Any, set[Any]]" = weakref.WeakKeyDictionary()
_warned: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _count(function: Callable, now: Any) -> None:
    code = _code(function)
    if code in _warned:
        return
    programs = _compiled.setdefault(code, set())
    programs.add(now)
    if len(programs) > _MANY:
        _warned.add(code)
        libraries.warn(
            f"{name_of(function)} was compiled for {len(programs)} different sets of the values "
            "that it reads, each of which takes the time of a compilation, and memory until "
            "jax.clear_caches(): pass what changes as a field of an equinox.Module with __call__, "
            "or as an argument of jax.tree_util.Partial.",
        )


def _static_objects(x: Any, seen: set[int]) -> Iterator[Any]:
    """Classes of users' modules in a pytree, objects in their static fields, and plain functions
    beside `Function`s and `Partial`s.
    """
    if id(x) in seen or isinstance(x, str):
        return
    seen.add(id(x))
    if isinstance(x, types.FunctionType) and not libraries.holds(x.__code__.co_filename):
        yield x
    elif isinstance(x, eqx.Module) and not libraries.holds_class(type(x)):
        yield type(x)
        for field in dataclasses.fields(x):
            value = getattr(x, field.name, None)
            if field.metadata.get("static") and not isinstance(value, PLAIN):
                yield value
    for name, part in named_parts(x):
        if not isinstance(x, jax.tree_util.Partial) or name != ".func":
            yield from _static_objects(part, seen)
