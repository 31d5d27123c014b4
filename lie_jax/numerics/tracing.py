"""Rare garbage collections while JAX traces.

Tracing makes many objects that live until the program is compiled. Python's collector walks through
them again and again, which takes up to a third of the time of tracing a gradient.
"""

import contextlib
import gc
import threading
from collections.abc import Iterator

# New objects from one collection to the next.
_PAUSE = 50_000

# The threshold belongs to the process: the first block sets it, the last one restores it.
_lock = threading.RLock()
_blocks = 0
_thresholds = 0, 0, 0


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Block within which Python collects garbage rarely; nested and in several threads, too."""
    global _blocks, _thresholds
    with _lock:
        if not _blocks:
            _thresholds = gc.get_threshold()
            first, *others = _thresholds
            # Zero turns collections off.
            gc.set_threshold(max(first, _PAUSE) if first else 0, *others)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                gc.set_threshold(*_thresholds)
