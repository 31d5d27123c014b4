"""Files and folders that get their names when they are whole, and locks of the writing processes.

A file is written in a temporary folder beside its path, with a lock that ends with the writing
process. The next process removes temporary folders without a lock: their writers were killed.
"""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: temporary folders of killed processes stay.
    fcntl = None

_PREFIX = ".lie_jax-unfinished-"
_LOCK = "lock"


class Lock:
    """Shared lock of a file; without locks in the file system no process is ever `alone`."""

    def __init__(self, file: Path, create: bool = False):
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_alone(self) -> bool:
        """Whether no other process has the lock; none gets it then before it is closed."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Temporary path of a file that replaces `path` at the end, at once, if nothing is raised.

    The file that a link leads to is replaced, and keeps its permissions. Raises `OSError` as
    writing does, and for folders, pipes and devices.
    """
    target = Path(os.path.realpath(path))
    mode = None
    if target.exists():
        if not target.is_file():
            raise OSError(errno.EINVAL, "it is no regular file", str(target))
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        mode = stat.S_IMODE(target.stat().st_mode)
    with beside(target) as new:
        yield new
        if mode is not None:
            new.chmod(mode)
        os.replace(new, target)


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Temporary path on the disk of `path`, to be renamed to it when all is written.

    Removes its folder at the end, and those of killed processes. Raises `OSError` as writing does.
    """
    for left in path.parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), contextlib.closing(Lock(left / _LOCK, True)) as lock:
            if lock.is_alone():
                shutil.rmtree(left, ignore_errors=True)
    folder, lock = _new_folder(path.parent)
    with contextlib.closing(lock):
        try:
            yield folder / path.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder(parent: Path) -> tuple[Path, Lock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        # Before it is locked, another process may remove it as the folder of a killed process.
        with contextlib.suppress(FileNotFoundError):
            lock = Lock(folder / _LOCK, True)
            if folder.exists():
                return folder, lock
            lock.close()
