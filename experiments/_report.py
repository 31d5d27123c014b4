"""Results of experiments as files: numbers in JSON, tables in Markdown."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_json(path: Path, numbers: Any, indent: int = 2, ascii: bool = True) -> None:
    """Write numbers; without `ascii`, letters of other alphabets as they are."""
    path.write_text(json.dumps(numbers, indent=indent, ensure_ascii=ascii) + "\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of a table in Markdown; all columns but the first `left` are aligned to the right."""
    rules = ["---" if column < left else "---:" for column in range(len(heads))]
    return [f"| {' | '.join(heads)} |", f"|{'|'.join(rules)}|", *map(row, rows)]


def row(cells: Iterable[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"
