"""Parts of a mechanism: their declared fields, checks and names."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx

from lie_jax.numerics import conversion

Element = TypeVar("Element", bound="AbstractElement")


class AbstractElement(eqx.Module):
    """A body, joint or force; construction runs the checks that its fields declare."""

    # Whether several of its ends may be on one body, at points of their own.
    shares_bodies: ClassVar[bool] = False

    def __new__(cls, *args, **kwargs):
        """Instance with its fields of the role `"preset"`, which users' constructors do not set."""
        element = super().__new__(cls)
        for field in dataclasses.fields(cls):
            if "preset" in field.metadata:
                object.__setattr__(element, field.name, field.default)
        return element

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        bases = cls.__mro__[1:]
        for name in inspect.get_annotations(cls):
            if name in vars(cls) or any(name in inspect.get_annotations(base) for base in bases):
                continue
            # It would be the default of the field, and the argument could be left out.
            if owner := next((base for base in bases if name in vars(base)), None):
                raise TypeError(
                    f"the field {name!r} of {cls.__name__} has the name of a member of "
                    f"{owner.__name__}: give the field another name."
                )

    def __check_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            left_out = value is None and field.default is None
            if "check" in field.metadata and not left_out:
                field.metadata["check"](f"{element_name(self)}.{field.name}", value)

    def __repr__(self):
        """The fields with their numbers."""
        values = {f.name: getattr(self, f.name, None) for f in dataclasses.fields(self) if f.repr}
        # References to joints have words of their own, which are not those of tuples.
        references = fields_with_role(self, "joint")
        words = [
            f"{name}={value!r}" if name in references else f"{name}={conversion.text(value)}"
            for name, value in values.items()
        ]
        return f"{type(self).__name__}({', '.join(words)})"

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies: the values of all fields made by `body_name`, in order."""
        return tuple(getattr(self, name) for name in fields_with_role(self, "body"))

    @property
    def words(self) -> tuple[str, ...]:
        """Names that distinguish the element from others of its type, for messages."""
        return self.bodies

    def objection(self, joints: Sequence[Any]) -> str | None:
        """Sentence on why this element does not hold among all joints of a mechanism, with the fix;
        None where it does.
        """
        return None

    def attach(self: Element, joints: Sequence[Any]) -> Element:
        """The element with what it needs of the joints of its mechanism."""
        return self


def fields_with_role(element: AbstractElement, role: str) -> list[str]:
    """Names of the fields with a role: `"body"` for names of bodies, `"input"` for an input,
    `"name"` for the element's own name, `"joint"` for references to joints.
    """
    return [field.name for field in dataclasses.fields(element) if role in field.metadata]


def replace_fields(element: Element, **values: Any) -> Element:
    """The element with these values of its fields, field by field: a constructor of one's own may
    take other arguments.
    """
    copy = object.__new__(type(element))
    for field in dataclasses.fields(element):
        value = values[field.name] if field.name in values else getattr(element, field.name)
        object.__setattr__(copy, field.name, value)
    return copy


def element_name(element: AbstractElement) -> str:
    """Name of an element in messages: its type, and its name or its bodies."""
    return f"{type(element).__name__}({', '.join(map(repr, element.words))})"
