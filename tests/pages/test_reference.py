"""Pages of the reference: each public name has an entry and an example that prints its comment."""

import contextlib
import functools
import importlib
import inspect
import io
import operator
import re
from pathlib import Path

import numpy as np
import pytest

import lie_jax
from lie_jax.groups import rotation_algebra

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "index.md")
TEXTS = {name: (FOLDER / name).read_text() for name in PAGES}
# Modules whose functions and classes users import.
MODULES = (
    *("beams", "contact", "control", "estimation", "estimation.transforms", "extend"),
    *("extend.fields", "io", "io.conversions", "robotics", "shells", "solids"),
    *(f"groups.{name}" for name in lie_jax.groups.__all__),
)
# Of use inside of the package alone.
INTERNAL = {"with_square", "directional_derivative"}
# Parameters that their types describe.
TELLING = {"system", "state", "trajectory", "integrator", "omega_body", "dtype", "message"}
# Serves until somebody ends it.
NOT_RUN = {"lie_jax.viz.show"}


def _blocks(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def _entries(text):
    return re.findall(r"^::: (\S+)", text, flags=re.MULTILINE)


def _public(modules):
    """Public functions and classes of modules by the names that users write."""
    names = {}
    for short in modules:
        module = (
            importlib.import_module("lie_jax.viz")
            if short == "viz"
            else operator.attrgetter(short)(lie_jax)
        )
        source = Path(inspect.getfile(module)).read_text()
        for name, value in vars(module).items():
            made = inspect.isfunction(value) or inspect.isclass(value)
            here = getattr(value, "__module__", "") == module.__name__
            offered = f" {name} as {name}\n" in source or name in getattr(module, "__all__", ())
            if made and (here or offered) and name[0] != "_" and name not in INTERNAL:
                names[f"lie_jax.{short}.{name}"] = value
    return names


def _top():
    things = {f"lie_jax.{name}": getattr(lie_jax, name) for name in lie_jax.__all__}
    return {name: thing for name, thing in things.items() if not inspect.ismodule(thing)}


@pytest.fixture(params=["lie_jax", pytest.param("viz", marks=pytest.mark.full)])
def public(request):
    """All public names; matplotlib and viser take long to import."""
    return _public(["viz"]) if request.param == "viz" else _top() | _public(MODULES)


def test_every_public_name_has_one_entry(public):
    """An entry of a module has all of its functions."""
    entries = [entry for text in TEXTS.values() for entry in _entries(text)]
    assert len(entries) == len(set(entries))
    # The module that defines the differentials shows them for `so3` and `quaternion`, and pages on
    # files and pictures have one entry of `Mesh`.
    shared = {*vars(rotation_algebra), "Mesh"}
    for name in public:
        module, _, last = name.rpartition(".")
        count = entries.count(name) + (module in entries)
        assert count == 1 or (count == 0 and last in shared), name


def test_every_public_name_is_in_an_example(public):
    code = "\n".join(block for text in TEXTS.values() for block in _blocks(text))
    words = set(re.findall(r"\w+", code))
    missing = {name for name in public if name.rpartition(".")[2] not in words}
    assert missing <= NOT_RUN


def test_entries_are_found_where_they_say():
    for entry in {entry for text in TEXTS.values() for entry in _entries(text)}:
        # Of viz, which takes long to import, the test below finds its names.
        if not entry.startswith("lie_jax.viz"):
            module, _, name = entry.rpartition(".")
            assert hasattr(importlib.import_module(module), name) or importlib.import_module(entry)


def test_every_page_is_in_the_table_and_the_navigation():
    table = (FOLDER / "index.md").read_text()
    navigation = (FOLDER.parents[1] / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f"({page})" in table and f"reference/{page}" in navigation


def test_parameters_have_types_and_words(public):
    """Its own docstring names each parameter, for `help` shows no other one.

    Elements of groups, whose names are single letters, have their shapes in the types.
    """
    for name, thing in public.items():
        described = inspect.getdoc(thing) or ""
        for parameter in inspect.signature(thing).parameters.values():
            # The checks of types in tests hide those of functions that others return.
            hidden = thing.__module__.startswith("lie_jax.groups.")
            typed = parameter.annotation is not parameter.empty
            assert typed or hidden, f"{name}: {parameter.name}"
            private = parameter.name[0] == "_" or parameter.name in TELLING
            if len(parameter.name) > 2 and not private:
                assert re.search(rf"\b{parameter.name}\b", described), f"{name}: {parameter.name}"


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
