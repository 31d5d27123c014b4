"""Sweeps: one function over many variants, batch by batch, on all devices, to memory or disk."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool, PyTree

from lie_jax import checks
from lie_jax.numerics import memory, waits
from lie_jax.sweeps import batches, storage


class Sweep(NamedTuple):
    """A sweep in memory. `results`: the pytree that `fn` returns, of NumPy arrays with a leading
    axis of variants; `failed` (variants,): whether each variant failed.
    """

    results: PyTree
    failed: Bool[np.ndarray, " variants"]


@waits.announce("the sweep")
def sweep(
    fn: Callable[[Any], Any],
    parameters: PyTree,
    *,
    batch: int | None = None,
    mesh: Mesh | None = None,
    save_to: str | os.PathLike | None = None,
    progress: bool = True,
) -> Any:
    """Evaluate a function of one variant for any number of variants.

    The variants are cut into batches; each is evaluated by `lie_jax.batched` under one `jax.jit`,
    spread over devices. A failed variant is marked and does not disturb the others.

    **Arguments:**

    - `fn(variant)`: a pure function of one variant, a pytree like `parameters` without the leading
      axis, that returns a pytree of arrays: a `Trajectory`, or what you make of one. Simulate with
      `throw=False`: otherwise one failure ends the whole sweep.
    - `parameters`: pytree of arrays with a common leading axis, the variants.
    - `batch`: variants in a batch. By default 1024 a device on CPUs and 65536 on others, fewer if
      they do not fit half of the free memory, or if their results are more than 256 MiB.
    - `mesh`: a `jax.sharding.Mesh` of devices of this process, over all of which a batch is spread
      evenly. By default all local devices, or as many of them as divide a given `batch`.
    - `save_to`: a folder, for a zarr store of version 3 with parameters and results, saved batch by
      batch. A sweep with the same parameters, results and batches is resumed there: batches that
      are absent, incomplete or damaged are computed. Take another folder after a change of `fn`.
    - `progress`: show a progress bar.

    With several processes (`jax.distributed`) each calls `sweep` with the same arguments and with
    `save_to` on a disk that all share; they divide the batches, and return when all are saved.

    **Returns** a `Sweep` (`results`, `failed`) in memory, or with `save_to` the store as an
    `xarray.Dataset`, which reads from disk what is asked for. Its variables are the leaves of the
    results, names joined by dots (`"q"`, `"stats.newton_iterations"`; `"value"` for a lone array),
    those of the parameters (`"parameters.mass"`) and `"status"`: 0 for a variant that is fine, 1
    for one that failed, -1 for one that was not computed yet.

    A variant failed if any `Result` in what `fn` returns is neither `successful` nor `redundant`,
    or if any number outside of a `Trajectory` is infinite or NaN.

    Raises `ValueError`, before anything is computed, for parameters without a common leading axis,
    a batch or results that do not fit the memory, a mesh that does not divide the batch, and a
    folder that holds something else or a sweep with other settings; `OSError` if `save_to` cannot
    be written; `ImportError` if it is given and the extra `sweep` is not installed.
    """
    checks.function("sweep(fn=)", fn, "variant")
    rows, structure, variants = _rows(parameters)
    layout = batches.layout(rows)
    one = structure.unflatten([jax.ShapeDtypeStruct(*leaf) for leaf in layout])
    results = batches.shapes(fn, structure, layout)
    bytes_each = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((one, results)))
    _check_options(batch, mesh, save_to)
    if save_to is None:
        needed, free = variants * bytes_each, memory.free_host_bytes()
        if needed > free:
            raise ValueError(
                f"the results of all variants are {needed / 1e9:.3g} GB and {free / 1e9:.3g} GB of "
                "memory are free; without save_to they must fit: name a folder with save_to=, or "
                "let fn return less."
            )
        plan = batches.plan(fn, rows, structure, bytes_each, batch, mesh)
        return _in_memory(plan, rows, results, progress)

    storage.require()
    path = Path(save_to)
    inputs = storage.variables(one, ("parameters",), "parameters")
    outputs = storage.variables(results, (), "value")
    settings = storage.settings(inputs, rows, outputs)
    while jax.process_index() and not path.exists():
        # The first process decides on the batch.
        time.sleep(storage.POLL_SECONDS)
    wanted = settings if batch is None else settings | {"batch": batch}
    saved = storage.saved_batch(path, wanted)
    plan = None
    if saved is None:
        plan = batches.plan(fn, rows, structure, bytes_each, batch, mesh)
        storage.create(path, settings, plan.batch, [*inputs, *outputs])
        # Another process may have made the store, with batches of another size.
        saved = storage.saved_batch(path, wanted)
        assert saved is not None
    count = -(-variants // saved)
    targets = storage.arrays(path, [*inputs, *outputs], variants, saved)
    with storage.in_use(path):
        done = storage.is_done(path, count)
        again = storage.damaged_batches(targets, np.flatnonzero(done))
        todo = np.union1d(np.flatnonzero(~done), again)
        mine = todo[todo % jax.process_count() == jax.process_index()]
        if len(mine):
            if plan is None or plan.batch != saved:
                plan = batches.plan(fn, rows, structure, bytes_each, saved, mesh)
            for variants_done, values, failed in batches.evaluate(plan, rows, mine, progress):
                parts = [x[variants_done] for x in rows] + jax.tree.leaves(values)
                storage.write(path, targets, variants_done.start // saved, parts, failed)
        storage.wait_until_done(path, count, targets, np.setdiff1d(again, mine))
    import xarray

    return xarray.open_zarr(path)


def _in_memory(
    plan: batches.Plan, rows: list[np.ndarray], results: PyTree, progress: bool
) -> Sweep:
    variants = len(rows[0])
    failed = np.zeros(variants, bool)
    table = jax.tree.map(lambda x: np.empty((variants, *x.shape), x.dtype), results)
    numbers = np.arange(-(-variants // plan.batch))
    for variants_done, values, failed_there in batches.evaluate(plan, rows, numbers, progress):
        failed[variants_done] = failed_there
        for whole, part in zip(jax.tree.leaves(table), jax.tree.leaves(values), strict=True):
            whole[variants_done] = part
    return Sweep(table, failed)


def _rows(parameters: PyTree) -> tuple[list[np.ndarray], Any, int]:
    """Leaves of the parameters as NumPy arrays, their pytree structure, and their common length."""
    if checks.has_tracers(parameters):
        raise ValueError(
            "sweep(parameters=) is being traced by JAX; a sweep is not a JAX function and must be "
            "called outside of jit, grad and vmap: use jax.vmap there."
        )
    leaves, structure = jax.tree_util.tree_flatten_with_path(parameters)
    if not leaves:
        raise ValueError(
            "sweep(parameters=) holds no array; it must be a pytree of arrays with one row for "
            "each variant, for example {'mass': jnp.linspace(1.0, 2.0, 1000)}."
        )
    rows, lengths = [], {}
    for path, leaf in leaves:
        name = f"sweep(parameters=){jax.tree_util.keystr(path)}"
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_)):
            raise ValueError(
                f"{name} has dtype {dtype}; it must hold numbers: let fn close over what is the "
                "same for all variants, and for random keys pass seeds and call jax.random.key in "
                "fn."
            )
        if not np.ndim(leaf):
            raise ValueError(
                f"{name} is {leaf}, a single number; it must have a row for each variant: let fn "
                "close over what is the same for all variants, or repeat it with jnp.full."
            )
        rows.append(np.asarray(leaf, jax.dtypes.canonicalize_dtype(dtype)))
        lengths[name] = len(rows[-1])
    if len(set(lengths.values())) > 1 or not len(rows[0]):
        listed = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        raise ValueError(
            f"the numbers of variants are {listed}; all arrays must have one leading axis, of at "
            "least one variant: repeat the shorter ones, or exchange axes with jnp.moveaxis."
        )
    return rows, structure, len(rows[0])


def _check_options(batch: Any, mesh: Any, save_to: Any) -> None:
    if save_to is not None:
        checks.path("sweep(save_to=)", save_to)
    if batch is not None:
        checks.positive_integer("sweep(batch=)", batch, "variants in a batch")
    if mesh is not None:
        if not isinstance(mesh, Mesh):
            raise ValueError(
                f"sweep(mesh=) is {mesh!r}; it must be a jax.sharding.Mesh, for example "
                "jax.sharding.Mesh(jax.local_devices(), ('variants',))."
            )
        if any(device.process_index != jax.process_index() for device in mesh.devices.flat):
            raise ValueError(
                "sweep(mesh=) holds devices of other processes; it must hold those of this one, "
                "because each process takes batches of its own: use jax.local_devices()."
            )
        if batch is not None and batch % mesh.size:
            raise ValueError(
                f"sweep(batch=) is {batch} and sweep(mesh=) has {mesh.size} devices; a batch must "
                f"be a multiple of them: take {-(-batch // mesh.size) * mesh.size}."
            )
    if save_to is None and jax.process_count() > 1:
        raise ValueError(
            f"sweep(save_to=) is None with {jax.process_count()} processes; it must be a folder "
            "that all of them share, through which results come together."
        )
