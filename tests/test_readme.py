"""The code in the README runs as it is printed."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert np.all(np.isfinite(names["slope"]))
    assert names["trajectory"].q.shape == (101, 7)
