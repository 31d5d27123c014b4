"""Sweeps in a process of their own: `python sweep_child.py KIND ...`."""

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from lie_jax.sweeps import batches


def logged(path, seconds):
    """A function of a number whose evaluations are noted in a file, a line each."""

    def note(x):
        time.sleep(seconds)
        with open(path, "a") as log:
            log.write("".join(f"{int(one)}\n" for one in np.ravel(x)))
        return np.asarray(x)

    def fn(x):
        seen = jax.pure_callback(
            note, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="expand_dims"
        )
        # Large enough for a kill to meet a chunk that is being written.
        return jnp.sin(jnp.arange(2000.0)) * seen + seen**2

    return fn


def devices():
    used = []

    class Spy:
        def __init__(self, program):
            self.program = program

        def __call__(self, inputs):
            results, failed = self.program(inputs)
            used.append(len(failed.sharding.device_set))
            return results, failed

    compiled = batches._compile

    def spied(*arguments):
        program, need = compiled(*arguments)
        return Spy(program), need

    batches._compile = spied

    def fn(x):
        # A loop that every variant leaves at its own time.
        return jax.lax.while_loop(lambda y: y < 100.0, lambda y: 2.0 * y, x)

    variants = np.linspace(1.0, 50.0, 21)
    expected = jax.vmap(fn)(jnp.asarray(variants))
    meshes = (
        None,
        None,
        jax.sharding.Mesh(np.reshape(jax.local_devices()[:4], (2, 2)), ("a", "b")),
        jax.make_mesh((8,), ("x",)),
    )
    for batch, mesh in zip((None, 6, 12, 16), meshes, strict=True):
        swept = lie_jax.sweep(fn, variants, batch=batch, mesh=mesh, progress=False)
        np.testing.assert_array_equal(swept.results, expected)
    assert len(used) == 1 + 4 + 2 + 2
    for batch, mesh, *parts in (
        (12, meshes[3], "12", "8 devices", "take 16"),
        (None, 8, "sweep(mesh=) is 8", "jax.sharding.Mesh("),
    ):
        try:
            lie_jax.sweep(fn, variants, batch=batch, mesh=mesh)
        except ValueError as error:
            assert all(part in str(error) for part in parts), error
        else:
            raise AssertionError(f"the mesh {mesh} was taken")
    print(f"spread over {used[0]}, {used[1]}, {used[5]}, {used[7]} devices")


def processes(path, log, port, index):
    jax.distributed.initialize(f"localhost:{port}", 2, int(index))
    fn = logged(log, 0.0)
    try:
        lie_jax.sweep(fn, np.arange(40.0))
    except ValueError as error:
        assert "save_to" in str(error) and "2 processes" in str(error)
    # Only the first process knows the size of a batch, as if it were chosen by its memory.
    batches._CPU_VARIANTS = 4 if index == "0" else 5
    stored = lie_jax.sweep(fn, np.arange(40.0), save_to=path, progress=False)
    assert stored.status.values.tolist() == [0] * 40


def slowly(path, log):
    lie_jax.sweep(logged(log, 0.02), np.arange(1000.0), batch=50, save_to=path, progress=False)


if __name__ == "__main__":
    assert os.environ["JAX_ENABLE_X64"] == "1"
    {"devices": devices, "processes": processes, "slowly": slowly}[sys.argv[1]](*sys.argv[2:])
