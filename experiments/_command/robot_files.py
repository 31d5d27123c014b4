"""Robot files below a folder: whether each is imported, with which options, or why it is not."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lie_jax
from experiments import _report
from experiments._command.mujoco_models import mujoco
from lie_jax.io import sources

_SUFFIXES = (".urdf", ".xml", ".mjcf")
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"floating_base": True},
    {"inertia": "geometry"},
    {"inertia": "balance"},
    {"floating_base": True, "inertia": "balance"},
)
# Kinds of refusals, and words of the messages by which they are known, in this order.
_KINDS = {
    "nothing moves": ("nothing moves",),
    "macros, or no URDF or MJCF": ("macros of xacro", "not an XML file", "has the root"),
    "files that are missing": ("Error opening file", "files are missing", "cannot be read"),
    "older MuJoCo": ("an older MuJoCo", "MuJoCo 2.3.3"),
    "inertias": ("no body has", "<inertial>", "inertia", "mjMINVAL"),
    "names that the file does not have": (
        "no link of the file",
        "no joint of the file",
        "not found",
    ),
}
_OTHER, _CRASH = "other errors of the file", "crash"
_HEADS = ("file", "import", "bodies", "joints", "couplings", "shapes", "left out")
# Kinds of parts left out in a row.
_MOST = 6


class Loaded(NamedTuple):
    """An import: the model, or None; the options in words, or the reason; the kind of a refusal,
    "" for none; the options.
    """

    model: Any
    imported: str
    kind: str
    chosen: dict[str, Any]


def files(folder: Path, scenes: bool = True) -> Iterator[Path]:
    """URDF and MJCF files; without `scenes`, no MJCF files without joints of their own."""
    if not folder.is_dir():
        raise SystemExit(f"{str(folder)!r} is no folder: name one with URDF or MJCF files.")
    for path in sorted(
        path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()
    ):
        try:
            root = sources.tree(path)
        except (ValueError, OSError):
            # Files without a tree have a row, unless they belong to something else.
            text = path.read_bytes() if os.access(path, os.R_OK) else b"<robot"
            if path.suffix == ".urdf" or b"<robot" in text or b"<mujoco>" in text:
                yield path
            continue
        moves = root.find(".//joint") is not None or root.find(".//freejoint") is not None
        if scenes or root.tag == "robot" or moves:
            yield path


def loaded(path: Path) -> Loaded:
    """Import a file as it is, with a free base, or with other inertias where it needs them."""
    reason = kind = ""
    for chosen in _OPTIONS if path.suffix == ".urdf" else _OPTIONS[:1]:
        if len(chosen) > 1 and b"<inertial" not in path.read_bytes():
            # A link without mass is no robot.
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = lie_jax.io.import_model(path, **chosen)
        except (ValueError, OSError) as error:
            refusal = " ".join(str(error).replace(f"{str(path)!r}", "").split())
            reason, kind = reason or refusal, kind or _kind(refusal)
        except Exception as error:
            # A row of the table, and the only one of its kind that is a defect of lie_jax.
            return Loaded(None, f"{type(error).__name__}: {error}", _CRASH, chosen)
        else:
            how = ", ".join(map(str, chosen.values())).replace("True", "floating base") or "ok"
            return Loaded(model, how, "", chosen)
    return Loaded(None, reason, kind, {})


def table(folder: Path, out: Path) -> None:
    """Print a row for each file below a folder, then counts; write both as files.json, files.md."""
    rows, numbers = [], []
    print("\n".join(_report.table(_HEADS, [])))
    for path in files(folder):
        result, name = loaded(path), str(path.relative_to(folder))
        rows.append(_cells(name, result))
        print(_report.row(rows[-1]), flush=True)
        joints = _joints_of_mujoco(path) if result.model is None else None
        number = {"file": name, "imported": result.imported, "kind": result.kind}
        numbers.append(number | {"joints_of_mujoco": joints})
    counts = _counts(numbers)
    print("\n" + "\n".join(counts))
    _report.write_json(out / "files.json", numbers)
    (out / "files.md").write_text("\n".join([*_report.table(_HEADS, rows), "", *counts, ""]))


def _kind(refusal: str) -> str:
    found = (kind for kind, words in _KINDS.items() if any(word in refusal for word in words))
    return next(found, _OTHER)


def _joints_of_mujoco(path: Path) -> int | None:
    """Number of joints that MuJoCo reads from a file; None if it refuses the file."""
    try:
        return int(mujoco.MjModel.from_xml_path(str(path)).njnt)
    except (ValueError, mujoco.FatalError):
        return None


def _cells(name: str, result: Loaded) -> list[str]:
    if result.model is None:
        return [name, result.kind, *[""] * (len(_HEADS) - 3), _line(result.imported)]
    model = result.model
    parts = model.mechanism.bodies, model.joints, model.couplings, model.shapes
    return [name, result.imported, *(str(len(part)) for part in parts), _left_out(model.ignored)]


def _left_out(ignored: dict[str, tuple[str, ...]]) -> str:
    kinds = [f"{kind.removesuffix(' of')} {len(names)}" for kind, names in ignored.items()]
    more = [f"{len(kinds) - _MOST} more kinds"] if len(kinds) > _MOST else []
    return _line("; ".join([*kinds[:_MOST], *more]))


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _counts(numbers: Iterable[dict[str, Any]]) -> list[str]:
    """Counts of the ways in which files are imported, and of the kinds of refusals."""
    numbers = list(numbers)
    ways = Counter(number["imported"] for number in numbers if not number["kind"])
    kinds = Counter(number["kind"] for number in numbers if number["kind"])
    moving = Counter(number["kind"] for number in numbers if number["joints_of_mujoco"])

    def listed(counts: Counter) -> str:
        return "; ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "none"

    return [
        f"{ways.total()} of {len(numbers)} files are imported: {listed(ways)}.",
        f"{kinds.total()} are refused: {listed(kinds)}.",
        f"Refused files in which MuJoCo {mujoco.__version__} finds a joint: {listed(moving)}.",
    ]
