"""Test files begin with their claim, stay short, and import no other test file."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONGEST = 400


def _sources():
    return {path: path.read_text() for path in sorted(TESTS.rglob("*.py")) if path.stat().st_size}


def test_every_file_begins_with_its_claim():
    for path, text in _sources().items():
        first = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
        assert first.endswith("."), f"{path} has no sentence that says what it holds"


def test_files_stay_short():
    lengths = {path: text.count("\n") for path, text in _sources().items()}
    assert not {path: length for path, length in lengths.items() if length > LONGEST}


def test_no_test_imports_another():
    for path, text in _sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not [name for name in names if name.startswith("test_")], path
