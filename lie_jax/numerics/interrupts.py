"""Ctrl-C in long loops around compiled programs."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def watch() -> Iterator[Callable[[], None]]:
    """Function that raises `KeyboardInterrupt` if Ctrl-C was pressed in the block and was lost.

    So does the end of the block. JAX has a callback of the garbage collector, and Python drops
    exceptions that are raised there. Other handlers of the signal, and other threads, are left
    alone.
    """
    pressed = False

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not default or threading.current_thread() is not threading.main_thread():
        yield check
        return

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
