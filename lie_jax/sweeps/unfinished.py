"""Files and folders that get their names when they are whole, and locks that tell who writes.

What is being written lies in a folder of its own beside its later place, with a file that its
process locks. The lock ends with the process: what a killed process has left is not locked, and
the next one removes it.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: what is left there stays.
    fcntl = None

_PREFIX = ".lie_jax-unfinished-"
_LOCK = "lock"


class Lock:
    """A shared lock of a file, until it is closed or the process ends.

    Where the file system has no locks nobody is ever `alone`.
    """

    def __init__(self, file: Path, create: bool = False):
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def alone(self) -> bool:
        """Whether no other process has the lock; if so none gets it before it is closed."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._descriptor)


@contextlib.contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A path on the disk of `place`, to be renamed to it when what is there is whole.

    What is there at the end is removed, and so is what killed processes have left beside `place`.
    Raises `OSError` where nothing can be written.
    """
    for left in place.parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), contextlib.closing(Lock(left / _LOCK, True)) as lock:
            if lock.alone():
                shutil.rmtree(left, ignore_errors=True)
    folder, lock = _new_folder(place.parent)
    with contextlib.closing(lock):
        try:
            yield folder / place.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder(parent: Path) -> tuple[Path, Lock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        # Until it is locked, another process may take it for a killed one's and remove it.
        with contextlib.suppress(FileNotFoundError):
            lock = Lock(folder / _LOCK, True)
            if folder.exists():
                return folder, lock
            lock.close()
