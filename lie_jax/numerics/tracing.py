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

# Thresholds as each open block met them. They belong to the process: the last block restores those
# of the first.
_thresholds: list[tuple[int, ...]] = []
_lock = threading.RLock()


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Block within which Python collects garbage rarely; nested and in several threads, too."""
    with _lock:
        _thresholds.append(gc.get_threshold())
        first, *others = _thresholds[0]
        # Zero turns collections off.
        gc.set_threshold(max(first, _PAUSE) if first else 0, *others)
    try:
        yield
    finally:
        with _lock:
            before = _thresholds.pop()
            if not _thresholds:
                gc.set_threshold(*before)
