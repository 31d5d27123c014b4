"""An exported program runs in a process that neither traces nor compiles it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


def test_the_page_on_waiting(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export writes files by it")
    page = (ROOT / "docs" / "waiting.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    # The environment's own cache would hold the programs.
    environment = {k: x for k, x in os.environ.items() if not k.startswith(("JAX_", "XLA_FLAGS"))}
    environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    printed, programs = [], []
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block],
            env=environment, cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        printed.append(done.stdout)
        programs.append({file.name for file in (tmp_path / "compiled").rglob("*-cache")})
    assert printed[0] == printed[1]
    assert programs[0] == programs[1] and programs[0]
    (function,) = re.findall(r"def height.*?\n\n\n", blocks[0], flags=re.DOTALL)
    names = {"jnp": jnp, "lie_jax": lie_jax}
    exec(function, names)
    value, slope = (float(x) for x in re.findall(r"Array\(([-+.e\d]+)", printed[1]))
    difference = (names["height"](15.01) - names["height"](14.99)) / 0.02
    # Printed digits, and the difference's error of second order.
    np.testing.assert_allclose([value, slope], [names["height"](15.0), difference], rtol=1e-4)
