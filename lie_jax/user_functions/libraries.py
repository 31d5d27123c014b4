"""Code of libraries, which does not change while a program runs, and code of users."""

import functools
import os
import sys
import sysconfig
import types
import warnings

import equinox as eqx
import jax
import numpy as np

_FOLDERS = tuple(
    os.path.join(os.path.abspath(path), "")
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(os.path.dirname(str(m.__file__)) for m in (jax, np, eqx)),
        os.path.dirname(os.path.dirname(__file__)),
    }
)


@functools.lru_cache(maxsize=4096)
def holds(path: str) -> bool:
    """Whether a file of code belongs to a library."""
    return path.startswith("<frozen") or os.path.abspath(path).startswith(_FOLDERS)


def holds_module(module: types.ModuleType | None) -> bool:
    """Whether a module belongs to a library."""
    if module is None or module.__name__ == "__main__":
        return False
    path = getattr(module, "__file__", None)
    return module.__name__.partition(".")[0] in sys.builtin_module_names or (
        path is not None and holds(path)
    )


def holds_class(cls: type) -> bool:
    """Whether a class belongs to a library."""
    return holds_module(sys.modules.get(cls.__module__))


def warn(words: str) -> None:
    """Warn at the line of the user's code that called, through how many functions it may be."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and holds(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, stacklevel=level)
