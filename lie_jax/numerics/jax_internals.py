"""Parts of JAX whose names and forms may change: used in this file only.

Each is imported when it is used: `import lie_jax` then never fails for want of one. JAX offers
no public way to define a primitive with rules of its own; a function with `jax.custom_jvp` or
`jax.custom_batching.custom_vmap` in its place loses its rules in a `jax.lax.scan` under reverse
mode (see `numerics.rules`).
"""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import jax
import jax.core


def is_traced(x: Any) -> bool:
    """Whether a value is a tracer: inside `jit`, `vmap` or a derivative, without numbers yet."""
    return isinstance(x, jax.core.Tracer)


def is_weak(x: Any) -> bool:
    """Whether the type of an array is that of a Python number; a key of `jax.random` has none."""
    return getattr(x, "weak_type", False)


def is_plain(x: Any) -> bool:
    """Whether a value is an array that belongs to no mesh of devices."""
    if not isinstance(x, jax.Array):
        return False
    return jax.typeof(x) == jax.core.ShapedArray(x.shape, x.dtype, weak_type=is_weak(x))


def traces_nothing() -> bool:
    """Whether no transformation of JAX is under way; False where a release does not say."""
    try:
        return importlib.import_module("jax._src.core").trace_state_clean()
    except (ImportError, AttributeError):
        return False


def has_computed() -> bool:
    """Whether JAX has started a backend, after which XLA no longer reads `XLA_FLAGS`."""
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def silence_xla() -> None:
    """Keep the lines that XLA writes by itself, below fatal errors, off the terminal."""
    try:
        importlib.import_module("jaxlib.utils").absl_set_min_log_level(3)
    except (ImportError, AttributeError):
        # Without the switch the lines stay on the terminal, which is harmless.
        return


def evaluate(program: Any, constants: Sequence, *arguments: Any) -> list[Any]:
    """Results of a program of `jax.make_jaxpr` with other constants."""
    from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

    return jaxpr_as_fun(ClosedJaxpr(program.jaxpr, constants))(*arguments)


def pass_through(
    name: str, kept: Callable[..., Sequence], batch: Callable, jvp: Callable | None = None
) -> Callable[..., list[jax.Array]]:
    """Primitive that returns some of its arguments unchanged, with custom rules.

    **Arguments:**

    - `kept(*arguments, **parameters)`: the arguments that it returns.
    - `batch(arguments, axes, **parameters)`: the results and their axes under `vmap`; an axis is
      None where nothing is mapped.
    - `jvp(primals, tangents, **parameters)`: the results and their tangents; a tangent is None
      where it is zero. Without it the results have no derivatives and must not be differentiated.

    **Returns** the function that applies the primitive to arrays (positional arguments) and
    parameters (keyword arguments).
    """
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    primitive = Primitive(name)
    primitive.multiple_results = True

    def results(*arguments, **parameters):
        return list(kept(*arguments, **parameters))

    primitive.def_impl(results)
    primitive.def_abstract_eval(results)
    mlir.register_lowering(primitive, lambda _, *values, **parameters: kept(*values, **parameters))
    batching.primitive_batchers[primitive] = batch

    if jvp is not None:

        def with_zeros(primals, tangents, **parameters):
            present = [None if type(x) is ad.Zero else x for x in tangents]
            values, changes = jvp(primals, present, **parameters)
            return values, [
                ad.Zero(jax.typeof(x).to_tangent_aval()) if change is None else change
                for x, change in zip(values, changes, strict=True)
            ]

        ad.primitive_jvps[primitive] = with_zeros
    return primitive.bind


def call_primitive(name: str, lowered: Callable[..., Sequence]) -> Callable:
    """Primitive that calls a `calls.Program`, with derivatives of any order and mode, and batches.

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
            values, changes = primitive.bind(*primals, program=program), {}
        else:
            given = [x for x, yes in zip(tangents, moving, strict=True) if yes]
            derivative = program.derivative(moving)
            found = primitive.bind(*primals, *given, program=derivative)
            values = found[:count]
            changes = dict(zip(derivative.changing, found[count:], strict=True))
        return values, [
            changes[i] if i in changes else ad.Zero(jax.typeof(x).to_tangent_aval())
            for i, x in enumerate(values)
        ]

    def transpose(cotangents, *arguments, program):
        linear = tuple(map(ad.is_undefined_primal, arguments))
        present = tuple(type(x) is not ad.Zero for x in cotangents)
        known = [x for x, yes in zip(arguments, linear, strict=True) if not yes]
        given = [x for x, yes in zip(cotangents, present, strict=True) if yes]
        # What only unused arguments need, as a search, is not computed again in a backward pass.
        pulled, used = program.transpose(linear, present).without_unused()
        needed = [x for x, yes in zip([*known, *given], used, strict=True) if yes]
        found = iter(primitive.bind(*needed, program=pulled))
        return [next(found) if yes else None for yes in linear]

    def batch(arguments, axes, *, program):
        axes = tuple(axes)
        size = next(
            x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None
        )
        if program.values is not None:
            count = len(program.values.arguments)
            if all(axis is None for axis in axes[:count]):
                # Values that do not differ from member to member, as in `jax.jacfwd`.
                values = primitive.bind(*arguments[:count], program=program.values)
                changes, mapped = batch(arguments, axes, program=program.changes)
                return [*values, *changes], [*[None] * len(values), *mapped]
        found = primitive.bind(*arguments, program=program.batch(axes, size))
        return found, [0] * len(found)

    def partial_evaluation(trace, *tracers, program):
        known = [trace.to_jaxpr_tracer(x).is_known() for x in tracers]
        count = len(program.values.arguments) if program.values is not None else 0
        if all(known) or not count or not all(known[:count]):
            return trace.default_process_primitive(primitive, tracers, {"program": program})
        parts = (tracers[:count], program.values), (tracers, program.changes)
        return [
            x
            for given, part in parts
            for x in trace.default_process_primitive(primitive, given, {"program": part})
        ]

    def split_for_backward(saveable, unknown, there, equation):
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
        count = len(program.values.arguments) if program.values is not None else 0
        if not count or any(unknown[:count]):
            return None, equation, [True] * len(results), [True] * len(results), needed
        values: Any = program.values
        size = len(values.results)
        first = equation.replace(
            invars=equation.invars[:count],
            outvars=results[:size],
            params={"program": values},
        )
        second = equation.replace(outvars=results[size:], params={"program": program.changes})
        later = [False] * size + [True] * (len(results) - size)
        return first, second, later, list(later), needed

    def without_unused(used, *others):
        equation = others[-1]
        program, given = equation.params["program"], equation.invars
        if not any(used):
            return [False] * len(given), None
        if program.values is not None:
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
    partial_eval.custom_partial_eval_rules[primitive] = partial_evaluation
    partial_eval.partial_eval_jaxpr_custom_rules[primitive] = split_for_backward
    partial_eval.dce_rules[primitive] = without_unused

    def plain(*arguments, program):
        return program(*arguments)

    def on_cpu(*arguments, program):
        return lowered(program, arguments)

    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=True))
    compiled = mlir.lower_fun(on_cpu, multiple_results=True)
    mlir.register_lowering(primitive, compiled, platform="cpu")
    return primitive.bind


def unpack(program: Any) -> tuple[Any, Sequence]:
    """Equations of a program and its constants; since JAX 0.12 they are one object."""
    if hasattr(program, "consts"):
        return program.jaxpr, program.consts
    return program, ()


def with_results(closed: Any, wanted: list[bool], unused: bool = True) -> tuple[Any, list[bool]]:
    """Program of the `wanted` results of a closed one, without what only others need, and which of
    the arguments it uses; `unused`: whether it keeps the others.
    """
    from jax.extend.core import ClosedJaxpr
    from jax.interpreters import partial_eval

    program, constants = unpack(closed)
    program, used = partial_eval.dce_jaxpr(program, wanted, instantiate=unused)
    return ClosedJaxpr(program, constants), used


def following(closed: Any, count: int) -> list[bool]:
    """Whether results of a program follow from its arguments beyond the first `count`."""
    program, _ = unpack(closed)
    known = set(program.invars[count:])

    def follows(x):
        return not hasattr(x, "val") and x in known

    for equation in program.eqns:
        if any(map(follows, equation.invars)):
            known.update(equation.outvars)
    return list(map(follows, program.outvars))


def bind(equation: Any, values: Sequence) -> list[jax.Array]:
    """Results of one equation of a program for other values."""
    primitive = equation.primitive
    found = primitive.bind(*values, **primitive.get_bind_params(equation.params))
    return list(found) if primitive.multiple_results else [found]


def inside(equation: Any) -> list[Any]:
    """Programs inside of an equation: bodies of loops, branches and calls."""
    found = []
    for value in equation.params.values():
        for each in value if isinstance(value, tuple) else (value,):
            if hasattr(each, "eqns") or hasattr(each, "jaxpr"):
                found.append(each)
    return found


# Work of JAX before a program runs, by the files whose functions do it.
TRACING, COMPILING = "tracing", "compiling"
# Names of the events that JAX records when it has lowered a program, before it compiles it, and
# when it has compiled it.
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
_SOURCE = os.path.join(os.path.dirname(jax.__file__), "_src")
_PHASES = {
    os.path.join(_SOURCE, "compiler.py"): COMPILING,
    os.path.join(_SOURCE, "interpreters", "mlir.py"): TRACING,
    os.path.join(_SOURCE, "interpreters", "partial_eval.py"): TRACING,
}


def phase(frame: FrameType | None) -> str | None:
    """`TRACING`, lowering included, or `COMPILING`, if a thread does so at a frame, else None.

    JAX has no public sign of either. With a release that has other files, there are no phases.
    """
    while frame is not None:
        name = _PHASES.get(frame.f_code.co_filename)
        if name is not None:
            return name
        frame = frame.f_back
    return None


def call_with_attributes(function: Callable, **attributes: str) -> Callable | None:
    """Function as a call that carries attributes for XLA; None in a release that has no such."""
    for module in ("xla_metadata", "scheduling_groups"):
        try:
            found = importlib.import_module(f"jax.experimental.{module}")
        except ImportError:
            continue
        if hasattr(found, "xla_metadata_call"):
            return found.xla_metadata_call(function, **attributes)
    return None


def equations(program: Any) -> Iterator[Any]:
    """All equations of a program, those of programs inside of it included."""
    jaxpr, _ = unpack(program)
    for equation in jaxpr.eqns:
        yield equation
        for each in inside(equation):
            yield from equations(each)
