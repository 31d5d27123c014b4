"""Fields of joints and forces, with their converters and checks.

A field made here raises `ValueError` with the name of the element and the field for a value that
its meaning does not allow. `body_name` and `input_number` also declare a role: elements that differ
in numbers and in these two alone are stacked and compiled once, whatever their fields are called.
Messages name the `unit` or the `meaning`; a field with a `default` may be left out, and one
with `kw_only=True` is given by name.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.signals import as_signal, check_signal
from lie_jax.numerics import conversion, small
from lie_jax.numerics.conversion import as_float

if TYPE_CHECKING:
    T = TypeVar("T")

    class Converted(Generic[T]):
        """A field of type T; a constructor accepts everything that its converter accepts."""

        def __get__(self, instance: Any, owner: Any) -> T: ...
        def __set__(self, instance: Any, value: Any) -> None: ...

    # A signal is an array or a function of the time, as `signals.as_signal` returns it.
    Parameter = Converted[Array]
    OptionalParameter = Converted[Array | None]
    Signal = Converted[Array | Callable]
else:
    Parameter = Float[Array, "..."]
    OptionalParameter = Float[Array, "..."] | None
    Signal = Float[Array, "..."] | Callable


def _check_name(where: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{where} is {name!r}; it must be a text that is not empty: leave it out for none."
        )


# Metadata of a field that holds the name of a body, and of one whose default constructors of users
# need not set: for the element's own name, and in general.
BODY = {"body": True}
PRESET = {"preset": True}
NAME = {"name": True, "check": _check_name, **PRESET}


def body_name() -> Any:
    """Field with the name of a body, or `"ground"`."""
    return eqx.field(static=True, metadata=BODY)


def joint(converter: Callable) -> Any:
    """Field with a reference to a joint of the mechanism, which stacked elements do not share.

    `converter`: function of what a user gives, to such a reference.
    """
    return eqx.field(static=True, converter=converter, metadata={"joint": True})


def input_number(**default: Any) -> Any:
    """Field with the number of an entry of the inputs, counted from 0; None if that is the default.

    Elements that differ in this number alone are stacked; each gets its own entry as the only one.
    """

    def check(where: str, number: Any) -> None:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(
                f"{where} is {number!r}; it must be the number of an entry of the inputs u, "
                "counted from 0: give 0 for the first one."
            )

    return eqx.field(static=True, metadata={"input": True, "check": check}, **default)


def parameter(check: Callable, converter: Callable = as_float, **default: Any) -> Any:
    """Field with an array, and the `check` (where, value) that a new element runs on it.

    `converter`: function of the value that a user gives, by default to floating point.
    """
    return eqx.field(converter=converter, metadata={"check": check}, **default)


def point() -> Any:
    """Field with a point (3,) of a body's frame (m), by default its origin."""
    return vector("m, body components")


def vector(meaning: str) -> Any:
    """Field with finite components (3,), by default zeros; messages have the `meaning`."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (3,), meaning)
        checks.finite(where, value)

    return parameter(check, default=(0.0, 0.0, 0.0))


def direction(frame: str = "parent's", **default: Any) -> Any:
    """Field with a direction (3,) in a frame, given with any length but zero, kept as a unit.

    `default`: a direction, for a field that may be left out.
    """
    return parameter(
        lambda where, value: checks.direction(where, value, frame), as_direction, **default
    )


def orientation() -> Any:
    """Field with a unit quaternion (4,), by default the identity; traced ones become units."""
    return parameter(checks.unit_quaternion, as_orientation, default=(1.0, 0.0, 0.0, 0.0))


def number(unit: str, **default: Any) -> Any:
    """Field with one finite number in a `unit`; with a `default` it may be left out."""

    def check(where: str, value: Any) -> None:
        checks.scalar(where, value, unit)
        checks.finite(where, value)

    return parameter(check, **default)


def positive(unit: str, **default: Any) -> Any:
    """Field with one positive number in a `unit`; None if that is the default."""
    return parameter(lambda where, value: checks.positive(where, value, unit), **default)


def non_negative(unit: str, **default: Any) -> Any:
    """Field with one number in a `unit`, not negative; None if that is the default."""
    return parameter(lambda where, value: checks.non_negative(where, value, unit), **default)


def semidefinite(unit: str, **default: Any) -> Any:
    """Field with a symmetric matrix (3, 3) without negative eigenvalues, or its diagonal (3,).

    The numbers have the `unit`; with a `default` the field may be left out.
    """
    return parameter(
        lambda where, value: checks.semidefinite(where, value, unit),
        lambda value: as_matrix(value, 3),
        **default,
    )


def signal(unit: str, shape: tuple[int, ...] = (), **default: Any) -> Any:
    """Field with a constant, or a function of the time (s), of this shape and unit; with a
    `default` it may be left out.
    """
    return parameter(
        lambda where, value: check_signal(where, value, shape, unit), as_signal, **default
    )


def as_matrix(value: Any, size: int) -> Any:
    """Diagonal matrix of a `value` (size,); anything else as it is, for the checks to refuse."""
    array = as_float(value)
    if conversion.real_shape(array) != (size,):
        return array
    return array[:, None] * jnp.eye(size, dtype=array.dtype)


def as_orientation(value: Any) -> Any:
    """Unit quaternion along a traced `value` (4,), NaN along zero; anything else as it is.

    Nothing refuses a traced one off unit length, with which angles and forces would be wrong.
    """
    array = as_float(value)
    if conversion.real_shape(array) != (4,) or not checks.has_tracers(array):
        return array
    return array / jnp.sqrt(small.dot(array, array))


def as_direction(value: Any) -> Any:
    """Unit vector along a `value` (3,); anything else as it is, for the checks to refuse."""
    components = as_float(value)
    if conversion.real_shape(components) != (3,):
        return components
    if checks.has_tracers(components):
        return _unit(components)
    with jax.ensure_compile_time_eval():
        return _unit(components)


@jax.jit
def _unit(components: Float[Array, "3"]) -> Float[Array, "3"]:
    # The factor is a constant for derivatives: the direction does not depend on it.
    scaled = small.reciprocal_size(jnp.max(jnp.abs(components))) * components
    square = small.dot(scaled, scaled)
    sound = (square > 0.0) & (square < jnp.inf)
    return jnp.where(sound, scaled / jnp.sqrt(jnp.where(sound, square, 1.0)), components)
