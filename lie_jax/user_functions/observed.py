"""Programs that functions of users trace to: they show what code and values do not.

A function may read files, the environment, clocks or attributes that no reader of code finds. A
call therefore traces each function anew, for all shapes of arguments that its code has met. What is
compiled is the program that was compared, even if another thread changes a value meanwhile.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from lie_jax.numerics import jax_internals
from lie_jax.user_functions.reader import Snapshot, array_key


class _Signature(NamedTuple):
    """Structure of the arguments, numbers and words in it by place, and shape, dtype and weak type
    of the arrays in parameters and arguments.
    """

    structure: Any
    fixed: tuple[tuple[int, type, Hashable], ...]
    arrays: tuple[tuple[tuple[int, ...], Any, bool], ...]


class _Program(NamedTuple):
    """Traced program, structure of its results, and a key that equals that of the same program."""

    program: Any
    results: Any
    key: Hashable

    @classmethod
    def of(cls, call: Callable, arrays: Sequence) -> "_Program":
        """Trace a function that JAX has not traced before: traces are cached by identity."""
        program, form = jax.make_jaxpr(call, return_shape=True)(*arrays)
        key = str(program.jaxpr), tuple(map(array_key, _constants(program)))
        return cls(program, jax.tree.structure(form), key)

    def __call__(self, *arrays: Any) -> Any:
        """Results of the function."""
        found = jax_internals.evaluate(self.program, self.program.consts, *arrays)
        return jax.tree.unflatten(self.results, found)


def _constants(program: Any) -> Iterator[Any]:
    """Arrays in a program and the programs inside of it, of which its text shows the shapes."""
    jaxpr, constants = jax_internals.unpack(program)
    yield from constants
    for equation in jaxpr.eqns:
        yield from (x.val for x in equation.invars if np.ndim(getattr(x, "val", 0.0)))
        yield from (x for x in equation.params.values() if isinstance(x, jax.Array | np.ndarray))
        for inner in jax_internals.inside(equation):
            yield from _constants(inner)


# By code, for a new function of the same code is called with the same shapes.
_met: "weakref.WeakKeyDictionary[Any, dict[_Signature, None]]" = weakref.WeakKeyDictionary()


def bound(function: Any, parameters: Any) -> Any:
    """Function with its parameters: none, the module of which it is the class, or the pair of
    positional and named arguments of a `Partial`.
    """
    if parameters is None or isinstance(parameters, eqx.Module):
        return function if parameters is None else parameters
    arguments, named = parameters
    return functools.partial(function, *arguments, **named)


class Observed:
    """Snapshot of a function and its programs, taken when a call begins.

    `parameters` as for `bound`. Equal to another one if the snapshots are, all programs that either
    one has compiled, and all that both have traced: what was compiled for one may serve another
    one that has compiled nothing, and must not serve a third one that is equal to neither.
    """

    __slots__ = ("_compiled", "_met", "_programs", "snapshot")

    def __init__(self, snapshot: Snapshot, code: Any, function: Any, parameters: Any = None):
        self.snapshot, self._met = snapshot, _met.setdefault(code, {})
        # None where tracing fails.
        self._programs: dict[_Signature, _Program | None] = {}
        self._compiled: set[_Signature] = set()
        for signature in tuple(self._met):
            self._programs[signature] = None
            # Without its program this object equals no compiled one, and the error is raised there.
            with contextlib.suppress(Exception):
                self._programs[signature] = _Program.of(
                    _of_arrays(function, parameters, signature), _forms(signature)
                )

    def call(self, function: Any, parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """Result of the function; where JAX traces, by the program that is compared."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        fixed = tuple((i, type(x), x) for i, x in enumerate(leaves) if not _is_array(x))
        arrays = [x for x in (*jax.tree.leaves(parameters), *leaves) if _is_array(x)]
        known = all(kind in _FIXED for _, kind, _ in fixed)
        # Constants inside of a traced function become part of its program, too.
        traced = any(map(jax_internals.is_traced, arrays)) or not jax_internals.traces_nothing()
        if not (traced and known):
            return bound(function, parameters)(*args, **kwargs)
        shapes = tuple((x.shape, x.dtype, jax_internals.is_weak(x)) for x in arrays)
        signature = _Signature(structure, fixed, shapes)
        program = self._programs.get(signature)
        if program is None:
            call = _of_arrays(function, parameters, signature)
            program = self._programs[signature] = _Program.of(call, _forms(signature))
        self._met[signature] = None
        self._compiled.add(signature)
        if not all(map(jax_internals.is_plain, arrays)):
            # On a mesh of devices the program, which knows none, only tells functions apart.
            return bound(function, parameters)(*args, **kwargs)
        return program(*arrays)

    def __eq__(self, other):
        if self is other or not isinstance(other, Observed):
            return self is other
        compiled = self._compiled | other._compiled
        return self.snapshot == other.snapshot and all(
            _agree(self._programs.get(x), other._programs.get(x), x in compiled)
            for x in compiled | (self._programs.keys() & other._programs.keys())
        )

    def __hash__(self):
        return hash(self.snapshot)


def _agree(a: _Program | None, b: _Program | None, compiled: bool) -> bool:
    if a is None or b is None:
        return a is b and not compiled
    return a.key == b.key


def _forms(signature: _Signature) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(s, d, weak_type=weak) for s, d, weak in signature.arrays]


# Types of arguments that are no arrays.
_FIXED = (bool, int, float, complex, str)


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array)


def _of_arrays(function: Any, parameters: Any, signature: _Signature) -> Callable:
    """Function of the arrays in its parameters and of those in its arguments."""
    leaves, form = jax.tree.flatten(parameters)

    def call(*arrays):
        following = iter(arrays)
        filled = [next(following) if _is_array(x) else x for x in leaves]
        target = bound(function, jax.tree.unflatten(form, filled))
        given = list(following)
        for place, _, value in signature.fixed:
            given.insert(place, value)
        args, kwargs = jax.tree.unflatten(signature.structure, given)
        return target(*args, **kwargs)

    return call
