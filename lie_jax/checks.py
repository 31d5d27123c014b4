"""Checks of input values, run when a thing is built or a simulation starts.

A message names the value, the rule and the fix. Values that are being traced by JAX (inside `jit`,
`grad`, `vmap`) cannot be looked at and pass unchecked.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from lie_jax import algebra

P = ParamSpec("P")
T = TypeVar("T")

# Relative slack for rules that hold up to the rounding of the user's input (symmetry, unit norm).
INPUT_SLACK = 1e-8


def traced(*values: Any) -> bool:
    """Whether any array in the values is a tracer."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise unless the value is one of the allowed words."""
    if value not in allowed:
        words = ", ".join(repr(a) for a in allowed)
        raise ValueError(f"{name} is {value!r}; it must be one of: {words}.")


def shape(name: str, value: Any, expected: tuple[int, ...], meaning: str) -> None:
    """Raise unless an array has the expected shape."""
    if tuple(np.shape(value)) != expected:
        raise ValueError(
            f"{name} has shape {tuple(np.shape(value))}; it must have shape {expected}: {meaning}."
        )


def trailing(name: str, value: Any, expected: tuple[int, ...], meaning: str) -> None:
    """Raise unless the last axes of an array have the expected sizes."""
    found = tuple(np.shape(value))
    if found[-len(expected) :] != expected:
        sizes = ", ".join(("...", *map(str, expected)))
        raise ValueError(f"{name} has shape {found}; it must have shape ({sizes}): {meaning}.")


def one_element(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function of single arrays take lists and NumPy arrays too, and refuse wrong shapes.

    The shapes are those of the annotations, where they are numbers: a batch passed without
    `jax.vmap` would otherwise fail far inside, or broadcast.
    """
    signature = inspect.signature(function)
    label = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
    expected = {}
    for name, parameter in signature.parameters.items():
        sizes = getattr(parameter.annotation, "dim_str", "").split()
        if sizes and all(size.isdigit() for size in sizes):
            expected[name] = tuple(int(size) for size in sizes)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        for name, sizes in expected.items():
            value = bound.arguments[name]
            if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating)):
                value = bound.arguments[name] = algebra.as_float(value)
            if value.shape != sizes:
                raise ValueError(
                    f"{label}: {name} has shape {value.shape}; it must have shape {sizes}: the "
                    "function takes one element, use jax.vmap for batches."
                )
        return function(*bound.args, **bound.kwargs)

    return checked


def rotation(name: str, value: Any) -> None:
    """Raise unless a concrete matrix (3, 3) is a rotation up to rounding."""
    shape(name, value, (3, 3), "a rotation matrix")
    finite(name, value)
    if traced(value):
        return
    matrix = np.asarray(value)
    defect = float(np.abs(matrix.T @ matrix - np.eye(3)).max())
    determinant = float(np.linalg.det(matrix))
    if defect > np.sqrt(np.finfo(matrix.dtype).eps) or determinant < 0.0:
        raise ValueError(
            f"{name} is {matrix.tolist()}; it must be a rotation matrix, but RᵀR differs from the "
            f"unit matrix by {defect:.3g} and the determinant is {determinant:.6g}: orthonormalise "
            "it (with U Vᵀ of its singular value decomposition), and check rows against columns."
        )


def finite(name: str, value: Any) -> None:
    """Raise if a concrete array holds a NaN or an infinity."""
    if traced(value):
        return
    array = np.asarray(value)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = f" at index {tuple(bad[0].tolist())}" if array.ndim else ""
        raise ValueError(
            f"{name} is {array[tuple(bad[0])]}{place}; every number must be finite: look for a "
            "division by zero or a missing value where it comes from."
        )


def scalar(name: str, value: Any, unit: str) -> None:
    """Raise unless the value is one number."""
    if isinstance(value, str) or np.ndim(value) != 0:
        raise ValueError(f"{name} is {value!r}; it must be one number ({unit}), not an array.")


def positive(name: str, value: Any, unit: str) -> None:
    """Raise unless a concrete number is finite and greater than zero."""
    scalar(name, value, unit)
    if traced(value):
        return
    number = float(value)
    if not (np.isfinite(number) and number > 0.0):
        raise ValueError(
            f"{name} is {number!r}; it must be a positive number ({unit}): check sign and unit."
        )


def non_negative(name: str, value: Any, unit: str) -> None:
    """Raise unless a concrete number is finite and not negative."""
    scalar(name, value, unit)
    if traced(value):
        return
    number = float(value)
    if not (np.isfinite(number) and number >= 0.0):
        raise ValueError(f"{name} is {number!r}; it must not be negative ({unit}): check its sign.")


def positive_integer(name: str, value: Any, meaning: str) -> None:
    """Raise unless the value is a Python (or NumPy) integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least 1: {meaning}.")


def inertia(name: str, value: Any) -> None:
    """Raise unless a concrete matrix (3, 3) is the inertia of some distribution of mass."""
    shape(name, value, (3, 3), "the inertia about the centre of mass in body axes, kg m²")
    finite(name, value)
    if traced(value):
        return
    matrix = np.asarray(value, dtype=float)
    slack = INPUT_SLACK * np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > slack:
        raise ValueError(
            f"{name} is {matrix.tolist()}; an inertia matrix must be symmetric: give the same "
            "products of inertia above and below the diagonal."
        )
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] <= 0.0:
        raise ValueError(
            f"{name} has principal moments {moments.tolist()}; an inertia matrix must be positive "
            "definite: check its units and the signs of the products of inertia."
        )
    if moments[0] + moments[1] < moments[2] - slack:
        raise ValueError(
            f"{name} has principal moments {moments.tolist()}; the two smaller ones must add up to "
            "at least the largest (triangle inequality): no distribution of mass has this inertia; "
            "check that it is taken about the centre of mass."
        )


def unit_quaternion(name: str, value: Any) -> None:
    """Raise unless a concrete array (4,) is a unit quaternion."""
    shape(name, value, (4,), "a unit quaternion, scalar first")
    finite(name, value)
    if traced(value):
        return
    array = np.asarray(value)
    norm = float(np.linalg.norm(array))
    if abs(norm - 1.0) > max(INPUT_SLACK, 8 * float(np.finfo(array.dtype).eps)):
        raise ValueError(
            f"{name} is {array.tolist()} with norm {norm:.9g}; it must be a unit quaternion, "
            "scalar first: divide it by its norm, or make it with lie_jax.quaternion.exp."
        )
