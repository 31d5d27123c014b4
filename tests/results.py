"""Numbers of experiments, from the files that the experiments write."""

import json
import shutil
from pathlib import Path

OUT = Path(__file__).parents[1] / "out"


def numbers_of(module, file: str) -> tuple[Path, dict]:
    """The folder of an experiment and its numbers; the experiment runs unless it has run."""
    folder = OUT / module.__name__.split(".")[-1]
    if not (folder / file).exists():
        # Experiments write after each part: what an interrupted run leaves is no result.
        unfinished = folder.with_name(f"{folder.name}_unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.mkdir(parents=True)
        module.main(unfinished)
        unfinished.rename(folder)
    return folder, json.loads((folder / file).read_text())
