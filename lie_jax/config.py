"""Precision of JAX's default numbers."""

import warnings

import jax

_warned = False


def enable_x64() -> None:
    """Make float64 JAX's default, for the whole process. Call it before arrays are made."""
    jax.config.update("jax_enable_x64", True)


def warn_of_single_precision() -> None:
    """Warn once in a process that a simulation runs in float32 because JAX's default was left."""
    global _warned
    if _warned or jax.config.read("jax_enable_x64"):
        return
    _warned = True
    warnings.warn(
        "This simulation runs in float32, JAX's default: expect errors of 1e-4 to 1e-6. Call "
        "lie_jax.enable_x64() before making arrays, or set JAX_ENABLE_X64=1, for float64.",
        stacklevel=3,
    )
