"""Types that the reference shows: those at run time, under the names that users know.

Annotations in the code go through names of a module, such as `Vector`, and constructors that
Equinox makes when a class is imported have none.
"""

import ast
import dataclasses
import inspect
import types
import typing
from typing import Any

import griffe
import jax.typing
import jaxtyping

from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.signals import as_signal

_NUMBERS = set(typing.get_args(jax.typing.ArrayLike))


class Signatures(griffe.Extension):
    """Gives functions, properties and constructors the types that they have at run time."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Called by griffe for every function and method."""
        signature = _signature(_at_run_time(func.path))
        if signature is None:
            return
        for parameter in func.parameters:
            if parameter.name in signature.parameters:
                annotation = signature.parameters[parameter.name].annotation
                parameter.annotation = _expression(_shown(annotation), func)
        func.returns = _expression(_shown(signature.return_annotation), func)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Called by griffe for every attribute; properties have types."""
        signature = _signature(getattr(_at_run_time(attr.path), "fget", None))
        if signature is not None:
            attr.annotation = _expression(_shown(signature.return_annotation), attr)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called by griffe once it has read the members of a class."""
        loaded = _at_run_time(cls.path)
        if inspect.isclass(loaded) and issubclass(loaded, AbstractElement):
            # Users of a joint or force do not call these; its base describes them to authors.
            for name in [name for name in cls.members if _is_override(loaded, name)]:
                del cls.members[name]
        if not dataclasses.is_dataclass(loaded) or "__init__" in cls.members:
            return
        at_run_time = inspect.signature(loaded).parameters
        if any(name.startswith("_") for name in at_run_time):
            # Users do not make these.
            return
        fields = {field.name: field for field in dataclasses.fields(loaded)}
        parameters = [
            griffe.Parameter(
                parameter.name,
                kind=griffe.ParameterKind[parameter.kind.name.lower()],
                annotation=_expression(_accepted(parameter, fields.get(parameter.name)), cls),
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in at_run_time.values()
        ]
        init = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
        cls.set_member("__init__", init)


def _is_override(loaded: type, name: str) -> bool:
    """Whether a class has a method or property in the place of one of its bases."""
    member = vars(loaded).get(name)
    if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
        return False
    ours = (base for base in loaded.__mro__[1:] if base.__module__.startswith("lie_jax."))
    return any(name in vars(base) for base in ours)


def _at_run_time(path: str) -> Any:
    """The object of a path; None of code for type checkers, and of what a method defines."""
    try:
        return griffe.dynamic_import(path)
    except (ImportError, AttributeError):
        return None


def _signature(function: Any) -> inspect.Signature | None:
    return inspect.signature(function) if inspect.isfunction(inspect.unwrap(function)) else None


def _expression(text: str | None, parent: Any) -> Any:
    """Annotation whose names griffe links, seen from a class or function."""
    if text is None:
        return None
    scope = parent if isinstance(parent, griffe.Class) else parent.parent
    # Shapes are strings, not types.
    tree = ast.parse(text, mode="eval").body
    return griffe.get_expression(tree, parent=scope, parse_strings=False)


def _accepted(parameter: inspect.Parameter, field: dataclasses.Field | None) -> str | None:
    """Type of the values that a constructor accepts for a field."""
    converter = field and field.metadata.get("converter")
    if field is None or converter is None:
        return _shown(parameter.annotation)
    none = " | None" if parameter.default is None else ""
    if converter is as_signal:
        return f"ArrayLike | Callable{none}"
    if typing.get_origin(field.type) is tuple:
        return f"Sequence[{_shown(typing.get_args(field.type)[0])}]"
    kept = _shown(field.type) or "Any"
    return f"ArrayLike{none}" if "Array" in kept or kept == "Any" else kept


def _shown(annotation: Any) -> str | None:
    """A type with the last part of its name: `Float[Array, "3"]`, `State`, `ArrayLike | None`."""
    if annotation is inspect.Parameter.empty:
        return None
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is jaxtyping.PyTree:
        return "PyTree"
    if annotation is ...:
        return "..."
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, list):
        return f"[{', '.join(map(_text, annotation))}]"
    if hasattr(annotation, "dim_str"):
        kind = annotation.__name__.partition("[")[0]
        of = "Array" if annotation.array_type is jax.Array else _text(annotation.array_type)
        return f"{kind}[{of}, {annotation.dim_str.strip()!r}]".replace("'", '"')
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_members(arguments))
    if origin is not None and arguments:
        return f"{_text(origin)}[{', '.join(map(_text, arguments))}]"
    return "Array" if annotation is jax.Array else getattr(annotation, "__name__", "Any")


def _text(annotation: Any) -> str:
    return _shown(annotation) or "Any"


def _members(arguments: tuple[Any, ...]) -> list[str]:
    """Types of a union, with numbers and arrays as `ArrayLike`."""
    if not set(arguments) >= _NUMBERS:
        return [_text(argument) for argument in arguments]
    others = [_text(argument) for argument in arguments if argument not in _NUMBERS]
    return ["ArrayLike", *others]
