"""Notebooks: the short ones run, and each has its text beside it."""

from pathlib import Path

import jupytext
import matplotlib
import numpy as np
import pytest

import lie_jax

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_text_is_that_of_the_notebook(notebook):
    cells, text = (
        [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]
        for path in (notebook, notebook.with_suffix(".py"))
    )
    assert cells == text


@pytest.mark.parametrize("name", ["first_steps", "groups_and_charts"])
@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_short_notebooks_run(name, monkeypatch, tmp_path):
    matplotlib.use("Agg")
    # One of them writes a picture of the documentation.
    (tmp_path / "docs" / "images").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    # This process has computed something.
    monkeypatch.setattr(lie_jax, "configure", lambda: None)
    path, names = ROOT / "notebooks" / f"{name}.py", {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    if name == "first_steps":
        np.testing.assert_allclose(names["slope"], names["difference"], rtol=1e-6)
    else:
        assert 3.8 < names["order"] < 4.3
