"""Checks of input values, made when an object is built or a simulation starts.

A message names the value, the rule and the fix. Values that JAX traces (inside `jit`, `grad`,
`vmap`) have no numbers yet and pass unchecked.
"""

import functools
import inspect
import os
import reprlib
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.numerics import conversion, jax_internals
from lie_jax.user_functions import reader, snapshots

# Relative slack for rules that hold up to the rounding of the user's input (symmetry, unit norm).
INPUT_SLACK = 1e-8


def has_tracers(*values: Any) -> bool:
    """Whether any array in the values is a tracer."""
    return any(jax_internals.is_traced(leaf) for leaf in jax.tree.leaves(values))


def name(name: str, value: Any) -> None:
    """Raise unless the value is a name: text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {value!r}; it must be text, not empty: put it in quotes.")


def function(name: str, value: Any, *arguments: str) -> None:
    """Raise unless the value can be called, with these positional arguments if any are named.

    Raises for a class in the place of its instance, too.
    """
    if not callable(value):
        raise ValueError(
            f"{name} is {reprlib.repr(value)}; it must be a function: pass the function "
            "itself, not its name or what it returns."
        )
    inner = value.function if isinstance(value, snapshots.Function) else value
    of_calls = any("__call__" in vars(base) for base in getattr(inner, "__mro__", ()))
    if isinstance(inner, type) and (arguments or of_calls):
        raise ValueError(
            f"{name} is the class {inner.__qualname__}; it must be a function, or an instance of "
            f"that class: make one, {inner.__qualname__}(...), and pass it."
        )
    try:
        signature = inspect.signature(inner)
    except (TypeError, ValueError):  # Some functions that are no Python have none.
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        if arguments:
            call = f"({', '.join(arguments)})"
            raise ValueError(
                f"{name} is {reader.name_of(inner)}{signature}, and it is called with {call}: "
                f"{error}; give it these arguments in this order, also those that it does not use."
            ) from None


def path(name: str, value: Any) -> None:
    """Raise unless the value can be the name of a file or folder."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError(
            f"{name} is a value of type {type(value).__name__}; it must be the name of a file or "
            "folder, text or a pathlib.Path: check the order of the arguments."
        )


def one_of(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise unless the value is one of the allowed ones."""
    if value not in allowed:
        words = ", ".join(repr(a) for a in allowed)
        raise ValueError(f"{name} is {value!r}; it must be one of: {words}.")


def real(name: str, value: Any) -> None:
    """Raise unless the value is made of real numbers: an array, a number, or lists of them.

    All checks of numbers begin here: `as_float`, the converter of fields, returns others unchanged.
    """
    if conversion.real_shape(value) is None:
        dtype = getattr(value, "dtype", None)
        defect = f"is {reprlib.repr(value)}" if dtype is None else f"has dtype {dtype}"
        if np.ma.is_masked(value):
            defect = "has masked entries"
        raise ValueError(
            f"{name} {defect}; it must be made of real numbers (integers, or floats in single or "
            "double precision): give a number, an array, or lists of equal length (no text, None, "
            "True, complex or masked number)."
        )


def real_leaves(name: str, tree: Any) -> None:
    """Raise unless a pytree has leaves, and all of them are made of real numbers."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree) or [((), tree)]:
        real(f"{name}{jax.tree_util.keystr(path)}", leaf)


def one_precision(parts: Sequence[tuple[str, Any]]) -> None:
    """Raise unless all floats in named pytrees have one dtype; weakly typed ones go with any."""
    first_paths: dict[Any, str] = {}
    for part, tree in parts:
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            is_float = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.inexact)
            if is_float and not leaf.weak_type:
                first_paths.setdefault(leaf.dtype, part + jax.tree_util.keystr(path))
    if len(first_paths) > 1:
        listed = " and ".join(f"{where} is {dtype}" for dtype, where in first_paths.items())
        raise ValueError(
            f"{listed}; all must have one precision: make everything after lie_jax.configure() "
            "(arrays made before it are float32), or cast it with "
            "jax.tree.map(lambda x: x.astype(dtype), ...)."
        )


def shape(name: str, value: Any, expected: tuple[int, ...], meaning: str) -> None:
    """Raise unless an array has the expected shape."""
    real(name, value)
    if tuple(np.shape(value)) != expected:
        raise ValueError(
            f"{name} has shape {tuple(np.shape(value))}; it must have shape {expected}: {meaning}."
        )


def instant(name: str, value: Any, size: int) -> None:
    """Raise unless q or v belongs to one instant: rows of a trajectory would pass other checks."""
    if hasattr(value, "q") and hasattr(value, "v"):
        raise ValueError(
            f"{name} is a {type(value).__name__}; it must have shape ({size},): give its part, "
            "such as state.q."
        )
    shape(name, value, (size,), "one instant of this system; use jax.vmap for a trajectory")


def trailing(name: str, value: Any, expected: tuple[int, ...], meaning: str) -> None:
    """Raise unless the last axes of an array have the expected sizes."""
    real(name, value)
    shape = tuple(np.shape(value))
    if shape[-len(expected) :] != expected:
        sizes = ", ".join(("...", *map(str, expected)))
        raise ValueError(f"{name} has shape {shape}; it must have shape ({sizes}): {meaning}.")


def one_element(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of single arrays take lists and NumPy arrays too, and refuse wrong shapes.

    The shapes are those of the annotations; a size given by a letter must be the same in all
    arguments. A batch passed without `jax.vmap` would otherwise fail far inside, or broadcast.
    """
    signature = inspect.signature(function)
    called = f"{function.__module__.split('.')[-1]}.{function.__name__}"
    expected = {
        name: parameter.annotation.dim_str.split()
        for name, parameter in signature.parameters.items()
        if "*" not in getattr(parameter.annotation, "dim_str", "*")
    }
    if not expected:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        values = bound.arguments
        arrays = (values[name] for name in expected if isinstance(values[name], jax.Array))
        dtype = next((a.dtype for a in arrays if jnp.issubdtype(a.dtype, jnp.floating)), None)
        sizes: dict[str, int] = {}
        for name, dimensions in expected.items():
            real(f"{called}: {name}", values[name])
            values[name] = conversion.in_precision(values[name], dtype)
            shape = values[name].shape
            for dimension, size in zip(dimensions, shape, strict=False):
                if not dimension.isdigit():
                    sizes.setdefault(dimension, size)
            wanted = tuple(int(d) if d.isdigit() else sizes.get(d, d) for d in dimensions)
            if shape != wanted:
                raise ValueError(
                    f"{called}: {name} has shape {shape}; it must have shape "
                    f"({', '.join(map(str, wanted))}{',' if len(wanted) == 1 else ''}): the "
                    "function takes one element, use jax.vmap for batches."
                )
        return function(*bound.args, **bound.kwargs)

    return call


def take_one_element(module: dict[str, Any]) -> None:
    """Make `one_element` of the public functions that a module, given by its globals, defines."""
    for name, value in module.items():
        if isinstance(value, types.FunctionType) and value.__module__ == module["__name__"]:
            module[name] = value if name.startswith("_") else one_element(value)


def rotation(name: str, value: Any) -> None:
    """Raise unless concrete matrices (..., 3, 3) are rotations up to rounding."""
    trailing(name, value, (3, 3), "a rotation matrix")
    finite(name, value)
    if has_tracers(value):
        return
    matrices = np.asarray(value).reshape(-1, 3, 3)
    defects = np.abs(np.swapaxes(matrices, 1, 2) @ matrices - np.eye(3)).max(axis=(1, 2))
    determinants = np.linalg.det(matrices)
    wrong = (defects > np.sqrt(np.finfo(matrices.dtype).eps)) | (determinants < 0.0)
    if wrong.any():
        i = int(np.argmax(wrong))
        matrix, defect, determinant = matrices[i], defects[i], determinants[i]
        raise ValueError(
            f"{name} is {matrix.tolist()}; it must be a rotation matrix, but RᵀR differs from the "
            f"unit matrix by {defect:.3g} and the determinant is {determinant:.6g}: orthonormalise "
            "it (with U Vᵀ of its singular value decomposition), and check rows against columns."
        )


def finite(name: str, value: Any) -> None:
    """Raise if a concrete array holds a NaN or an infinity."""
    real(name, value)
    if has_tracers(value):
        return
    array = np.asarray(value)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = f" at index {tuple(bad[0].tolist())}" if array.ndim else ""
        raise ValueError(
            f"{name} is {array[tuple(bad[0])]}{index}; every number must be finite: look for a "
            "division by zero or a missing value where it comes from."
        )


def scalar(name: str, value: Any, unit: str) -> None:
    """Raise unless the value is one number."""
    if conversion.real_shape(value) != ():
        raise ValueError(
            f"{name} is {reprlib.repr(value)}; it must be one number ({unit}): give an integer or "
            "a float (no array, text, None, True or complex number)."
        )


def positive(name: str, value: Any, unit: str) -> None:
    """Raise unless a concrete number is finite and greater than zero."""
    _number(name, value, unit, "positive and finite", lambda x: x > 0.0)


def non_negative(name: str, value: Any, unit: str) -> None:
    """Raise unless a concrete number is finite and not negative."""
    _number(name, value, unit, "finite and not negative", lambda x: x >= 0.0)


def _number(name: str, value: Any, unit: str, rule: str, holds: Callable[[float], bool]) -> None:
    scalar(name, value, unit)
    if not has_tracers(value) and not (np.isfinite(float(value)) and holds(float(value))):
        raise ValueError(
            f"{name} is {float(value)!r}; it must be {rule} ({unit}): check sign and unit."
        )


def positive_integer(name: str, value: Any, meaning: str) -> None:
    """Raise unless the value is a Python (or NumPy) integer of at least 1."""
    if has_tracers(value):
        raise ValueError(
            f"{name} is traced by JAX; it must be a Python integer: pass it from outside of "
            "jax.jit, or name it in static_argnames=."
        )
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1: {meaning}.")


def direction(name: str, value: Any, frame: str) -> None:
    """Raise unless a vector (3,), made by `fields.as_direction`, is a direction."""
    shape(name, value, (3,), f"a direction, components of the {frame} frame")
    finite(name, value)
    if not has_tracers(value) and not abs(float(np.linalg.norm(value)) - 1.0) < 0.5:
        raise ValueError(
            f"{name} is ({', '.join(f'{x:g}' for x in value.tolist())}), zero up to rounding; it "
            f"must be a direction in the {frame} frame, of any length but zero: give for example "
            "(0, 0, 1)."
        )


def unit_vector(name: str, value: Any, frame: str) -> None:
    """Raise unless an array (3,) is finite and, if it is concrete, of length 1."""
    shape(name, value, (3,), f"a unit vector, components of the {frame} frame")
    finite(name, value)
    if has_tracers(value):
        return
    length = float(np.linalg.norm(value))
    if not abs(length - 1.0) <= _rounding(np.asarray(value)):
        raise ValueError(f"{name} has length {length:.6g}; it must be 1: divide it by its length.")


def inertia(name: str, value: Any, triangle: bool = True) -> None:
    """Raise unless a concrete matrix (3, 3) is the inertia of some distribution of mass.

    Without `triangle` it need only be symmetric and positive definite.
    """
    shape(name, value, (3, 3), "the inertia about the centre of mass in body axes, kg m²")
    finite(name, value)
    if has_tracers(value):
        return
    matrix = np.asarray(value, dtype=float)
    slack = _rounding(np.asarray(value)) * np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > slack:
        raise ValueError(
            f"{name} is {matrix.tolist()}; an inertia matrix must be symmetric: give the same "
            "products of inertia above and below the diagonal."
        )
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] <= 0.0:
        raise ValueError(
            f"{name} has principal moments {moments.tolist()}; an inertia matrix must be positive "
            "definite: for a point mass take lie_jax.solids.sphere(mass, radius) (held and pushed "
            "at its centre it moves as a point, whatever the radius), give a thin rod a small "
            "radius, or check the signs of the products of inertia."
        )
    if triangle and moments[0] + moments[1] < moments[2] - slack:
        raise ValueError(
            f"{name} has principal moments {moments.tolist()}; the two smaller ones must add up to "
            "at least the largest (triangle inequality): no distribution of mass has this inertia; "
            "check that it is taken about the centre of mass, or keep published data as they are "
            "by Body(..., check_inertia=False)."
        )


def semidefinite(name: str, value: Any, unit: str) -> None:
    """Raise unless a concrete matrix (3, 3) is symmetric and positive semidefinite."""
    shape(name, value, (3, 3), f"{unit}; or three numbers along the axes")
    finite(name, value)
    if has_tracers(value):
        return
    matrix = np.asarray(value, dtype=float)
    slack = _rounding(np.asarray(value)) * np.abs(matrix).max()
    smallest = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0]
    if np.abs(matrix - matrix.T).max() > slack or smallest < -slack:
        raise ValueError(
            f"{name} is {matrix.tolist()}; it must be symmetric without negative eigenvalues "
            f"({unit}): check signs, and the numbers above and below the diagonal."
        )


def definite_by_units(name: str, value: Any, size: int, units: str, *, semi: bool = False) -> None:
    """Raise unless a concrete matrix (size, size) of several `units` is symmetric and positive
    definite, or `semi`definite: entries are compared with those of the diagonal.
    """
    shape(name, value, (size, size), units)
    finite(name, value)
    if has_tracers(value):
        return
    matrix, slack = np.asarray(value, dtype=float), _rounding(np.asarray(value))
    scale = np.sqrt(np.abs(np.diagonal(matrix)))
    scale = np.where(scale > 0.0, scale, 1.0)
    scaled = matrix / scale[:, None] / scale[None]
    differences = np.abs(scaled - scaled.T)
    if differences.max() > slack:
        i, j = np.unravel_index(np.argmax(differences), matrix.shape)
        raise ValueError(
            f"{name} has {matrix[i, j]:.6g} at ({i}, {j}) and {matrix[j, i]:.6g} at ({j}, {i}); it "
            f"must be symmetric ({units}): give the same number above and below the diagonal."
        )
    least = np.linalg.eigvalsh(0.5 * (scaled + scaled.T))[0]
    if least < -slack if semi else least <= 0.0:
        raise ValueError(
            f"{name} has the diagonal {np.diagonal(matrix).tolist()} and in parts of it the "
            f"eigenvalue {least:.3g}; it must be positive {'semi' if semi else ''}definite "
            f"({units}): check signs, and the sizes of numbers off the diagonal."
        )


def _rounding(value: Any) -> float:
    """Largest error over the size of a number that rounding of inputs explains."""
    return max(INPUT_SLACK, 8 * float(np.finfo(np.result_type(value, np.float32)).eps))


def unit_quaternion(name: str, value: Any) -> None:
    """Raise unless a concrete array (4,) is a unit quaternion."""
    shape(name, value, (4,), "a unit quaternion, scalar first")
    unit_quaternions(name, value)


def unit_quaternions(name: str, value: Any) -> None:
    """Raise unless concrete arrays (..., 4) are unit quaternions."""
    trailing(name, value, (4,), "unit quaternions, scalar first")
    finite(name, value)
    if has_tracers(value):
        return
    arrays = np.asarray(value).reshape(-1, 4)
    norms = np.linalg.norm(arrays, axis=1)
    wrong = np.abs(norms - 1.0) > _rounding(arrays)
    if wrong.any():
        array, norm = arrays[np.argmax(wrong)], norms[np.argmax(wrong)]
        raise ValueError(
            f"{name} is {array.tolist()} with norm {norm:.9g}; it must be a unit quaternion, "
            "scalar first: divide it by its norm, or make it with lie_jax.groups.quaternion.exp."
        )
