"""An exported program runs in a process that neither traces nor compiles it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


def test_the_page_on_waiting(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export writes files by it")
    page = (ROOT / "docs" / "waiting.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    # The environment's own cache would hold the programs.
    environment = {k: x for k, x in os.environ.items() if not k.startswith(("JAX_", "XLA_FLAGS"))}
    printed, programs = [], []
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block],
            env=environment | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        printed.append(done.stdout)
        files = (tmp_path / "compiled").iterdir()
        programs.append({file.name for file in files if file.name.endswith("-cache")})
    assert printed[0] == printed[1]
    assert programs[0] == programs[1] and programs[0]
    # The README prints the slope of the same block.
    (slope,) = re.findall(r"print\(slope\)  # (.*)", (ROOT / "README.md").read_text())
    computed = float(re.findall(r"Array\(([-+.e\d]+)", printed[1])[1])
    assert f"{computed:.4f}" == slope
