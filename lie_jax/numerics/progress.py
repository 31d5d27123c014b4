"""Progress bars that begin when numbers move."""

import contextlib
from collections.abc import Iterator
from typing import Protocol

from tqdm import tqdm


class Update(Protocol):
    """Function that moves a bar by a number, and writes a text beside it."""

    def __call__(self, number: int, text: str = "") -> None:
        """Move it."""


@contextlib.contextmanager
def progress_bar(name: str, unit: str, total: int | None, shown: bool) -> Iterator[Update]:
    """Function that moves a progress bar.

    The bar begins with the first call, which waits for compilation: a bar at zero would tell
    nothing, and an estimate of the time that counts this wait would be wrong.
    """
    bars: list[tqdm] = []

    def update(number: int, text: str = "") -> None:
        if not shown:
            return
        if bars:
            bars[0].update(number)
        else:
            bars.append(tqdm(total=total, initial=number, unit=unit, desc=name))
        if text:
            bars[0].set_postfix_str(text)

    try:
        yield update
    finally:
        for bar in bars:
            bar.close()
