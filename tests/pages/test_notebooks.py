"""Notebooks: they need nothing but the installed package, and each has its text beside it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Of the package, and of its extra `notebooks`.
LIBRARIES = {
    *("blackjax", "equinox", "jax", "lie_jax", "matplotlib", "mpl_toolkits", "numpy", "optax"),
    "skfem",
}
# Numbers that a notebook must show, besides running.
SHOWN = {
    "bayesian_identification": "assert not diverged.any() and abs(z.mean() - z[0].mean()) < 0.1",
    # Of a rod that is a hundredth as stiff or as heavy it would be another decade.
    "connecting_rod": "assert 1e-4 < np.abs(bend[400:]).max() < 1e-3",
    "first_steps": "np.testing.assert_allclose(slope, difference, rtol=1e-6)",
    "groups_and_charts": "assert 3.8 < order < 4.3",
    "learned_force": "assert losses[-1] < 3.0 and rms['network'] < 0.5 * rms['constant']",
    "robot": "assert worst['with feedback'] < 0.1 * worst['torques alone']",
}
every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@every_notebook
def test_notebook_stands_on_its_own(notebook):
    cells = [cell for cell in jupytext.read(notebook).cells if cell.cell_type == "code"]
    assert not [cell.source for cell in cells if cell.source.lstrip().startswith(("%", "!"))]
    nodes = [node for cell in cells for node in ast.walk(ast.parse(cell.source))]
    imported = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    unknown = {name.split(".")[0] for name in imported} - LIBRARIES - sys.stdlib_module_names
    assert not unknown, unknown
    # Warnings, as red boxes.
    streams = [output.get("name") for cell in cells for output in cell.outputs]
    assert "stderr" not in streams


@every_notebook
def test_text_is_that_of_the_notebook(notebook):
    cells, text = (
        [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]
        for path in (notebook, notebook.with_suffix(".py"))
    )
    assert cells == text


@pytest.mark.full
@every_notebook
def test_notebook_runs_in_any_folder(notebook, tmp_path):
    program = tmp_path / notebook.with_suffix(".py").name
    text = notebook.with_suffix(".py").read_text()
    program.write_text(f"{text}\n\n{SHOWN.get(notebook.stem, '')}\n")
    done = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr
