"""Files of trajectories and mechanisms."""

import contextlib
import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy.io import netcdf_file

import lie_jax
from lie_jax import io
from lie_jax.io import files
from lie_jax.spaces.base import Rn
from lie_jax.sweeps import unfinished
from models import bricard, double_pendulum, rotor, slider_crank
from tests.damage import damaged
from tests.suites import cases


def _same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert type(x) is type(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


class _Pendulum(lie_jax.extend.AbstractSystem):
    """A point mass on a rod of length one: its trajectories have multipliers."""

    space = Rn(2)
    nc = 1

    def mass_matrix(self, q):
        return jnp.eye(2, dtype=q.dtype)

    def force(self, t, q, v, u):
        return jnp.asarray([0.0, -9.81], q.dtype)

    def constraint(self, t, q):
        return 0.5 * (jnp.sum(q**2, keepdims=True) - 1.0)


@pytest.fixture(scope="module")
def run():
    system, state = _Pendulum(), lie_jax.State(jnp.asarray([0.6, -0.8]), jnp.asarray([0.8, 0.6]))
    return system, lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), state, dt=1e-3, steps=4)


def test_trajectory_comes_back_bit_by_bit_and_goes_on(run, tmp_path):
    system, trajectory = run
    path = tmp_path / "run.nc"
    io.save(path, trajectory)
    loaded = io.load(path)
    _same(loaded, trajectory)
    again = [
        lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), x.restart, dt=1e-3, steps=3)
        for x in (trajectory, loaded)
    ]
    _same(*again)
    assert list(tmp_path.iterdir()) == [path]


def test_xarray_reads_a_trajectory(run, tmp_path):
    path = tmp_path / "run.nc"
    io.save(path, run[1])
    with xarray.open_dataset(path) as data:
        np.testing.assert_array_equal(data["q"], run[1].q)
        assert data["q"].dims == ("instant", "q_1") and data["t"].dims == ("instant",)
        assert data["q"].to_pandas().shape == run[1].q.shape
        assert data["result"].attrs["flag_meanings"].split()[int(data["result"])] == "successful"


MODELS = {
    "mechanism": lambda: lie_jax.Mechanism(
        [lie_jax.Body("top", 15.0, np.diag([0.2, 0.4, 0.2]))],
        [lie_jax.SphericalJoint("ground", "top", child_point=(0, -1, 0))],
        [lie_jax.PointForce("top", (0.0, 0.3, 0.0))],
    ),
    "rotor": lambda: rotor.build()[0],
    "slider-crank": eqx.filter_jit(slider_crank.build),
    "bricard": eqx.filter_jit(lambda: bricard.build()[0]),
    "joint coordinates": lambda: double_pendulum.build(lie_jax.Minimal())[0],
}


@pytest.mark.parametrize("name", cases(MODELS, MODELS.keys() - {"bricard"}))
def test_mechanisms_and_systems_come_back(name, tmp_path):
    whole = MODELS[name]()
    io.save(tmp_path / "model.nc", whole)
    _same(io.load(tmp_path / "model.nc"), whole)


def test_what_stands_in_no_class_of_ours(tmp_path):
    things = {
        "numbers": [1, 2.5, None, True, "word", float("inf")],
        "pair": (np.float32(0.1), np.arange(3)),
        "flags": jnp.asarray([True, False]),
        "none": jnp.zeros((3, 0)),
        "nan": jnp.asarray([jnp.nan, -0.0], jnp.float32),
    }
    io.save(tmp_path / "things.nc", things)
    loaded = io.load(tmp_path / "things.nc")
    assert loaded["numbers"] == things["numbers"]
    np.testing.assert_array_equal(loaded["pair"][0], things["pair"][0])
    for key in ("flags", "none", "nan"):
        _same(loaded[key], things[key])


class _Own(lie_jax.extend.AbstractSystem):
    space = None

    def mass_matrix(self, q):
        return q

    def force(self, t, q, v, u):
        return q


@pytest.mark.parametrize(
    "thing, message",
    [
        ({"angle": np.sin}, r"io\.save: angle is <ufunc"),
        (_Own(), "a _Own from .*only classes of lie_jax"),
        (np.ones(2) * 1j, "complex128"),
        (np.asarray([2**40]), "beyond 32 bits"),
        ({"run": {"q": np.zeros(2)}, "run.q": np.ones(2)}, r"two arrays are named 'run\.q'"),
        ({"x": [np.zeros(2)], "x.0": np.ones(2)}, r"two arrays are named 'x\.0'"),
        ({"ω": np.ones(2)}, "'ω' cannot be named"),
    ],
)
def test_what_cannot_be_saved_is_named(thing, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        io.save(tmp_path / "thing.nc", thing)
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read_or_written(run, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"io\.save\(path=\).*cannot be written"):
        io.save(tmp_path / "no folder" / "run.nc", run[1])
    with pytest.raises(FileNotFoundError, match=r"nothing\.nc"):
        io.load(tmp_path / "nothing.nc")
    (tmp_path / "text.nc").write_text("not this")
    (tmp_path / "empty.nc").touch()
    for name in ("text.nc", "empty.nc"):
        with pytest.raises(ValueError, match=rf"{name}' .* no file of lie_jax\.io\.save"):
            io.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"cannot be read \(Is a directory\)"):
        io.load(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("lie_jax.io.files._FORMAT", 3)
        io.save(tmp_path / "newer.nc", run[1])
    with pytest.raises(ValueError, match=r"format 3.*newer version"):
        io.load(tmp_path / "newer.nc")
    xarray.Dataset({"q": [1.0]}).to_netcdf(tmp_path / "other.nc", engine="scipy")
    with pytest.raises(ValueError, match="did not write"):
        io.load(tmp_path / "other.nc")
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"configure\(\)"):
        io.save(tmp_path / "run.nc", run[1])
        io.load(tmp_path / "run.nc")


def _without_checksum(path, version):
    """Write a trajectory's file as the first format had it: restarts knew less then, too."""
    with netcdf_file(path, "r", mmap=False) as old:
        attributes, variables = dict(old._attributes), dict(old.variables)
    variables.pop("restart.origin")
    tree = json.loads(attributes["tree"])
    for field in ("inputs", "origin"):
        tree["fields"]["restart"]["fields"].pop(field)
    with netcdf_file(path, "w", version=2) as new:
        new.lie_jax_format, new.tree = version, json.dumps(tree)
        for variable in variables.values():
            for dimension, size in zip(variable.dimensions, variable.shape, strict=True):
                if dimension not in new.dimensions:
                    new.createDimension(dimension, size)
        for name, variable in variables.items():
            copy = new.createVariable(name, variable.data.dtype, variable.dimensions)
            copy[...] = variable.data


def test_files_of_the_first_format_are_read(run, tmp_path):
    path = tmp_path / "run.nc"
    io.save(path, run[1])
    _without_checksum(path, 1)
    restart = dataclasses.replace(run[1].restart, inputs=None, origin=None)
    _same(io.load(path), dataclasses.replace(run[1], restart=restart))
    io.save(path, run[1])
    _without_checksum(path, 2)
    with pytest.raises(ValueError, match=r"run\.nc.*its checksum is missing"):
        io.load(path)


_FORMER_MODULES = {
    "lie_jax.simulation.trajectory": "lie_jax.trajectory",
    "lie_jax.mechanics.joints.pairs": "lie_jax.mechanics.joints",
    "lie_jax.mechanics.forces.base": "lie_jax.mechanics.forces",
}


def test_files_that_name_classes_by_their_former_modules_are_read(run, tmp_path, monkeypatch):
    mechanism = MODELS["mechanism"]()
    with monkeypatch.context() as patch:
        reference = files._reference

        def former(of, words):
            module, _, name = reference(of, words).partition(":")
            return f"{_FORMER_MODULES.get(module, module)}:{name}"

        patch.setattr(files, "_reference", former)
        io.save(tmp_path / "run.nc", (run[1], mechanism))
    text = (tmp_path / "run.nc").read_bytes()
    for name in ("lie_jax.trajectory:Trajectory", "lie_jax.mechanics.joints:SphericalJoint"):
        assert name.encode() in text
    _same(io.load(tmp_path / "run.nc"), (run[1], mechanism))


def test_damage_is_noticed_and_the_file_named(run, tmp_path, damages=100):
    path = tmp_path / "run.nc"
    io.save(path, run[1])
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(damages):
        broken = damaged(whole, rng)
        path.write_bytes(broken)
        if broken == whole:
            continue
        with pytest.raises(ValueError, match=r"run\.nc"):
            io.load(path)


def test_a_save_removes_what_killed_ones_have_left_and_nothing_else(tmp_path):
    left, running = (tmp_path / f"{unfinished._PREFIX}{name}" for name in ("left", "running"))
    for folder in (left, running):
        folder.mkdir()
        (folder / "run.nc").write_text("half of it")
    with contextlib.closing(unfinished.Lock(running / "lock", create=True)):
        io.save(tmp_path / "run.nc", np.ones(3))
    assert sorted(tmp_path.iterdir()) == [running, tmp_path / "run.nc"]
