"""Parts of JAX whose names and forms may change: used here and in `call_primitive` only.

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


def evaluated(program: Any, constants: Sequence, *arguments: jax.Array) -> list[jax.Array]:
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


def opened(program: Any) -> tuple[Any, Sequence]:
    """Equations of a program and its constants; since JAX 0.12 they are one object."""
    if hasattr(program, "consts"):
        return program.jaxpr, program.consts
    return program, ()


def applied(equation: Any, values: Sequence) -> list[jax.Array]:
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
# Name of the event that JAX records when it has compiled a program.
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


def marked_call(function: Callable, **attributes: str) -> Callable | None:
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
    jaxpr, _ = opened(program)
    for equation in jaxpr.eqns:
        yield equation
        for each in inside(equation):
            yield from equations(each)
