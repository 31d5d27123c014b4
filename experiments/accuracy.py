"""Accuracy of all maps and their derivatives: golden values, and a comparison of libraries."""

import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments import _report
from experiments._accuracy import page, verdict

_ROOT = Path(__file__).parent.parent
_DISTRIBUTIONS = ("lie_jax", "jax", "jaxlie", "pin", "gtsam", "scipy", "mpmath")


def _measure() -> dict[str, dict]:
    """Both precisions at once, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        files = {p: Path(folder) / f"{p}.json" for p in verdict.PRECISIONS}
        module = "experiments._accuracy.measure"
        processes = [
            subprocess.Popen([sys.executable, "-m", module, precision, str(file)], cwd=_ROOT)
            for precision, file in files.items()
        ]
        for process in processes:
            if process.wait() != 0:
                raise RuntimeError(f"{module} failed with exit status {process.returncode}")
        return {precision: json.loads(file.read_text()) for precision, file in files.items()}


def _versions() -> dict[str, str]:
    versions = {"Python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def main(folder: Path) -> None:
    """Measure, write the numbers and the page, print where lie_jax is not best."""
    precisions = _measure()
    versions = _versions()
    results = {"versions": versions, "precisions": precisions}
    _report.write_json(folder / "accuracy.json", results, indent=1, ascii=False)
    (folder / "accuracy.md").write_text(page.write(versions, precisions))
    print(page.result(precisions))
