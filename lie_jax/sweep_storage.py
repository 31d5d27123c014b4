"""Sweeps on disk: a zarr store that is written batch by batch and that xarray reads.

A batch is one chunk of every variable along `variant`. Its chunk of `status` is written last: a
batch is done when that is there. Chunks, and the store itself when it is made, are written under
another name and renamed, so that a killed process leaves nothing half written that counts.
"""

import hashlib
import shutil
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lie_jax.trajectory import Result, Trajectory

_ATTRIBUTE = "lie_jax_sweep"
_STATUS = {"pending": -1, "fine": 0, "failed": 1}
# The leaves of a trajectory that have a row for each saved instant.
INSTANTS = ("t", "q", "v", "acceleration", "multipliers")
_POLL_SECONDS = 0.05
# Equinox does not export the class of an enumeration's items.
Item: Any = type(Result.successful)


class Variable(NamedTuple):
    """An array of the store, without its leading axis of variants."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]


def require() -> None:
    """Raise `ImportError` naming the extra unless zarr and xarray are installed."""
    try:
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "sweep(save_to=) writes a zarr store and reads it by xarray, which are not installed: "
            "pip install 'lie-jax[sweep]'."
        ) from error


def variables(tree: Any, root: tuple[str, ...], alone: str) -> list[Variable]:
    """One for each leaf of a pytree of arrays, or of their shapes; names are joined by dots.

    `root` starts every name; a tree that is a single leaf is named `alone`.
    """
    flatten = jax.tree_util.tree_flatten_with_path
    parts = flatten(tree, is_leaf=lambda x: isinstance(x, Trajectory))[0]
    runs = [(*root, *_words(path)) for path, part in parts if isinstance(part, Trajectory)]
    found = []
    for path, leaf in flatten(tree, is_leaf=lambda x: isinstance(x, Item))[0]:
        words, attributes = (*root, *_words(path)) or (alone,), {}
        if isinstance(leaf, Item):
            attributes, leaf = codes(leaf._enumeration), leaf._value
        name = ".".join(words)
        dimensions = [f"{name}_{axis}" for axis in range(len(leaf.shape))]
        if words[:-1] in runs and words[-1] in INSTANTS:
            dimensions[0] = ".".join((*words[:-1], "instant"))
        dtype = np.dtype(leaf.dtype)
        if "/" in name or dtype.kind not in "biufc":
            raise ValueError(
                f"sweep(save_to=): the array {name!r} of dtype {dtype} cannot be stored; names "
                "must be without '/' and numbers of a dtype that NumPy has itself: rename it, or "
                "convert it with .astype(jnp.float32)."
            )
        found.append(Variable(name, tuple(leaf.shape), dtype, tuple(dimensions), attributes))
    return found


def _words(path: Any) -> tuple[str, ...]:
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def codes(enumeration: Any) -> dict[str, Any]:
    """The codes of an enumeration as attributes, by the CF conventions for flags."""
    items = enumeration._name_to_item
    return {
        "flag_values": [int(item._value) for item in items.values()],
        "flag_meanings": " ".join(items),
        "messages": [str(enumeration._index_to_message[int(i._value)]) for i in items.values()],
    }


def settings(parameters: list[Variable], rows: list[np.ndarray], results: list[Variable]) -> dict:
    """What must be equal for a sweep to be resumed, apart from the size of a batch."""
    names = ["status", *(variable.name for variable in (*parameters, *results))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"sweep(save_to=): more than one array is named {twice[0]!r} ('status' is the sweep's "
            "own); names must differ: rename one of them in what fn returns or in the parameters."
        )
    return {
        "variants": len(rows[0]),
        "parameters": {
            variable.name: [
                variable.dtype.str,
                list(variable.shape),
                hashlib.sha256(values.tobytes()).hexdigest(),
            ]
            for variable, values in zip(parameters, rows, strict=True)
        },
        "results": {v.name: [v.dtype.str, list(v.shape)] for v in results},
    }


def saved_batch(path: Path, wanted: dict) -> int | None:
    """Variants in a batch of the sweep that is saved there; None if there is nothing.

    Raises `ValueError` if there is something else, or a sweep with other settings.
    """
    import zarr

    if not path.exists():
        return None
    try:
        found: Any = dict(zarr.open_group(path, mode="r").attrs)[_ATTRIBUTE]
    except (OSError, KeyError, ValueError):
        raise ValueError(
            f"sweep(save_to=) is {str(path)!r}, where there is something that is no saved sweep; "
            "it must be a new folder, or one of a sweep to resume: take another name."
        ) from None
    for setting, value in wanted.items():
        if found[setting] != value:
            there, here = found[setting], value
            if isinstance(value, dict):
                names = sorted(set(there) | set(here))
                differ = [name for name in names if there.get(name) != here.get(name)]
                there, here = ({n: x.get(n, "absent") for n in differ} for x in (there, here))
            raise ValueError(
                f"sweep(save_to=) is {str(path)!r}, where a sweep with other {setting} is saved: "
                f"{there} there, {here} now; a sweep is resumed with the same ones only: take "
                "another name, or delete the folder."
            )
    return found["batch"]


def create(
    path: Path,
    wanted: dict,
    batch: int,
    parameters: list[Variable],
    rows: list[np.ndarray],
    results: list[Variable],
) -> None:
    """Make a store with the parameters and without results, whole or not at all."""
    import zarr

    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".{path.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    group = zarr.create_group(
        building, zarr_format=3, attributes={_ATTRIBUTE: wanted | {"batch": batch}}
    )

    def add(variable: Variable, fill: Any) -> Any:
        return group.create_array(
            variable.name,
            shape=(wanted["variants"], *variable.shape),
            chunks=(batch, *(max(1, size) for size in variable.shape)),
            dtype=variable.dtype,
            fill_value=fill,
            # Numbers of a simulation hardly compress, and compressing them takes as long as
            # computing them.
            compressors=None,
            dimension_names=("variant", *variable.dimensions),
            attributes=variable.attributes,
        )

    for variable, values in zip(parameters, rows, strict=True):
        add(variable, variable.dtype.type(0))[...] = values
    for variable in results:
        add(variable, variable.dtype.type(np.nan if variable.dtype.kind in "fc" else 0))
    meanings = {"flag_values": list(_STATUS.values()), "flag_meanings": " ".join(_STATUS)}
    add(Variable("status", (), np.dtype(np.int8), (), meanings), np.int8(_STATUS["pending"]))
    with warnings.catch_warnings():
        # Zarr warns that version 3 does not specify what xarray looks for.
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(building)
    building.rename(path)


def wait_until_exists(path: Path) -> None:
    """Wait for another process to make the store."""
    while not path.exists():
        time.sleep(_POLL_SECONDS)


def done(path: Path, batches: int) -> np.ndarray:
    """Which batches (batches,) are completely saved."""
    return np.asarray([(path / "status" / "c" / str(i)).exists() for i in range(batches)])


def arrays(path: Path, results: list[Variable]) -> list[Any]:
    """The arrays of the results, `status` last, to be written to."""
    import zarr

    group = zarr.open_group(path, mode="r+")
    return [group[name] for name in (*(variable.name for variable in results), "status")]


def write(targets: list[Any], rows: slice, values: list[np.ndarray], failed: np.ndarray) -> None:
    """Save a batch: every array, and then the mark that it is complete."""
    status = np.where(failed, _STATUS["failed"], _STATUS["fine"]).astype(np.int8)
    for target, array in zip(targets, (*values, status), strict=True):
        target[rows] = array


def wait_until_done(path: Path, batches: int) -> None:
    """Wait for other processes to save their batches."""
    while not done(path, batches).all():
        time.sleep(_POLL_SECONDS)


def dataset(path: Path) -> Any:
    """The store as an `xarray.Dataset`, which reads values when they are asked for."""
    import xarray

    return xarray.open_zarr(path)


def remove_fragments(path: Path) -> None:
    """Remove chunks that a killed process left half written, when no process writes."""
    for fragment in path.glob("**/*.partial"):
        fragment.unlink(missing_ok=True)
