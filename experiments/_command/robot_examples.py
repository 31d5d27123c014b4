"""Examples with robots whose files lie below some folders."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import _report
from experiments._robot_examples import cassie, go2, panda, x2

EXAMPLES = {"panda": panda, "go2": go2, "cassie": cassie, "x2": x2}


def examples(folders: Sequence[Path], out: Path) -> None:
    """Write NAME.json, a picture and a page for every example whose robot is there."""
    files = {name: _file(folders, example.FILE) for name, example in EXAMPLES.items()}
    for name, example in EXAMPLES.items():
        path = files[name]
        if path is None:
            print(f"{name}: left out, no folder has {example.FILE}", flush=True)
            continue
        print(f"{name}: {path}", flush=True)
        begin = time.monotonic()
        numbers = example.main(path, out)
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
        plain = {key: np.asarray(value).tolist() for key, value in numbers.items()}
        for key, value in plain.items():
            print(f"  {key}: {value}", flush=True)
        _report.write_json(out / f"{name}.json", plain)
    if not any(files.values()):
        raise SystemExit(
            "No folder has a robot of the examples; docs/robot_examples.md names them."
        )


def _file(folders: Sequence[Path], name: str) -> Path | None:
    """The first file below the folders whose address ends with a name."""
    for folder in folders:
        if not folder.is_dir():
            raise SystemExit(f"{str(folder)!r} is no folder: name one with URDF or MJCF files.")
        for path in sorted(folder.rglob(Path(name).name)):
            if path.as_posix().endswith(f"/{name}"):
                return path
    return None
