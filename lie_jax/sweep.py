"""Sweeps: one function over many variants, batch by batch, on all devices, to memory or disk."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, PyTree
from tqdm import tqdm

from lie_jax import checks, sweep_storage
from lie_jax.trajectory import Result, Statistics, Trajectory

if TYPE_CHECKING:
    import xarray

# Variants in a batch on each device, unless told: on a CPU more of them are no faster, and more is
# lost when a sweep is killed; other devices need more to be busy.
_CPU_VARIANTS, _OTHER_VARIANTS = 1024, 65_536
# Parameters and results of a batch, bytes, unless told: what is quick to save and to read again.
_BATCH_BYTES = 2**28


class Sweep(NamedTuple):
    """Results of a sweep in memory.

    `results` is the pytree that `fn` returns, its leaves NumPy arrays with a leading axis of
    variants; `failed` (variants,) tells which ones failed.
    """

    results: PyTree
    failed: Bool[np.ndarray, " variants"]


@overload
def sweep(
    fn: Callable[[Any], Any],
    parameters: PyTree,
    *,
    batch: int | None = None,
    mesh: Mesh | None = None,
    save_to: None = None,
    progress: bool = True,
) -> Sweep: ...


@overload
def sweep(
    fn: Callable[[Any], Any],
    parameters: PyTree,
    *,
    batch: int | None = None,
    mesh: Mesh | None = None,
    save_to: str | os.PathLike,
    progress: bool = True,
) -> "xarray.Dataset": ...


def sweep(
    fn: Callable[[Any], Any],
    parameters: PyTree,
    *,
    batch: int | None = None,
    mesh: Mesh | None = None,
    save_to: str | os.PathLike | None = None,
    progress: bool = True,
) -> "Sweep | xarray.Dataset":
    """Evaluate a function of one variant for any number of variants.

    The variants are cut into batches; each is evaluated by `jax.vmap` under one `jax.jit`, spread
    over devices. A failed variant is marked and does not disturb the others.

    **Arguments:**

    - `fn(variant)`: a pure function of one variant, a pytree like `parameters` without the leading
      axis, that returns a pytree of arrays: a `Trajectory`, or what you make of one. Simulate with
      `throw=False`: otherwise one failure ends the whole sweep.
    - `parameters`: pytree of arrays with a common leading axis, the variants.
    - `batch`: variants in a batch. By default 1024 a device on CPUs and 65536 on others, fewer if
      they do not fit half of the free memory, or if their results are more than 256 MiB.
    - `mesh`: a `jax.sharding.Mesh` of devices of this process, over all of which a batch is spread
      evenly. By default all local devices, or as many of them as divide a given `batch`.
    - `save_to`: a folder. Each batch is saved there when it is computed, as a zarr store of
      version 3 that holds the parameters, too. If a sweep of the same parameters, results and
      batches is already there, it is resumed: batches that are completely saved are not computed
      again. `fn` itself cannot be compared: after a change of it take another folder.
    - `progress`: show a progress bar.

    With several processes (`jax.distributed`) every one of them calls `sweep` with the same
    arguments; each takes every so-many-th batch, and all return when all batches are saved.
    `save_to`, on a disk that all of them share, is needed then.

    **Returns** a `Sweep` (`results`, `failed`) in the computer's memory, or with `save_to` the
    store as an `xarray.Dataset`, which reads from disk what is asked for. Its variables are the
    leaves of the results, their names joined by dots (`"q"`, `"stats.newton_iterations"`; `"value"`
    for a lone array), those of the parameters (`"parameters.mass"`) and `"status"`: 0 for a
    variant that is fine, 1 for one that failed, -1 for one that was not computed yet.

    A variant failed if any `Result` in what `fn` returns is neither `successful` nor `redundant`,
    or if any other number is infinite or NaN; those inside of a `Trajectory` do not count, its
    `result` does.

    Raises `ValueError`, before anything is computed, for parameters without a common leading axis,
    a batch or results that do not fit the memory, a mesh that does not divide the batch, and a
    folder that holds something else or a sweep with other settings; `ImportError` if `save_to` is
    given and the extra `sweep` is not installed.
    """
    rows, structure, variants = _rows(parameters)
    one = structure.unflatten([jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in rows])
    results, _ = jax.eval_shape(functools.partial(_judged, fn), one)
    bytes_each = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((one, results)))
    _check_options(batch, mesh, save_to)
    if save_to is None:
        _check_host_memory(variants * bytes_each)
        plan = _plan(fn, rows, structure, bytes_each, batch, mesh)
        return _in_memory(plan, rows, results, progress)

    sweep_storage.require()
    path = Path(save_to)
    inputs = sweep_storage.variables(one, ("parameters",), "parameters")
    outputs = sweep_storage.variables(results, (), "value")
    settings = sweep_storage.settings(inputs, rows, outputs)
    if jax.process_index() and not path.exists():
        # The first process decides on the batch.
        sweep_storage.wait_until_exists(path)
    saved = sweep_storage.saved_batch(
        path, settings if batch is None else settings | {"batch": batch}
    )
    plan = None
    if saved is None:
        plan = _plan(fn, rows, structure, bytes_each, batch, mesh)
        sweep_storage.create(path, settings, plan.batch, inputs, rows, outputs)
        saved = plan.batch
    batches = -(-variants // saved)
    todo = np.flatnonzero(~sweep_storage.done(path, batches))
    mine = todo[todo % jax.process_count() == jax.process_index()]
    if len(mine):
        plan = plan or _plan(fn, rows, structure, bytes_each, saved, mesh)
        targets = sweep_storage.arrays(path, outputs)
        for place, values, failed in _computed(plan, rows, mine, progress):
            sweep_storage.write(targets, place, jax.tree.leaves(values), failed)
    sweep_storage.wait_until_done(path, batches)
    if jax.process_index() == 0:
        sweep_storage.remove_fragments(path)
    return sweep_storage.dataset(path)


def _in_memory(plan: "_Plan", rows: list[np.ndarray], results: PyTree, progress: bool) -> Sweep:
    variants = len(rows[0])
    failed = np.zeros(variants, bool)
    held = jax.tree.map(lambda x: np.empty((variants, *x.shape), x.dtype), results)
    batches = np.arange(-(-variants // plan.batch))
    for place, values, bad in _computed(plan, rows, batches, progress):
        failed[place] = bad
        for whole, part in zip(jax.tree.leaves(held), jax.tree.leaves(values), strict=True):
            whole[place] = part
    return Sweep(held, failed)


def _rows(parameters: PyTree) -> tuple[list[np.ndarray], Any, int]:
    """The parameters' leaves as NumPy arrays, how they form a pytree, and their common length."""
    if checks.traced(parameters):
        raise ValueError(
            "sweep(parameters=) is being traced by JAX; a sweep is no JAX function, it must be "
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
        dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
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


def _judged(fn: Callable[[Any], Any], variant: PyTree) -> tuple[PyTree, Array]:
    """Results of a variant, and whether it failed."""
    results = fn(variant)
    leaves = jax.tree.leaves(results)
    numbers = jax.Array, np.ndarray, np.generic, int, float, complex
    wrong = [x for x in leaves if not isinstance(x, numbers)]
    if wrong or not leaves:
        what = f"a {type(wrong[0]).__name__}" if wrong else "nothing"
        raise ValueError(
            f"sweep(fn=) returns {what}; it must return a pytree of arrays, for example a "
            "Trajectory or a dictionary of numbers: leave everything else out."
        )
    failed, judged = jnp.zeros((), bool), (Trajectory, Statistics, Result)
    for part in jax.tree.leaves(results, is_leaf=lambda x: isinstance(x, judged)):
        if isinstance(part, Statistics):
            continue
        if isinstance(part, Trajectory | Result):
            result = part.result if isinstance(part, Trajectory) else part
            fine = (result == Result.successful) | (result == Result.redundant)
        else:
            fine = jnp.isfinite(jnp.asarray(part))
        failed = failed | ~jnp.all(fine)
    return jax.tree.map(jnp.asarray, results), failed


def _check_options(batch: Any, mesh: Any, save_to: Any) -> None:
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


class _Plan(NamedTuple):
    """Variants in a batch, its compiled program, and how its inputs lie on the devices."""

    batch: int
    program: Callable[[PyTree], tuple[PyTree, Array]]
    sharding: NamedSharding
    structure: Any


def _plan(
    fn: Callable,
    rows: list[np.ndarray],
    structure: Any,
    bytes_each: int,
    batch: int | None,
    mesh: Mesh | None,
) -> _Plan:
    """Compile for a batch that fits; raise `ValueError` if a given one does not."""
    mesh = _default_mesh(batch) if mesh is None else mesh
    size, chosen, given = mesh.size, batch, batch is not None
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    if chosen is None:
        cpu = mesh.devices.flat[0].platform == "cpu"
        limit = min((_CPU_VARIANTS if cpu else _OTHER_VARIANTS) * size, _BATCH_BYTES // bytes_each)
        chosen = _even_batch(len(rows[0]), limit, size)
    elif chosen % size:
        raise ValueError(
            f"batches of {chosen} variants are saved there and sweep(mesh=) has {size} devices; a "
            "batch must be a multiple of them: leave mesh out."
        )
    kinds = tuple((x.shape[1:], x.dtype) for x in rows)
    compiled = _compile if _hashable(fn) else _compile.__wrapped__
    free = _free_memory(mesh)
    while True:
        program = compiled(fn, structure, kinds, chosen, sharding)
        need = _needed_memory(program, bytes_each * chosen // size)
        if need <= (free if given else free // 2):
            return _Plan(chosen, program, sharding, structure)
        if given or chosen == size:
            raise ValueError(
                f"a batch of {chosen} variants needs {need / 1e9:.3g} GB on each of {size} "
                f"devices, where {free / 1e9:.3g} GB are free; it must fit: take batch="
                f"{max(size, int(chosen * free / need) // size * size)} or less, or let fn "
                "return less."
            )
        fitting = min(chosen - size, int(chosen * free / 2 / need))
        chosen = _even_batch(len(rows[0]), fitting, size)


def _even_batch(variants: int, limit: int, size: int) -> int:
    """A multiple of `size`, at most `limit` if that is possible, that leaves little to pad."""
    limit = max(size, limit // size * size)
    batches = -(-variants // limit)
    return -(-variants // (batches * size)) * size


def _default_mesh(batch: int | None) -> Mesh:
    devices = jax.local_devices()
    count = len(devices)
    while batch is not None and batch % count:
        count -= 1
    return Mesh(np.asarray(devices[:count]), ("variants",))


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=8)
def _compile(
    fn: Callable, structure: Any, kinds: tuple, batch: int, sharding: NamedSharding
) -> Callable:
    """The program of a batch; sweeps of the same function and shapes compile it once."""
    shapes = structure.unflatten(
        [jax.ShapeDtypeStruct((batch, *shape), dtype, sharding=sharding) for shape, dtype in kinds]
    )
    # Each device runs a program of its own. Left to the compiler, the loops of Newton's method
    # would ask all devices after every iteration whether to go on.
    spread = jax.shard_map(
        jax.vmap(functools.partial(_judged, fn)),
        mesh=sharding.mesh,
        in_specs=(sharding.spec,),
        out_specs=sharding.spec,
        check_vma=False,
    )
    return jax.jit(spread).lower(shapes).compile()


def _needed_memory(program: Any, least: int) -> int:
    """Bytes on each device, with the results of the batch before, which is still being saved."""
    analysis = program.memory_analysis()
    if analysis is None:
        return 2 * least
    moved = analysis.argument_size_in_bytes + analysis.output_size_in_bytes
    return analysis.temp_size_in_bytes + 2 * moved


def _free_memory(mesh: Mesh) -> int:
    """Bytes that are free on each device; those on the host share its memory."""
    statistics = [device.memory_stats() or {} for device in mesh.devices.flat]
    if all("bytes_limit" in one for one in statistics):
        return min(one["bytes_limit"] - one.get("bytes_in_use", 0) for one in statistics)
    return _free_host_memory() // mesh.size


def _free_host_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _check_host_memory(needed: int) -> None:
    free = _free_host_memory()
    if needed > free:
        raise ValueError(
            f"the results of all variants are {needed / 1e9:.3g} GB and {free / 1e9:.3g} GB of "
            "memory are free; without save_to they must fit: name a folder with save_to=, or let "
            "fn return less."
        )


def _computed(
    plan: _Plan, rows: list[np.ndarray], batches: np.ndarray, progress: bool
) -> Iterator[tuple[slice, PyTree, np.ndarray]]:
    """Of each of these batches: its place among the variants, its results, and which failed."""
    variants, size = len(rows[0]), plan.batch

    def start(index: int):
        # The last batch is filled up by the last variant, so that one program does for all.
        chosen = np.minimum(np.arange(index * size, (index + 1) * size), variants - 1)
        inputs = plan.structure.unflatten([x[chosen] for x in rows])
        return index, plan.program(jax.device_put(inputs, plan.sharding))

    def finish(index: int, output: tuple[PyTree, Array]):
        place = slice(index * size, min((index + 1) * size, variants))
        count = place.stop - place.start
        results, failed = jax.tree.map(lambda x: np.asarray(x)[:count], output)
        bar.update(count)
        return place, results, failed

    counts = np.minimum((batches + 1) * size, variants) - batches * size
    shown = progress and jax.process_index() == 0
    with tqdm(total=int(counts.sum()), unit="variant", desc="sweep", disable=not shown) as bar:
        running = None
        for index in (*batches.tolist(), None):
            # While a batch is saved, the next one is computed.
            following = None if index is None else start(index)
            if running is not None:
                yield finish(*running)
            running = following
