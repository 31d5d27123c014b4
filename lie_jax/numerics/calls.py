"""Programs that a primitive calls: one equation for many, with the rules of the many.

A call of `jax.jit` would do if reverse mode did not take it apart: what the forward half of a part
of a step passes to the backward half are hundreds of arrays, each of which a loop stores for each
of its passes. This primitive passes arguments and values alone.
"""

import functools
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
from typing_extensions import override

from lie_jax.numerics import jax_internals


class Program:
    """A traced function as a parameter of a primitive: a program that equals itself alone.

    JAX takes a jaxpr among the parameters of a primitive for a call of its own kind, hence the
    class. Programs that follow from one are kept with it.

    `values` is the program of the values alone where this one is a `Derivative`, else None.
    """

    values: Any = None

    def __init__(self, closed: Any):
        self._closed = closed
        self.jaxpr, self.consts = jax_internals.unpack(closed)
        self.arguments, self.results = (
            [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]
            for avals in (closed.in_avals, closed.out_avals)
        )
        self.has_effects = bool(closed.effects)
        self._kept: dict[Any, Any] = {}

    @classmethod
    def trace(cls, function: Callable, *arguments: Any) -> "Program":
        """Program of a function that returns a list of arrays."""
        return cls(jax.make_jaxpr(function)(*arguments))

    def __repr__(self):
        # Programs are compared by their texts: an address in them would make equal ones differ.
        return str(self.jaxpr)

    def __call__(self, *arguments: Any) -> list[Any]:
        """Results of the program: arrays, of NumPy where they are constants."""
        return jax_internals.evaluate(self, self.consts, *arguments)

    def with_constants(self) -> "tuple[Program, list]":
        """The program with its constants as first arguments, and these."""
        constants = list(map(jax.numpy.asarray, self.consts))
        if not constants:
            return self, []
        count = len(constants)

        def function(*given):
            return jax_internals.evaluate(self, given[:count], *given[count:])

        return Program.trace(function, *constants, *self.arguments), constants

    def following(self, key: Any, make: Callable[[], "Program"]) -> "Program":
        """The program that follows from this one by a rule, traced once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def without_unused(self) -> "tuple[Program, list[bool]]":
        """The program of the arguments that it uses, and which these are."""
        key = "without unused"
        if key not in self._kept:
            every = [True] * len(self.results)
            closed, used = jax_internals.with_results(self._closed, every, unused=False)
            self._kept[key] = self if all(used) else Program(closed), used
        return self._kept[key]

    def batch(self, axes: tuple, size: int) -> "Program":
        """Program of a batch, whose results are all mapped along their first axes."""

        def make():
            arguments = [
                x if axis is None else _with_axis(x, axis, size)
                for x, axis in zip(self.arguments, axes, strict=True)
            ]
            return Program.trace(jax.vmap(self, axes, axis_size=size), *arguments)

        return self.following(("batch", axes, size), make)

    def derivative(self, moving: tuple[bool, ...]) -> "Derivative":
        """Results and the tangents of those that change, in one program of arguments and of the
        tangents of those that are `moving`.
        """
        places = [i for i, x in enumerate(moving) if x]
        smooth = [jax.numpy.issubdtype(x.dtype, jax.numpy.inexact) for x in self.results]

        def function(*given):
            arguments, tangents = list(given[: len(moving)]), list(given[len(moving) :])

            def along(*moved):
                for i, x in zip(places, moved, strict=True):
                    arguments[i] = x
                results = self(*arguments)
                pairs = list(zip(results, smooth, strict=True))
                return [x for x, yes in pairs if yes], results

            start = [arguments[i] for i in places]
            _, changes, results = jax.jvp(along, start, tangents, has_aux=True)
            return [*results, *changes]

        def both():
            closed = jax.make_jaxpr(function)(*self.arguments, *(self.arguments[i] for i in places))
            # A tangent that depends on none is zero, behind `stop_gradient`, and must stay so for
            # JAX: a search whose arguments have tangents cannot be differentiated.
            size = len(self.results)
            follow = jax_internals.following(closed, len(moving))[size:]
            numbers = [i for i, yes in enumerate(smooth) if yes]
            changing = [i for i, yes in zip(numbers, follow, strict=True) if yes]
            wanted = [True] * size + follow
            closed, _ = jax_internals.with_results(closed, wanted)
            last = [False] * size + [True] * len(changing)
            changes = functools.partial(jax_internals.with_results, closed, last)
            return Derivative(closed, self, changing, lambda: Program(changes()[0]))

        return cast(Derivative, self.following(("derivative", moving), both))

    def transpose(self, linear: tuple[bool, ...], present: tuple[bool, ...]) -> "Program":
        """Cotangents of `linear` arguments, from the other ones and cotangents of the results that
        are `present`.
        """

        def make():
            pairs = list(zip(self.arguments, linear, strict=True))
            known = [x for x, is_linear in pairs if not is_linear]
            unknown = [x for x, is_linear in pairs if is_linear]

            def function(*given):
                def results(*arguments):
                    first, second = iter(given[: len(known)]), iter(arguments)
                    found = self(*(next(second if x else first) for x in linear))
                    return [x for x, is_there in zip(found, present, strict=True) if is_there]

                return jax.linear_transpose(results, *unknown)(list(given[len(known) :]))

            cotangents = [x for x, is_there in zip(self.results, present, strict=True) if is_there]
            return Program.trace(function, *known, *cotangents)

        return self.following(("transpose", linear, present), make)


class Derivative(Program):
    """Program of values and tangents, which reverse mode takes apart.

    `values` computes the first results from the first arguments; `changes`, the tangents of the
    results with numbers `changing` from all arguments, is linear in the last ones.
    """

    def __init__(
        self, closed: Any, values: Program, changing: list[int], changes: Callable[[], Program]
    ):
        super().__init__(closed)
        self.values, self.changing = values, changing
        self._changes = functools.cache(changes)

    @property
    def changes(self) -> Program:
        """Tangents of the values; most derivatives are never taken apart."""
        return self._changes()

    @override
    def batch(self, axes: tuple, size: int) -> Program:
        def make():
            plain = Program(self._closed).batch(axes, size)
            values = self.values.batch(axes[: len(self.values.arguments)], size)

            def changes():
                return self.changes.batch(axes, size)

            return Derivative(plain._closed, values, self.changing, changes)

        return self.following(("batch", axes, size), make)


def trace_call(
    function: Callable, args: tuple, kwargs: dict
) -> tuple[Program, list[jax.Array], Callable[[list], Any]]:
    """Program of a call of a function of pytrees, the arrays of its arguments, and the function
    that makes the call's value of the program's results.
    """
    arrays, others = eqx.partition((args, kwargs), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    leaves = list(map(jax.numpy.asarray, leaves))
    form: list[Any] = []

    def flat(*leaves):
        args, kwargs = eqx.combine(jax.tree.unflatten(structure, leaves), others)
        arrays, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        results, tree = jax.tree.flatten(arrays)
        form[:] = tree, static
        return results

    program = Program.trace(flat, *leaves)

    def together(results):
        tree, static = form
        return eqx.combine(jax.tree.unflatten(tree, results), static)

    return program, leaves, together


def _with_axis(x: jax.ShapeDtypeStruct, axis: int, size: int) -> jax.ShapeDtypeStruct:
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    return jax.ShapeDtypeStruct(shape, x.dtype, weak_type=x.weak_type)
