"""Files are replaced when the new ones are whole: links, permissions and old contents stay."""

import contextlib
import os
import resource
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import viz
from lie_jax.sweeps import unfinished

URDF = """<robot name="arm"><link name="arm"><inertial><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
# Bytes that a file may have on a full disk: less than each file of this test.
FULL = 200


_beside = unfinished.beside


@contextlib.contextmanager
def _beside_on_a_full_disk(path):
    # Only here, or JAX would fill its cache with files that are cut.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, limits[1]))
    try:
        with _beside(path) as new:
            yield new
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.fixture(scope="module")
def run():
    body = lie_jax.Body("b", 1.0, np.eye(3), velocity=(1.0, 0.0, 0.0))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.R3SO3())
    return system, lie_jax.simulate(system, lie_jax.RKMK("euler"), state, dt=0.1, steps=2)


@pytest.fixture
def writers(run, tmp_path):
    """Functions that write a file, by its name."""
    source = tmp_path / "source.urdf"
    source.write_text(URDF)
    mechanism = lie_jax.Mechanism([lie_jax.Body("arm", 3.0, np.eye(3))])
    return {
        "page.html": lambda path: viz.export(path, run),
        "video.gif": lambda path: viz.video(path, run),
        "numbers.nc": lambda path: lie_jax.io.save(path, np.zeros(1000)),
        "arm.urdf": lambda path: lie_jax.io.write_inertias(source, mechanism, path),
    }


def test_a_full_disk_keeps_the_old_file(writers, tmp_path, monkeypatch):
    monkeypatch.setattr(unfinished, "beside", _beside_on_a_full_disk)
    for name, write in writers.items():
        path = tmp_path / name
        path.write_text("old")
        before = sorted(tmp_path.iterdir())
        with pytest.raises(ValueError, match=rf"{name}.*cannot be written"):
            write(path)
        assert path.read_text() == "old"
        assert sorted(tmp_path.iterdir()) == before


def test_links_and_permissions_stay(writers, tmp_path):
    for name, write in writers.items():
        target, link = tmp_path / f"private {name}", tmp_path / name
        target.write_text("old")
        target.chmod(0o600)
        link.symlink_to(target.name)
        write(link)
        assert os.readlink(link) == target.name
        assert target.stat().st_mode & 0o777 == 0o600
        assert target.stat().st_size > FULL


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    lie_jax.io.save(tmp_path / "new.nc", jnp.zeros(2))
    assert (tmp_path / "new.nc").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_pipes_and_folders_are_refused(writers, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(OSError, match="no regular file"),
            unfinished.replacing(path),
        ):
            raise AssertionError("nothing is written")
    with pytest.raises(ValueError, match=r"pipe'.*cannot be written \(it is no regular file\)"):
        writers["numbers.nc"](tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe' cannot be read \(it is a pipe\)"):
        lie_jax.io.load(tmp_path / "pipe")


def test_inertias_may_replace_their_own_source(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    mechanism = lie_jax.Mechanism([lie_jax.Body("arm", 3.0, np.eye(3))])
    lie_jax.io.write_inertias(path, mechanism, path)
    assert 'mass value="3.0"' in path.read_text()
