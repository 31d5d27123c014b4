"""Sweeps on disk: a zarr store that is written batch by batch and that xarray reads.

A batch is one chunk of every variable along `variant`, with its checksum. The chunk of `status` is
written last: the batch is done then. Chunks, and a new store, are written under another name and
renamed, so that a killed process leaves nothing half written that counts.
"""

import contextlib
import hashlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lie_jax.simulation.trajectory import (
    INSTANTS,
    EnumerationItem,
    Trajectory,
    flag_attributes,
)
from lie_jax.sweeps import unfinished

_ATTRIBUTE = "lie_jax_sweep"
_STATUS = {"pending": -1, "fine": 0, "failed": 1}
POLL_SECONDS = 0.05


class Variable(NamedTuple):
    """An array of the store, without its leading axis of variants."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    dimensions: tuple[str, ...]
    attributes: dict[str, Any]


_MEANINGS = {"flag_values": list(_STATUS.values()), "flag_meanings": " ".join(_STATUS)}
_STATUS_VARIABLE = Variable("status", (), np.dtype(np.int8), (), _MEANINGS)


class Chunks:
    """Array of a store, read and written batch by batch."""

    def __init__(self, store: Path, array: Any):
        self._array = array
        self._folder = store / array.path

    def is_whole(self, batch: int) -> bool:
        """Whether the batch can be read as it was written."""
        if 0 in self._array.shape:
            return True
        # Zarr reads an absent chunk as fill values.
        if not self._file(batch).exists():
            return False
        try:
            self._array[self._rows(batch)]
        # Damage raises exceptions of any class: all of them make the batch unreadable.
        except Exception:
            return False
        return True

    def write(self, batch: int, values: np.ndarray) -> None:
        """Replace the batch, at once."""
        # Zarr reads a chunk before it writes a part of it, as in the last batch, and fails on a
        # damaged one. Only a damaged chunk is removed: another process may be saving an absent one.
        if self._file(batch).exists() and not self.is_whole(batch):
            self._file(batch).unlink(missing_ok=True)
        self._array[self._rows(batch)] = values

    def _rows(self, batch: int) -> slice:
        size = self._array.chunks[0]
        return slice(batch * size, (batch + 1) * size)

    def _file(self, batch: int) -> Path:
        return self._folder.joinpath("c", str(batch), *"0" * (self._array.ndim - 1))


def require() -> None:
    """Raise `ImportError` naming the extra unless zarr and xarray are installed."""
    try:
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "sweep(save_to=) writes a zarr store and reads it by xarray, which are not installed: "
            "in the clone of lie_jax run pip install '.[sweep]'."
        ) from error


def variables(tree: Any, root: tuple[str, ...], alone: str) -> list[Variable]:
    """Variables for the leaves of a pytree of arrays or shapes; names are joined by dots.

    `root` starts every name; a tree that is a single leaf is named `alone`.
    """
    flatten = jax.tree_util.tree_flatten_with_path
    parts = flatten(tree, is_leaf=lambda x: isinstance(x, Trajectory))[0]
    runs = [(*root, *_words(path)) for path, part in parts if isinstance(part, Trajectory)]
    result = []
    for path, leaf in flatten(tree, is_leaf=lambda x: isinstance(x, EnumerationItem))[0]:
        words, attributes = (*root, *_words(path)) or (alone,), {}
        if isinstance(leaf, EnumerationItem):
            attributes, leaf = flag_attributes(leaf._enumeration), leaf._value
        name = ".".join(words)
        dimensions = [f"{name}_{axis}" for axis in range(len(leaf.shape))]
        if words[:-1] in runs and words[-1] in INSTANTS:
            dimensions[0] = ".".join((*words[:-1], "instant"))
        for run in runs:
            saved = (*run, "saved")
            if words[: len(saved)] == saved:
                dimensions[0] = ".".join((*saved, "instant"))
        dtype = np.dtype(leaf.dtype)
        if "/" in name or dtype.kind not in "biufc":
            raise ValueError(
                f"sweep(save_to=): the array {name!r} of dtype {dtype} cannot be stored; names "
                "must be without '/' and numbers of a dtype that NumPy has itself: rename it, or "
                "convert it with .astype(jnp.float32)."
            )
        result.append(Variable(name, tuple(leaf.shape), dtype, tuple(dimensions), attributes))
    return result


def _words(path: Any) -> tuple[str, ...]:
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def settings(parameters: list[Variable], rows: list[np.ndarray], results: list[Variable]) -> dict:
    """Settings that must be equal for a sweep to be resumed, apart from the size of a batch."""
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
    """Variants in a batch of the sweep saved at a path; None if the path does not exist.

    Raises `ValueError` for anything but a sweep with the wanted settings.
    """
    import zarr

    if not path.exists():
        return None
    try:
        saved: Any = dict(zarr.open_group(path, mode="r").attrs)[_ATTRIBUTE]
        saved = {name: saved[name] for name in (*wanted, "batch")}
    # A damaged store raises exceptions of any class.
    except Exception:
        raise ValueError(
            f"sweep(save_to=) is {str(path)!r}, which exists and is not a saved sweep, or whose "
            "zarr.json is damaged; it must be a new folder, or that of a sweep to resume: take "
            "another name."
        ) from None
    for setting, value in wanted.items():
        if saved[setting] != value:
            there, here = saved[setting], value
            if isinstance(value, dict):
                names = sorted(set(there) | set(here))
                differ = [name for name in names if there.get(name) != here.get(name)]
                there, here = ({n: x.get(n, "absent") for n in differ} for x in (there, here))
            raise ValueError(
                f"sweep(save_to=) is {str(path)!r}, where a sweep with other {setting} is saved: "
                f"{there} there, {here} now; a sweep is resumed with the same ones only: take "
                "another name, or delete the folder."
            )
    return saved["batch"]


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Name in an `OSError` the folder that cannot be written."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"sweep(save_to=) is {str(path)!r}, which cannot be written ({error.strerror}); it "
            "must be a folder that you may write to, on a disk with space: make room and call "
            "again, batches that are saved are kept.",
        ) from error


def create(path: Path, wanted: dict, batch: int, variables: list[Variable]) -> None:
    """Make a store without any batch, whole or not at all, unless another process was faster.

    `variables` of parameters and results. Raises `OSError` where nothing can be written.
    """
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    attributes = {_ATTRIBUTE: wanted | {"batch": batch}, "coordinates": _coordinates(variables)}
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.beside(path) as new:
            group = zarr.create_group(new, zarr_format=3, attributes=attributes)
            for variable in (*variables, _STATUS_VARIABLE):
                missing = _STATUS["pending"] if variable is _STATUS_VARIABLE else 0
                missing = np.nan if variable.dtype.kind in "fc" else missing
                group.create_array(
                    variable.name,
                    **_description(variable, wanted["variants"], batch),
                    fill_value=variable.dtype.type(missing),
                    # Floats of a simulation hardly compress, and that takes as long as computing;
                    # counts are mostly equal, all zero for explicit methods.
                    compressors=[Crc32cCodec()]
                    if variable.dtype.kind in "fc"
                    else [ZstdCodec(), Crc32cCodec()],
                )
            with warnings.catch_warnings():
                # Zarr warns that version 3 does not specify what xarray looks for.
                warnings.simplefilter("ignore")
                zarr.consolidate_metadata(new)
            try:
                # Fails where there is a folder that is not empty.
                new.rename(path)
            except OSError:
                if not path.exists():
                    raise


def _coordinates(variables: list[Variable]) -> str:
    """Names that xarray makes coordinates by the CF conventions, which separate them by blanks."""
    names = [variable.name for variable in variables if variable.name.startswith("parameters")]
    names += [v.name for v in variables if v.dimensions and v.name == _time(v.dimensions[0])]
    return " ".join(name for name in (*names, _STATUS_VARIABLE.name) if len(name.split()) == 1)


def _time(instants: str) -> str:
    """Name of the times of a dimension of instants."""
    return instants.removesuffix("instant") + "t"


def _description(variable: Variable, variants: int, batch: int) -> dict[str, Any]:
    """Properties of a variable's array, by the names that zarr gives them."""
    return {
        "shape": (variants, *variable.shape),
        "chunks": (batch, *(max(1, size) for size in variable.shape)),
        "dtype": variable.dtype,
        "dimension_names": ("variant", *variable.dimensions),
        "attributes": variable.attributes,
    }


def is_done(path: Path, batches: int) -> np.ndarray:
    """Whether each batch (batches,) is completely saved."""
    return np.asarray([(path / "status" / "c" / str(i)).exists() for i in range(batches)])


def arrays(path: Path, variables: list[Variable], variants: int, batch: int) -> list[Chunks]:
    """Arrays of parameters and results, `status` last.

    Raises `ValueError` for arrays that `create` does not make.
    """
    import zarr

    group, result = zarr.open_group(path, mode="r+"), []
    # Otherwise chunks of zeros would be absent, like lost ones.
    with zarr.config.set({"array.write_empty_chunks": True}):
        for variable in (*variables, _STATUS_VARIABLE):
            try:
                array: Any = group[variable.name]
                wrong = _difference(array, _description(variable, variants, batch))
            # Damage raises exceptions of any class.
            except Exception as error:
                array, wrong = None, repr(error)
            if wrong:
                raise ValueError(
                    f"sweep(save_to=) is {str(path)!r}, where zarr.json is damaged, or of another "
                    f"version of lie_jax, in what it says of {variable.name!r} ({wrong}); it must "
                    "be as this version saves it: take a copy of zarr.json, or another name."
                )
            result.append(Chunks(path, array))
    return result


def _difference(array: Any, expected: dict[str, Any]) -> str:
    """Properties in which an array differs from the one that `create` makes."""
    there = {name: getattr(array, name, None) for name in expected}
    there["dimension_names"] = array.metadata.dimension_names
    there["attributes"] = {name: array.attrs.get(name) for name in expected["attributes"]}
    wrong = [name for name, value in expected.items() if there[name] != value]
    return ", ".join(f"{name} {there[name]} in place of {expected[name]}" for name in wrong)


def damaged_batches(targets: list[Chunks], batches: np.ndarray) -> np.ndarray:
    """Batches that cannot be read as they were written; reads every byte of them."""
    wrong = [not all(target.is_whole(batch) for target in targets) for batch in batches.tolist()]
    return batches[np.asarray(wrong, bool)]


def write(
    path: Path, targets: list[Chunks], batch: int, values: list[np.ndarray], failed: np.ndarray
) -> None:
    """Save a batch: every array, and last the status, which marks it as complete."""
    status = np.where(failed, _STATUS["failed"], _STATUS["fine"]).astype(np.int8)
    with _writing(path):
        for target, array in zip(targets, [*values, status], strict=True):
            target.write(batch, array)


def wait_until_done(path: Path, batches: int, targets: list[Chunks], again: np.ndarray) -> None:
    """Wait for other processes to save their batches, damaged ones `again`."""
    while not is_done(path, batches).all() or len(again := damaged_batches(targets, again)):
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def in_use(path: Path) -> Iterator[None]:
    """Use a store; the last process to do so removes half-written files of killed ones."""
    with contextlib.closing(unfinished.Lock(path / "zarr.json")) as lock:
        try:
            yield
        finally:
            if lock.is_alone():
                for fragment in path.glob("**/*.partial"):
                    fragment.unlink(missing_ok=True)
