"""What the reference shows of constructors that Equinox makes when a class is imported."""

import dataclasses
import inspect
from typing import Any

import griffe


class Signatures(griffe.Extension):
    """Gives dataclasses the parameters that they have at run time, with their defaults."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called by griffe once it has read the members of a class."""
        try:
            loaded = griffe.dynamic_import(cls.path)
        except ImportError:
            # A class for type checkers alone.
            return
        if not dataclasses.is_dataclass(loaded) or "__init__" in cls.members:
            return
        at_run_time = inspect.signature(loaded).parameters
        if any(name.startswith("_") for name in at_run_time):
            # Users do not make these.
            return
        parameters = [
            griffe.Parameter(
                parameter.name,
                kind=griffe.ParameterKind[parameter.kind.name.lower()],
                default=None if parameter.default is parameter.empty else repr(parameter.default),
            )
            for parameter in at_run_time.values()
        ]
        init = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
        cls.set_member("__init__", init)
