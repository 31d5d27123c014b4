"""Sweeps survive being killed at any point, and share their work between processes and devices."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import lie_jax
from lie_jax.sweeps import storage, unfinished
from tests.damage import damaged
from tests.sweeps import sweep_child

CHILD = Path(sweep_child.__file__)


def _sweep(fn, parameters, **options):
    return lie_jax.sweep(fn, parameters, **{"progress": False} | options)


class _Killed(BaseException):
    pass


def test_killed_anywhere_it_resumes_and_repeats_nothing(tmp_path, monkeypatch):
    """Stopped before each single write; what was saved is not computed again unless damaged."""
    computed = []

    def note(x):
        computed.extend(np.asarray(x).tolist())
        return np.asarray(x)

    def fn(x):
        seen = jax.pure_callback(
            note, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="expand_dims"
        )
        return {"square": seen**2, "both": jnp.stack([seen, -seen])}

    variants = np.arange(8.0)
    whole = _sweep(fn, variants, batch=2, save_to=tmp_path / "whole")
    assert sorted(computed) == variants.tolist()
    write = storage.Chunks.write
    for stop in range(16):
        path = tmp_path / f"stopped-{stop}"
        # What a kill while the store was made leaves.
        left = tmp_path / f"{unfinished._PREFIX}left"
        (left / path.name / "status").mkdir(parents=True)
        writes = iter(range(1000))

        def stopped(chunks, batch, values, writes=writes, stop=stop):
            if next(writes) == stop:
                raise _Killed
            write(chunks, batch, values)

        monkeypatch.setattr(storage.Chunks, "write", stopped)
        with pytest.raises(_Killed):
            _sweep(fn, variants, batch=2, save_to=path)
        monkeypatch.setattr(storage.Chunks, "write", write)
        assert not left.exists()
        # Of each batch the parameters, two results and the status are written.
        complete = stop // 4
        assert storage.is_done(path, 4).sum() == complete
        assert (xarray.open_zarr(path).status.values >= 0).sum() == 2 * complete
        (path / "square" / "3.0123.partial").touch()
        computed.clear()
        resumed = _sweep(fn, variants, save_to=path)
        assert sorted(computed) == variants[2 * complete :].tolist()
        assert resumed.identical(whole)
        assert not list(path.glob("**/*.partial"))
        computed.clear()
        assert _sweep(fn, variants, save_to=path).identical(whole)
        assert not computed

    rng = np.random.default_rng(0)
    chunks = sorted(file for file in path.glob("*/c/**/*") if file.is_file())
    assert len(chunks) == 16
    for index in rng.permutation(16):
        file = chunks[index]
        content, batch = file.read_bytes(), int(file.relative_to(path).parts[2])
        broken = damaged(content, rng) if index % 4 else None
        file.unlink()
        if broken is not None:
            file.write_bytes(broken)
        computed.clear()
        assert _sweep(fn, variants, save_to=path).identical(whole)
        assert sorted(computed) == [2 * batch, 2 * batch + 1][: 2 * (broken != content)]
        assert file.read_bytes() == content


def _child(*arguments, **environment) -> subprocess.Popen:
    fresh = {"JAX_ENABLE_X64": "1", "PYTHONPATH": str(CHILD.parents[2])} | environment
    return subprocess.Popen(
        [sys.executable, str(CHILD), *map(str, arguments)],
        env=os.environ | fresh,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finished(process: subprocess.Popen) -> str:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


@pytest.mark.full
def test_eight_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    assert "spread over 8, 6, 4, 8 devices" in _finished(_child("devices", XLA_FLAGS=flags))


def _log(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.full
def test_two_processes(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    logs = [tmp_path / "0.txt", tmp_path / "1.txt"]
    processes = [_child("processes", tmp_path / "s.zarr", logs[i], port, i) for i in range(2)]
    for process in processes:
        _finished(process)
    first, second = map(_log, logs)
    # Batches of 4: every process has every other one, and nothing is computed twice.
    assert sorted(first) == [i for i in range(40) if i // 4 % 2 == 0]
    assert sorted(second) == [i for i in range(40) if i // 4 % 2 == 1]
    stored = xarray.open_zarr(tmp_path / "s.zarr")
    assert stored.status.values.tolist() == [0] * 40
    np.testing.assert_array_equal(stored["value"].values[:, 0], np.arange(40.0) ** 2)


def _killed_and_resumed(tmp_path: Path, kills: int, seed: int) -> None:
    """SIGKILL at random times; in the end everything is there, and was saved once."""
    rng = np.random.default_rng(seed)
    path, batches = tmp_path / "s.zarr", 20
    hit = 0
    for attempt in range(100):
        saved = np.flatnonzero(storage.is_done(path, batches)) if path.exists() else []
        log = tmp_path / f"{attempt}.txt"
        process = _child("slowly", path, log)
        if hit < kills:
            # Starting takes seconds, the sweep some 1 s: the clock starts with its first batch.
            while not log.exists() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 1.2 / kills))
            process.send_signal(signal.SIGKILL)
            out, _ = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), out
            hit += process.returncode == -signal.SIGKILL
        else:
            _finished(process)
        again = {variant // 50 for variant in _log(log)} & {int(batch) for batch in saved}
        assert not again, f"batches {again} were saved and computed again"
        if process.returncode == 0:
            break
    assert hit == kills
    stored = xarray.open_zarr(path)
    assert stored.status.values.tolist() == [0] * 1000
    # Bit by bit the same as a sweep that nobody killed.
    sweep_child.slowly(tmp_path / "once.zarr", tmp_path / "once.txt")
    assert stored.identical(xarray.open_zarr(tmp_path / "once.zarr"))
    assert not list(path.glob("**/*.partial"))


@pytest.mark.full
def test_killed_sweep(tmp_path):
    _killed_and_resumed(tmp_path, kills=1, seed=0)


@pytest.mark.full
def test_simultaneous_starts(tmp_path):
    """Three processes without `jax.distributed` make and fill one store."""
    path = tmp_path / "s.zarr"
    for process in [_child("slowly", path, tmp_path / f"{i}.txt") for i in range(3)]:
        _finished(process)
    sweep_child.slowly(tmp_path / "once.zarr", tmp_path / "once.txt")
    assert xarray.open_zarr(path).identical(xarray.open_zarr(tmp_path / "once.zarr"))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
def test_sweep_killed_often(tmp_path, seed):
    _killed_and_resumed(tmp_path, kills=8, seed=seed)
