"""Precision of JAX's default numbers, and how XLA compiles for the CPU."""

import os
import warnings

import jax
from jax._src import xla_bridge

from lie_jax import checks

_warned = False


def enable_x64() -> None:
    """Make float64 JAX's default, for the whole process. Call it before arrays are made."""
    jax.config.update("jax_enable_x64", True)


def loop_flag(loop_bytes: int) -> str:
    """The word of `XLA_FLAGS` that `configure_cpu` adds."""
    option = f"xla_cpu_small_while_loop_byte_threshold={loop_bytes}"
    return f"--xla_backend_extra_options={option}"


def configure_cpu(*, loop_bytes: int = 1_000_000) -> None:
    """Let XLA compile larger loops into one function on the CPU, for the whole process.

    Call it before anything is computed, or set the environment variable `XLA_FLAGS` yourself.
    Loops that touch less than `loop_bytes` bytes in each pass are compiled so, 1024 by XLA's own
    choice: runs of small systems are then three to six times as fast. Versions of XLA that do not
    know the option ignore it. Raises `ValueError` for a number that is no positive integer,
    `RuntimeError` if JAX has computed something already.
    """
    checks.positive_integer("configure_cpu(loop_bytes=)", loop_bytes, "bytes")
    flags, own = os.environ.get("XLA_FLAGS", ""), loop_flag(loop_bytes)
    if own in flags.split():
        return
    if xla_bridge.backends_are_initialized():
        raise RuntimeError(
            "lie_jax.configure_cpu was called after JAX had computed something, when XLA no longer "
            "reads its flags: call it right after the imports, before arrays are made, or start "
            f'the process with XLA_FLAGS="{f"{flags} {own}".strip()}".'
        )
    os.environ["XLA_FLAGS"] = f"{flags} {own}".strip()


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
