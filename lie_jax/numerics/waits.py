"""A line on stderr where tracing and compiling take long.

A thread looks a few times a second at the functions of JAX in which a thread is that called
lie_jax. Where lie_jax is called while JAX traces a function of the user, the thread goes on until
this function has been compiled, too. JAX keeps what it has traced: a second transformation of the
function calls lie_jax no more. From the first such function on, each program that JAX has lowered
begins a wait by its name.
"""

import functools
import gc
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax.monitoring

from lie_jax.numerics import forks, jax_internals
from lie_jax.numerics.jax_internals import COMPILING, TRACING

P = ParamSpec("P")
T = TypeVar("T")

# Time of tracing and compiling before the line, and from one look to the next, s.
AFTER = 2.0
LOOK = 0.1
# Looks without tracing and compiling after which a wait in a function of the user is over, and
# looks without a wait after which the thread ends.
_CALM, _IDLE = 5, 20
# Least time before a line says that a wait goes on, s.
_AGAIN = 30.0
# Compilation over tracing: 1.4 for one body, 3 for mechanisms, 6 for their gradients. Both are in
# proportion to the machine's speed, and tracing to the number of equations.
_RATIO = 3.0
# Durations that are told, s.
_TOLD = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600)

# Whether lines are left out (`lie_jax.configure(quiet=True)`).
quiet = False


class _Wait:
    """Call of lie_jax in one thread: what it computes, and its tracing and compiling so far (s).

    `inside`: the call has not returned. `calm`: number of the last looks that met neither.
    `programs`: number of those that were seen in compilation, which more may follow.
    """

    def __init__(self, what: str):
        self.what = what
        self.inside = True
        # Time (s) at which the next line is due; None before the first one.
        self.due: float | None = None
        self.spent = {TRACING: 0.0, COMPILING: 0.0}
        self.calm = self.programs = 0
        self.last: str | None = None

    def count(self, phase: str | None, seconds: float) -> None:
        """Count the time since the last look, and write the line when it is due."""
        self.programs += phase == COMPILING and self.last != COMPILING
        self.last = phase
        if phase is None:
            self.calm += 1
            return
        self.calm = 0
        self.spent[phase] += seconds
        spent = sum(self.spent.values())
        if quiet or spent < (AFTER if self.due is None else self.due):
            return
        told = self.duration(phase)
        # The rest of tracing, and with it what compiles, is not known before its end, nor are the
        # programs of functions that compute outside of `jax.jit`, operation by operation.
        is_least = phase == TRACING or self.programs > 1
        about = f"about {_words(told)}" + (" or longer" if is_least else "")
        if self.due is None:
            line = f"compiling {self.what}, {about}; later calls with other numbers start at once"
        else:
            line = f"still compiling {self.what}, {spent:.0f} s so far, {about} in all"
        self.due = max(_AGAIN, 2.0 * max(told, spent))
        _write(f"lie_jax: {line}")

    def duration(self, phase: str) -> int:
        """Estimate of the whole wait (s)."""
        tracing, compiling = self.spent[TRACING], self.spent[COMPILING]
        # Without other knowledge a phase is expected to last as long again as it has lasted.
        expected = (2.0 if phase == TRACING else 1.0) * tracing
        expected = max((1.0 + _RATIO) * expected, 1.5 * (tracing + compiling))
        return min(_TOLD, key=lambda x: abs(x / expected - expected / x))


def _words(seconds: int) -> str:
    return f"{seconds} s" if seconds <= 90 else f"{seconds // 60} min"


_waits: dict[int, _Wait] = {}
_lock = threading.Lock()
_thread: threading.Thread | None = None
_listening = False


def announce(words: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of public functions: `words` say what a call compiles.

    `{argument}` in them becomes the name of that argument's type. Only the outermost call counts,
    and nothing of its arguments is kept. A call raises `RuntimeError` in a forked process in which
    it would wait forever.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            forks.refuse()
            own = threading.get_ident()
            wait = _waits.get(own)
            if quiet or (wait is not None and wait.inside):
                return function(*args, **kwargs)
            _begin(own, words, signature, args, kwargs)
            try:
                return function(*args, **kwargs)
            finally:
                _end(own)

        return call

    return decorate


def _begin(
    own: int, words: str, signature: inspect.Signature, args: tuple, kwargs: dict[str, Any]
) -> None:
    tracing = not jax_internals.traces_nothing()
    wait = _waits.get(own)
    if wait is not None and tracing:
        # Another call in the same function of the user.
        wait.inside = True
        return
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        # Wrong arguments, which the function itself refuses.
        return
    told = words.format_map({name: f"{type(x).__name__}()" for name, x in given.items()})
    told += _size(given.get("system", next(iter(given.values()), None)))
    if tracing:
        _listen()
    with _lock:
        _waits[own] = _Wait(f"a function with {told}" if tracing else told)
        _start()


def _size(system: Any) -> str:
    """Words for the size of a system or mechanism: its bodies, or its velocities."""
    for name, one, several in (
        ("names", "body", "bodies"),
        ("bodies", "body", "bodies"),
        ("nv", "velocity", "velocities"),
    ):
        size = getattr(system, name, None)
        count = len(size) if isinstance(size, tuple | list) else size
        if isinstance(count, int) and count:
            return f" for {count} {one if count == 1 else several}"
    return ""


def _end(own: int) -> None:
    wait = _waits.get(own)
    if wait is None:
        return
    wait.inside = False
    # While JAX traces, more tracing and a compilation follow.
    if jax_internals.traces_nothing():
        _waits.pop(own, None)


def _listen() -> None:
    global _listening
    if not _listening:
        _listening = True
        jax.monitoring.register_event_duration_secs_listener(_heard)


def _heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
    """Begin a wait for a program that JAX has just lowered, or end that for a compiled one."""
    is_lowered = event == jax_internals.LOWERED
    # Small programs that run while JAX traces are lowered and compiled then, too.
    if not (is_lowered or event == jax_internals.COMPILED) or not jax_internals.traces_nothing():
        return
    own = threading.get_ident()
    wait = _waits.get(own)
    if is_lowered and wait is None and not quiet:
        wait = _Wait(str(kwargs.get("fun_name", "a function")))
        # It was traced, perhaps for long, unseen.
        wait.inside, wait.programs = False, 1
        wait.spent[TRACING] = duration_secs
        with _lock:
            _waits[own] = wait
            _start()
    elif not is_lowered and wait is not None and not wait.inside:
        _waits.pop(own, None)


def _start() -> None:
    global _thread
    if _thread is not None and _thread.is_alive():
        return
    _thread = threading.Thread(target=_look, name="lie_jax.waits", daemon=True)
    try:
        _thread.start()
    except RuntimeError:
        # No more threads, or the end of the process: there are no lines.
        _thread = None


def _look() -> None:
    """Look at all waits again and again, until there are none for a while."""
    global _thread
    idle, last = 0, time.monotonic()
    while True:
        time.sleep(LOOK)
        now = time.monotonic()
        phases = _phases()
        for own, wait in list(_waits.items()):
            wait.count(phases.get(own), now - last)
            if not wait.inside and (wait.calm >= _CALM or own not in phases):
                _waits.pop(own, None)
        last = now
        with _lock:
            idle = 0 if _waits else idle + 1
            if idle >= _IDLE:
                _thread = None
                return


def _phases() -> dict[int, str | None]:
    """Phase in which each living thread is, None for neither tracing nor compiling."""
    # Python 3.11 makes the object of a frame when it is asked for. Were garbage collected then, the
    # thread would go on and free its frame: the process would end.
    collects = sys.version_info < (3, 12) and gc.isenabled()
    if collects:
        gc.disable()
    try:
        # Frames are not kept: they hold what their functions do.
        return {own: jax_internals.phase(x) for own, x in sys._current_frames().items()}
    finally:
        if collects:
            gc.enable()


def _write(line: str) -> None:
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        # There is no stderr, or it is closed.
        return


def _forget_thread() -> None:
    """Forget the thread, and a lock that it may hold, in a new process."""
    global _lock, _thread
    _waits.clear()
    _lock, _thread = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_thread)
