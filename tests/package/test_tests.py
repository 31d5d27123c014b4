"""Files of the package and of its tests stay short; tests begin with a claim of their own."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "lie_jax"
LONGEST = 400


def _sources():
    return {path: path.read_text() for path in sorted(TESTS.rglob("*.py")) if path.stat().st_size}


def test_every_file_begins_with_its_claim():
    for path, text in _sources().items():
        first = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
        assert first.endswith("."), f"{path} has no sentence that says what it holds"


def test_files_stay_short():
    paths = [*TESTS.rglob("*.py"), *PACKAGE.rglob("*.py")]
    lengths = {path: path.read_text().count("\n") for path in paths}
    assert not {path: length for path, length in lengths.items() if length > LONGEST}


def test_no_test_imports_another():
    for path, text in _sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not [name for name in names if name.startswith("test_")], path
