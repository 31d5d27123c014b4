"""Batches of a sweep: their size, their program and their evaluation."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from lie_jax.numerics import interrupts, memory
from lie_jax.numerics.progress import progress_bar
from lie_jax.simulation.trajectory import Result, Statistics, Trajectory, succeeded
from lie_jax.sweeps.batched import batched
from lie_jax.user_functions import closures, snapshots

# Default variants in a batch on each device. On a CPU more variants are no faster, and a killed
# sweep loses more; other devices need more to be busy.
_CPU_VARIANTS, _OTHER_VARIANTS = 1024, 65_536
# Default bytes of a batch's parameters and results: quick to save and to read again.
_BATCH_BYTES = 2**28


def evaluate_one(fn: Callable[[Any], Any], variant: PyTree) -> tuple[PyTree, Array]:
    """Results of a variant, and whether it failed."""
    results = jax.tree.map(
        _without_restart, fn(variant), is_leaf=lambda x: isinstance(x, Trajectory)
    )
    leaves = jax.tree.leaves(results)
    numbers = jax.Array, np.ndarray, np.generic, int, float, complex
    wrong = [x for x in leaves if not isinstance(x, numbers)]
    if wrong or not leaves:
        what = f"a {type(wrong[0]).__name__}" if wrong else "nothing"
        raise ValueError(
            f"sweep(fn=) returns {what}; it must return a pytree of arrays, for example a "
            "Trajectory or a dictionary of numbers: leave everything else out."
        )
    failed, parts = jnp.zeros((), bool), (Trajectory, Statistics, Result)
    for part in jax.tree.leaves(results, is_leaf=lambda x: isinstance(x, parts)):
        if isinstance(part, Statistics):
            continue
        if isinstance(part, Trajectory | Result):
            result = part.result if isinstance(part, Trajectory) else part
            fine = succeeded(result)
        else:
            fine = jnp.isfinite(jnp.asarray(part))
        failed = failed | ~jnp.all(fine)
    return jax.tree.map(jnp.asarray, results), failed


def _without_restart(x: Any) -> Any:
    # A restart is as large as a saved instant, or larger, and of no use to a sweep.
    return dataclasses.replace(x, restart=None) if isinstance(x, Trajectory) else x


def layout(rows: list[np.ndarray]) -> tuple:
    """Shapes and dtypes of one variant's parameters."""
    return tuple((x.shape[1:], x.dtype) for x in rows)


class Plan(NamedTuple):
    """Variants in a batch, its compiled program, and the sharding and structure of its inputs."""

    batch: int
    program: Callable[[PyTree], tuple[PyTree, Array]]
    sharding: NamedSharding
    structure: Any


def plan(
    fn: Callable,
    rows: list[np.ndarray],
    structure: Any,
    bytes_each: int,
    batch: int | None,
    mesh: Mesh | None,
) -> Plan:
    """Compile for a batch that fits the memory; raise `ValueError` if `batch` does not."""
    mesh = _default_mesh(batch) if mesh is None else mesh
    size, chosen, is_fixed = mesh.size, batch, batch is not None
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    if chosen is None:
        cpu = mesh.devices.flat[0].platform == "cpu"
        limit = min((_CPU_VARIANTS if cpu else _OTHER_VARIANTS) * size, _BATCH_BYTES // bytes_each)
        chosen = even_batch(len(rows[0]), limit, size)
    elif chosen % size:
        raise ValueError(
            f"batches of {chosen} variants are saved there and sweep(mesh=) has {size} devices; a "
            "batch must be a multiple of them: leave mesh out."
        )
    free = _free_memory(mesh)
    while True:
        program, need = _compile(fn, structure, layout(rows), chosen, sharding)
        smallest = chosen == size
        if need <= (free if is_fixed or smallest else free // 2):
            return Plan(chosen, program, sharding, structure)
        if is_fixed or smallest:
            less = max(size, int(chosen * free / need) // size * size)
            fix = "let fn return less" if smallest else f"take batch={less} or less"
            raise ValueError(
                f"a batch of {chosen} variants needs {need / 1e9:.3g} GB on each of {size} "
                f"devices, where {free / 1e9:.3g} GB are free; it must fit: {fix}."
            )
        fitting = min(chosen - size, int(chosen * free / 2 / need))
        chosen = even_batch(len(rows[0]), fitting, size)


def even_batch(variants: int, limit: int, size: int) -> int:
    """Multiple of `size` with little padding, at most `limit` if that is possible."""
    limit = max(size, limit // size * size)
    batches = -(-variants // limit)
    return -(-variants // (batches * size)) * size


def _default_mesh(batch: int | None) -> Mesh:
    devices = jax.local_devices()
    count = len(devices)
    while batch is not None and batch % count:
        count -= 1
    return Mesh(np.asarray(devices[:count]), ("variants",))


def _cache(work: Callable) -> Callable:
    """Cache results by function and arguments: tracing one takes longer than a small sweep."""
    cached = functools.lru_cache(maxsize=8)(work)

    @functools.wraps(work)
    def recall(fn: Callable, *arguments: Any) -> Any:
        try:
            key = snapshots.with_snapshot(fn)
        except snapshots.Unreadable:
            return work(fn, *arguments)
        # A function that reads files is not cached: a change of a file would go unnoticed.
        return (work if key.reads_outside else cached)(key, *arguments)

    return recall


@_cache
def shapes(fn: Callable, structure: Any, layout: tuple) -> PyTree:
    """Results of one variant as `jax.ShapeDtypeStruct`s."""
    one = structure.unflatten([jax.ShapeDtypeStruct(*leaf) for leaf in layout])
    with closures.refuse_numbers("sweep(fn=)", fn, "one variant"):
        return jax.eval_shape(functools.partial(evaluate_one, fn), one)[0]


@_cache
def _compile(
    fn: Callable, structure: Any, layout: tuple, batch: int, sharding: NamedSharding
) -> tuple[Callable, int]:
    """Program of a batch, and the bytes on each device that it needs."""
    inputs = structure.unflatten(
        [jax.ShapeDtypeStruct((batch, *shape), dtype, sharding=sharding) for shape, dtype in layout]
    )
    # Each device runs its own program. Left to the compiler, the loops of Newton's method would
    # synchronise all devices after every iteration.
    spread = jax.shard_map(
        batched(functools.partial(evaluate_one, fn)),
        mesh=sharding.mesh,
        in_specs=(sharding.spec,),
        out_specs=sharding.spec,
        check_vma=False,
    )
    program = jax.jit(spread).lower(inputs).compile()
    analysis = program.memory_analysis()
    if analysis is None:  # Not every backend has an analysis.
        return program, 0
    # Twice: the results of the batch before are still being saved.
    transferred = analysis.argument_size_in_bytes + analysis.output_size_in_bytes
    return program, analysis.temp_size_in_bytes + 2 * transferred


def _free_memory(mesh: Mesh) -> int:
    """Free bytes on each device; devices on the host share its memory."""
    devices = list(mesh.devices.flat)
    shared = mesh.size if any(not device.memory_stats() for device in devices) else 1
    return min(map(memory.free_device_bytes, devices)) // shared


@contextlib.contextmanager
def _explain_failure() -> Iterator[None]:
    """Raise with the fix where a simulation of one variant raises and so ends the sweep."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "throw=False" not in str(error):
            raise
        raise RuntimeError(
            "a variant failed in lie_jax.simulate inside of sweep(fn=), and throw=True, its "
            "default, ends the whole sweep: pass throw=False, and failed variants are marked."
        ) from error


def evaluate(
    plan: Plan, rows: list[np.ndarray], batches: np.ndarray, progress: bool
) -> Iterator[tuple[slice, PyTree, np.ndarray]]:
    """Slice of the variants, results, and whether each failed, batch by batch."""
    variants, size = len(rows[0]), plan.batch

    def start(index: int):
        # The last variant fills up the last batch, so that one program serves all batches.
        chosen = np.minimum(np.arange(index * size, (index + 1) * size), variants - 1)
        inputs = plan.structure.unflatten([x[chosen] for x in rows])
        with _explain_failure():
            return index, plan.program(jax.device_put(inputs, plan.sharding))

    def finish(index: int, output: tuple[PyTree, Array]):
        covered = slice(index * size, min((index + 1) * size, variants))
        count = covered.stop - covered.start
        with _explain_failure():
            results, failed = jax.tree.map(lambda x: np.asarray(x)[:count], output)
        update(count)
        return covered, results, failed

    counts = np.minimum((batches + 1) * size, variants) - batches * size
    shown = progress and jax.process_index() == 0
    with (
        interrupts.watch() as check_interrupts,
        progress_bar("sweep", "variant", int(counts.sum()), shown) as update,
    ):
        running = None
        for index in (*batches.tolist(), None):
            # While a batch is saved, the next one is computed.
            following = None if index is None else start(index)
            if running is not None:
                yield finish(*running)
                check_interrupts()
            running = following
