"""Numbers of experiments, from the files that the experiments write."""

import json
from pathlib import Path

OUT = Path(__file__).parents[1] / "out"


def numbers_of(module, file: str) -> tuple[Path, dict]:
    """The folder of an experiment and its numbers; the experiment runs unless it has run."""
    folder = OUT / module.__name__.split(".")[-1]
    if not (folder / file).exists():
        folder.mkdir(parents=True, exist_ok=True)
        module.main(folder)
    return folder, json.loads((folder / file).read_text())
