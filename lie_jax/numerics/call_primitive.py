"""A primitive that calls a program: one equation for many, with the rules of the many.

A call of `jax.jit` would do if reverse mode did not take it apart: what the forward half of a part
of a step passes to the backward half are hundreds of arrays, each of which a loop stores for each
of its passes. This primitive passes arguments and values alone.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.core
from typing_extensions import override

from lie_jax.numerics import jax_internals


class Program:
    """A traced function as a parameter of a primitive: a program that equals itself alone.

    JAX takes a jaxpr among the parameters of a primitive for a call of its own kind, hence the
    class. Programs that follow from one are kept with it.
    """

    def __init__(self, closed: Any):
        self._closed = closed
        self.jaxpr, self.consts = jax_internals.opened(closed)
        self.arguments, self.results = (
            [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]
            for avals in (closed.in_avals, closed.out_avals)
        )
        self.has_effects = bool(closed.effects)
        self._kept: dict[Any, Program] = {}

    @classmethod
    def trace(cls, function: Callable, *arguments: Any) -> "Program":
        """Program of a function that returns a list of arrays."""
        return cls(jax.make_jaxpr(function)(*arguments))

    def __repr__(self):
        # Programs are compared by their texts, in which an address would tell nothing.
        return str(self.jaxpr)

    def __call__(self, *arguments: Any) -> list[Any]:
        """Results of the program: arrays, of NumPy where they are constants."""
        from jax.extend.core import jaxpr_as_fun

        return jaxpr_as_fun(self._closed)(*arguments)

    def following(self, key: Any, make: Callable[[], "Program"]) -> "Program":
        """The program that follows from this one by a rule, traced once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def mapped(self, axes: tuple, size: int) -> "Program":
        """Program of a batch, whose results are all mapped along their first axes."""

        def make():
            arguments = [
                x if axis is None else _lengthened(x, axis, size)
                for x, axis in zip(self.arguments, axes, strict=True)
            ]
            return Program.trace(jax.vmap(self, axes, axis_size=size), *arguments)

        return self.following(("mapped", axes, size), make)

    def differentiated(self, moving: tuple[bool, ...]) -> "Derivative":
        """Results and tangents of those that are differentiable, in one program of arguments and of
        the tangents of those that are `moving`.
        """
        places = [i for i, x in enumerate(moving) if x]
        smooth = [jax.numpy.issubdtype(x.dtype, jax.numpy.inexact) for x in self.results]

        def make(with_values):
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
                return [*(results if with_values else ()), *changes]

            tangents = [self.arguments[i] for i in places]
            return jax.make_jaxpr(function)(*self.arguments, *tangents)

        def both():
            return Derivative(make(True), self, lambda: Program(make(False)))

        return cast(Derivative, self.following(("differentiated", moving), both))

    def transposed(self, linear: tuple[bool, ...], present: tuple[bool, ...]) -> "Program":
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

        return self.following(("transposed", linear, present), make)


class Derivative(Program):
    """Program of values and tangents, which reverse mode takes apart.

    `values` computes the first results from the first arguments; `changes`, the tangents from all
    arguments, is linear in the last ones.
    """

    def __init__(self, closed: Any, values: Program, changes: Callable[[], Program]):
        super().__init__(closed)
        self.values, self._changes = values, functools.cache(changes)

    @property
    def changes(self) -> Program:
        """Tangents of the values; most derivatives are never taken apart."""
        return self._changes()

    @override
    def mapped(self, axes: tuple, size: int) -> Program:
        def make():
            plain = Program(self._closed).mapped(axes, size)
            values = self.values.mapped(axes[: len(self.values.arguments)], size)
            return Derivative(plain._closed, values, lambda: self.changes.mapped(axes, size))

        return self.following(("mapped", axes, size), make)


def _lengthened(x: jax.ShapeDtypeStruct, axis: int, size: int) -> jax.ShapeDtypeStruct:
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    return jax.ShapeDtypeStruct(shape, x.dtype, weak_type=x.weak_type)


def call_primitive(name: str, lowered: Callable[..., Sequence]) -> Callable:
    """Primitive that calls a `Program`, with derivatives of any order and mode, and batches.

    On the CPU `lowered(program, arguments)` is compiled, elsewhere the program itself. Reverse mode
    keeps a call's arguments and values, and no other number: the backward pass evaluates the
    program again, as a part of its transpose.

    **Returns** the function that applies the primitive to arrays (positional) and `program=`.
    """
    from jax.extend.core import Primitive, Var
    from jax.interpreters import ad, batching, mlir, partial_eval

    primitive = Primitive(name)
    primitive.multiple_results = True

    def abstract(*arguments, program):
        return [jax.core.ShapedArray(x.shape, x.dtype, x.weak_type) for x in program.results]

    def jvp(primals, tangents, *, program):
        moving = tuple(type(x) is not ad.Zero for x in tangents)
        count = len(program.results)
        if not any(moving):
            values, changes = primitive.bind(*primals, program=program), []
        else:
            given = [x for x, yes in zip(tangents, moving, strict=True) if yes]
            found = primitive.bind(*primals, *given, program=program.differentiated(moving))
            values, changes = found[:count], found[count:]
        remaining = iter(changes)
        return values, [
            next(remaining)
            if changes and jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)
            else ad.Zero(jax.typeof(x).to_tangent_aval())
            for x in values
        ]

    def transpose(cotangents, *arguments, program):
        linear = tuple(map(ad.is_undefined_primal, arguments))
        present = tuple(type(x) is not ad.Zero for x in cotangents)
        known = [x for x, yes in zip(arguments, linear, strict=True) if not yes]
        given = [x for x, yes in zip(cotangents, present, strict=True) if yes]
        found = iter(primitive.bind(*known, *given, program=program.transposed(linear, present)))
        return [next(found) if yes else None for yes in linear]

    def batch(arguments, axes, *, program):
        axes = tuple(axes)
        size = next(
            x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None
        )
        if isinstance(program, Derivative):
            count = len(program.values.arguments)
            if all(axis is None for axis in axes[:count]):
                # Values that do not differ from member to member, as in `jax.jacfwd`.
                values = primitive.bind(*arguments[:count], program=program.values)
                changes, mapped = batch(arguments, axes, program=program.changes)
                return [*values, *changes], [*[None] * len(values), *mapped]
        found = primitive.bind(*arguments, program=program.mapped(axes, size))
        return found, [0] * len(found)

    def partially_evaluated(trace, *tracers, program):
        known = [trace.to_jaxpr_tracer(x).is_known() for x in tracers]
        count = len(program.values.arguments) if isinstance(program, Derivative) else 0
        if all(known) or not count or not all(known[:count]):
            return trace.default_process_primitive(primitive, tracers, {"program": program})
        parts = (tracers[:count], program.values), (tracers, program.changes)
        return [
            x
            for given, part in parts
            for x in trace.default_process_primitive(primitive, given, {"program": part})
        ]

    def checkpointed(saveable, unknown, there, equation):
        # The equations before and in the backward pass, which of the results are unknown to the
        # former and computed by the latter, and what the latter needs of the former.
        program, results = equation.params["program"], equation.outvars
        pairs = zip(equation.invars, there, strict=True)
        needed = [x for x, is_there in pairs if isinstance(x, Var) and not is_there]
        if not any(unknown):
            kept = saveable(primitive, *[x.aval for x in equation.invars], **equation.params)
            if kept is True or type(kept).__name__ == "SaveableType":
                return equation, None, [False] * len(results), [False] * len(results), []
            return equation, equation, [False] * len(results), [True] * len(results), needed
        count = len(program.values.arguments) if isinstance(program, Derivative) else 0
        if not count or any(unknown[:count]):
            return None, equation, [True] * len(results), [True] * len(results), needed
        size = len(program.values.results)
        first = equation.replace(
            invars=equation.invars[:count],
            outvars=results[:size],
            params={"program": program.values},
        )
        second = equation.replace(outvars=results[size:], params={"program": program.changes})
        later = [False] * size + [True] * (len(results) - size)
        return first, second, later, list(later), needed

    def without_unused(used, *others):
        equation = others[-1]
        program, given = equation.params["program"], equation.invars
        if not any(used):
            return [False] * len(given), None
        if isinstance(program, Derivative):
            size, count = len(program.values.results), len(program.values.arguments)
            if not any(used[size:]):
                equation = equation.replace(
                    invars=given[:count],
                    outvars=equation.outvars[:size],
                    params={"program": program.values},
                )
                needed, equation = without_unused(used[:size], equation)
                return [*needed, *[False] * (len(given) - count)], equation
            if not any(used[:size]):
                outvars, params = equation.outvars[size:], {"program": program.changes}
                equation = equation.replace(outvars=outvars, params=params)
        return [True] * len(given), equation

    primitive.def_impl(lambda *arguments, program: program(*arguments))
    primitive.def_abstract_eval(abstract)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    partial_eval.custom_partial_eval_rules[primitive] = partially_evaluated
    partial_eval.partial_eval_jaxpr_custom_rules[primitive] = checkpointed
    partial_eval.dce_rules[primitive] = without_unused

    def plain(*arguments, program):
        return program(*arguments)

    def on_cpu(*arguments, program):
        return lowered(program, arguments)

    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=True))
    compiled = mlir.lower_fun(on_cpu, multiple_results=True)
    mlir.register_lowering(primitive, compiled, platform="cpu")
    return primitive.bind
