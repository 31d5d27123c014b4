"""Gallery: one picture of each joint and each force, from a tiny mechanism."""

from pathlib import Path

import lie_jax
from experiments import _report
from experiments._gallery import forces, joints, picture
from experiments._gallery.entries import Entry


def _linked(entry: Entry) -> str:
    # The reference has a page for each room of elements.
    room = type(entry.element).__module__.split(".")[2]
    module = "lie_jax" if entry.name in lie_jax.__all__ else f"lie_jax.{room}"
    return f"[`{entry.name}`](reference/{room}.md#{module}.{entry.name})"


def rows(entries: list[Entry]) -> list[str]:
    """Table of entries, with pictures in `images/gallery`; only joints hold directions."""
    cells = [
        (
            f"![{entry.name}](images/gallery/{entry.name}.png)",
            _linked(entry),
            entry.sentence + ".",
            *([str(entry.held)] if entry.held else []),
        )
        for entry in entries
    ]
    heads = ("", "", "", "held")[: len(cells[0])]
    return _report.table(heads, cells, left=3)


def main(folder: Path) -> None:
    """Write a PNG for each entry, and `gallery.md` with the tables."""
    lines = []
    for title, entries in (("Joints", joints.entries()), ("Forces", forces.entries())):
        lines += [f"## {title}", "", *rows(entries), ""]
        for entry in entries:
            picture.save(entry, folder / f"{entry.name}.png")
            print(entry.name, flush=True)
    (folder / "gallery.md").write_text("\n".join(lines))
