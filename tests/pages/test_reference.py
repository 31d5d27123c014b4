"""Pages of the reference: every public name has its entry and an example that prints its comment."""

import contextlib
import functools
import importlib
import inspect
import io
import re
from pathlib import Path

import numpy as np
import pytest

import lie_jax

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "index.md")
TEXTS = {name: (FOLDER / name).read_text() for name in PAGES}
# Modules whose functions and classes users import.
MODULES = (
    *("contact", "control", "robotics", "io", "viz", "solids", "beams", "fields", "transforms"),
    *("interop", "so3", "se3", "quaternion", "rn", "adjoint", "tait_bryan", "euler_parameters"),
    "unified_velocity",
)
# Of use inside of the package alone.
INTERNAL = {"with_square", "directional_derivative"}
# Serves until somebody ends it.
NOT_RUN = {"lie_jax.viz.show"}


def _blocks(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def _entries(text):
    return re.findall(r"^::: (\S+)", text, flags=re.MULTILINE)


@functools.cache
def _public():
    """Public functions and classes by the names that users write."""
    names = {}
    for name in lie_jax.__all__:
        if not inspect.ismodule(getattr(lie_jax, name)):
            names[f"lie_jax.{name}"] = getattr(lie_jax, name)
    importlib.import_module("lie_jax.viz")
    for module in (getattr(lie_jax, name) for name in MODULES):
        short = next(name for name in MODULES if getattr(lie_jax, name) is module)
        source = Path(inspect.getfile(module)).read_text()
        for name, value in vars(module).items():
            here = getattr(value, "__module__", None) == module.__name__
            offered = here or f" {name} as {name}\n" in source or name in vars(module).get("__all__", ())
            if callable(value) and offered and name[0] != "_" and name not in INTERNAL:
                if inspect.isfunction(value) or inspect.isclass(value):
                    names[f"lie_jax.{short}.{name}"] = value
    return names


def test_every_public_name_has_one_entry():
    """An entry of a module has all functions of it."""
    entries = [entry for text in TEXTS.values() for entry in _entries(text)]
    assert len(entries) == len(set(entries))
    # `so3` and `quaternion` show the differentials of the module that defines them.
    shared = set(dir(importlib.import_module("lie_jax.groups.rotation_algebra")))
    wrong = {}
    for name in _public():
        module, _, last = name.rpartition(".")
        found = entries.count(name) + (module in entries)
        if found != 1 and not (found == 0 and last in shared):
            wrong[name] = found
    assert not wrong


def test_every_module_has_an_entry():
    entries = {entry for text in TEXTS.values() for entry in _entries(text)}
    for module in MODULES:
        path = f"lie_jax.{module}"
        assert any(entry == path or entry.startswith(f"{path}.") for entry in entries), module


def test_every_public_name_is_in_an_example():
    code = "\n".join(block for text in TEXTS.values() for block in _blocks(text))
    words = set(re.findall(r"\w+", code))
    missing = {name for name in _public() if name.rpartition(".")[2] not in words}
    assert missing == NOT_RUN


def test_every_page_is_in_the_table_and_the_navigation():
    table = (FOLDER / "index.md").read_text()
    navigation = (FOLDER.parents[1] / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f"({page})" in table and f"reference/{page}" in navigation


def test_parameters_have_types_and_words():
    """Of functions and constructors; elements share what their base describes."""
    wrong = {}
    for name, value in _public().items():
        described = inspect.getdoc(value) or ""
        if inspect.isclass(value):
            described += "".join(inspect.getdoc(base) or "" for base in value.__mro__[1:-1])
        for parameter in inspect.signature(value).parameters.values():
            word = rf"\b{re.escape(parameter.name)}\b"
            if parameter.annotation is parameter.empty:
                wrong[f"{name}({parameter.name})"] = "has no type"
            elif _needs_words(name, parameter) and not re.search(word, described):
                wrong[f"{name}({parameter.name})"] = "is not in the docstring"
    assert not wrong


def _needs_words(name, parameter):
    return len(parameter.name) > 2


def _printed(text):
    """Numbers and the words between them."""
    number = r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?"
    return re.findall(number, text), re.sub(r"\s+", "", re.sub(number, "#", text))


def _last_digit(number):
    """Unit of the last digit that is written."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES)
def test_examples_print_their_comments(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The other tests have computed by now, after which loops are no longer set up.
    configure = functools.partial(lie_jax.configure, fast_loops=False)
    monkeypatch.setattr(lie_jax, "configure", configure)
    names: dict = {}
    with np.printoptions():
        for block in _blocks(TEXTS[page]):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, page, "exec"), names)
            said = re.findall(r"^ *print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
            assert len(said) == len(re.findall(r"^ *print\(", block, flags=re.MULTILINE)), block
            lines = out.getvalue().splitlines()
            assert len(lines) == len(said), block
            for line, comment in zip(lines, said, strict=True):
                (got, around), (expected, words) = _printed(line), _printed(comment)
                assert around == words, f"{block}prints {line}"
                for number, written in zip(got, expected, strict=True):
                    difference = abs(float(number) - float(written))
                    assert difference <= 0.6 * _last_digit(written), f"{block}prints {line}"
