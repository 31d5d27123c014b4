"""The built wheel in an empty environment runs what the README shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


def _run(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_wheel_runs_the_readme(tmp_path):
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("lie_jax-*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    # What is imported is compiled then.
    _run(*pip, "--python", python, "install", "--no-compile", wheel)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text(block)
    done = _run(python, "-I", program, cwd=tmp_path)
    # As the README says in its last line.
    (printed,) = re.findall(r"print\(.*\)  # (.*)\n", block)
    assert done.stdout == printed + "\n"
    # A user's first run says nothing but what it is asked for, and what compiles for long.
    assert all(line.startswith("lie_jax: compiling ") for line in done.stderr.splitlines())
