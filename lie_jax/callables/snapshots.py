"""Functions of users as static parts of compiled programs, told apart by everything that they read.

JAX compiles a function once and takes it for the same ever after. A `Function` is a pytree node
whose static part is a snapshot of code, globals, closures, defaults and attributes of objects. A
changed value gives another program, a new function with the same code and values the existing one.
"""

import contextlib
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax

from lie_jax.callables import libraries
from lie_jax.callables.parts import named_parts
from lie_jax.callables.reader import Reader, Snapshot, Unreadable, name_of, refuse_change


def snapshot(function: Callable) -> Snapshot:
    """Code of the function with the values that it reads now.

    Raises `Unreadable`, a `ValueError`, for iterators, generators of random numbers and the like.
    """
    return Snapshot(Reader(name_of(function)).read(function))


@jax.tree_util.register_pytree_node_class
class Function:
    """Function of a user as modules hold it; equal to one of an equal snapshot.

    JAX takes the snapshot whenever it flattens the node, `frozen` once, for the time of a call.
    """

    def __init__(self, function: Callable, frozen: Snapshot | None = None):
        self.function, self.frozen = function, frozen

    def __call__(self, *args: Any) -> Any:
        """Result of the function."""
        return self.function(*args)

    def __repr__(self):
        return f"Function({name_of(self.function)})"

    def __eq__(self, other):
        return isinstance(other, Function) and self._snapshot() == other._snapshot()

    def __hash__(self):
        if self.frozen is None:
            raise TypeError("unhashable: what the function reads may change")
        return hash(self.frozen)

    def _snapshot(self) -> Snapshot:
        return snapshot(self.function) if self.frozen is None else self.frozen

    def tree_flatten(self):
        """No arrays: the function is static, and so is whether it is frozen."""
        return (), (Function(self.function, self._snapshot()), self.frozen is not None)

    @classmethod
    def tree_unflatten(cls, static, children):
        """Function of a static part, frozen if it was."""
        function, is_frozen = static
        return function if is_frozen else cls(function.function)


def watched(function: Any) -> Any:
    """Plain function as a `Function`; modules and `Partial`s, which hold parameters, unchanged.

    Raises `Unreadable`, a `ValueError`, for a function that reads what cannot be read.
    """
    if isinstance(function, eqx.Module | jax.tree_util.Partial | Function):
        return function
    snapshot(function)
    return Function(function)


def identities(tree: Any) -> tuple[int, ...]:
    """Identities of the functions in a pytree: functions equal now may differ later."""
    leaves = jax.tree.leaves(tree, is_leaf=_is_function)
    return tuple(id(x.function) for x in leaves if _is_function(x))


def frozen(tree: Any) -> Any:
    """Pytree with snapshots taken now, for the time of a call.

    Warns of functions that are compiled again and again. Raises `ValueError` where compiled code of
    a module's methods or of a `Partial` reads values that have changed since.
    """
    for static in _known_by_identity(tree, set()):
        with contextlib.suppress(Unreadable):
            refuse_change(static, snapshot(static))
    if not identities(tree):
        return tree

    def freeze(x):
        if not _is_function(x):
            return x
        now = snapshot(x.function)
        _count(x.function, now)
        return Function(x.function, now)

    return jax.tree.map(freeze, tree, is_leaf=_is_function)


def _is_function(x: Any) -> bool:
    return isinstance(x, Function)


# This many programs of one code suggest that a number should be a parameter. After so many more,
# compiled programs are dropped: most of them will not be used again.
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
            f"{name_of(function)} was compiled for {len(programs)} different sets of the values "
            "that it reads, each of which takes the time of a compilation: pass what changes as a "
            "field of an equinox.Module with __call__, or as an argument of jax.tree_util.Partial.",
            stacklevel=2,
        )
    if len(programs) > _TOO_MANY:
        programs.clear()
        jax.clear_caches()


def _known_by_identity(x: Any, seen: set[int]) -> Iterator[Any]:
    """Classes of users' modules in a pytree, and plain functions beside `Function`s."""
    if id(x) in seen or isinstance(x, str):
        return
    seen.add(id(x))
    if isinstance(x, types.FunctionType) and not libraries.holds(x.__code__.co_filename):
        yield x
    elif isinstance(x, eqx.Module) and not libraries.holds_class(type(x)):
        yield type(x)
    for _, part in named_parts(x):
        yield from _known_by_identity(part, seen)
