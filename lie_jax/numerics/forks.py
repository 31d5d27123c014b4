"""Processes that were forked after JAX had computed, in which it would wait forever."""

import os

from lie_jax.numerics import jax_internals

_forked = False


def _note() -> None:
    global _forked
    _forked = _forked or jax_internals.has_computed()


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_note)


def refuse() -> None:
    """Raise `RuntimeError` in a process that lacks the threads of JAX."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one in which JAX had computed; JAX's threads do not "
            "exist here, and a computation would wait forever: start processes by "
            "multiprocessing.get_context('spawn'), or make them before anything is computed."
        )
