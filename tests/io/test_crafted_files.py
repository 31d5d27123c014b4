"""Files and values that nobody writes by accident come back, or are refused by name."""

import functools
import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import netcdf_file

import lie_jax
from lie_jax import io
from lie_jax.io import files


def _crafted(path, change):
    """Replace the tree of a file, with the checksum that it needs."""
    with netcdf_file(path, "r", mmap=False) as old:
        variables = {name: variable for name, variable in old.variables.items()}
        tree = change(old.tree.decode())
    with netcdf_file(path, "w", version=2) as new:
        setattr(new, files._CHECKSUM, "0" * files._DIGITS)
        new.lie_jax_format, new.tree = files._FORMAT, tree
        for name, variable in variables.items():
            for dimension, size in zip(variable.dimensions, variable.shape, strict=True):
                new.createDimension(dimension, size)
            new.createVariable(name, variable.data.dtype, variable.dimensions)[...] = variable.data
    content = path.read_bytes()
    start = content.find(files._MARK) + len(files._MARK)
    rest = content[:start] + content[start + files._DIGITS :]
    digest = hashlib.sha256(rest).hexdigest().encode()
    path.write_bytes(content[:start] + digest + content[start + files._DIGITS :])


@pytest.mark.parametrize("key", ["a\0", "\0", "a\0b", "\0a", "a\0\0"])
def test_zero_bytes_in_keys_come_back(key, tmp_path):
    value = np.arange(2.0)
    io.save(tmp_path / "file.nc", {key: value, "list": [{key: value}]})
    loaded = io.load(tmp_path / "file.nc")
    assert list(loaded) == [key, "list"]
    np.testing.assert_array_equal(loaded[key], value)
    np.testing.assert_array_equal(loaded["list"][0][key], value)


def test_masks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"io\.save: x has a mask"):
        io.save(tmp_path / "file.nc", {"x": np.ma.masked_equal([1.0, 2.0], 2.0)})


def _nested(depth):
    return functools.reduce(lambda inner, _: [inner], range(depth), 1.0)


def test_deep_values_come_back_or_are_refused(tmp_path):
    path = tmp_path / "file.nc"
    io.save(path, _nested(100))
    assert io.load(path) == _nested(100)
    with pytest.raises(ValueError, match=r"nested too deeply.*flatter"):
        io.save(tmp_path / "deep.nc", _nested(10_000))
    assert not (tmp_path / "deep.nc").exists()


_ARRAY = json.dumps({"array": "value", "dtype": "float64", "shape": [3], "jax": False})
TREES = {
    "deep lists": '{"list": [' * 10_000 + "1" + "]}" * 10_000,
    "large dtype": _ARRAY.replace("float64", "S1000000000"),
    "two keys": '{"list": [], "tuple": []}',
    "negative shape": _ARRAY.replace("[3]", "[-1, -3]"),
    "other shape": _ARRAY.replace("[3]", "[4]"),
    "digits": "1" * 10_000,
    "no tree": "{",
    "no parts": '{"class": "lie_jax.systems.system:State"}',
    "class that is none": '{"type": "lie_jax.io.files:load"}',
    "module of others": '{"type": "os:PathLike"}',
}


@pytest.mark.parametrize("name", TREES)
def test_crafted_trees_are_refused_with_the_file(name, tmp_path):
    path = tmp_path / "crafted.nc"
    io.save(path, np.arange(3.0))
    _crafted(path, lambda _: TREES[name])
    with pytest.raises(ValueError, match=r"crafted\.nc"):
        io.load(path)


def _mechanism(mass=2.0):
    body = lie_jax.Body("b", mass, np.eye(3))
    spring = lie_jax.LinearSpringDamper("ground", "b", 50.0, 4.0, 0.4)
    return lie_jax.Mechanism([body], forces=[spring])


def _with_mass(mechanism, mass):
    body = mechanism.bodies[0]
    object.__setattr__(body, "mass", jnp.asarray(mass))
    return mechanism


@pytest.mark.parametrize("mass", [-1.0, 0.0, np.nan, np.inf])
def test_mechanisms_are_checked_like_new_ones(mass, tmp_path, monkeypatch):
    path = tmp_path / "crafted.nc"
    broken = _with_mass(_mechanism(), mass)
    with pytest.raises(ValueError, match=r"io\.save: the value holds .*Body\('b'\)\.mass is"):
        io.save(path, broken)
    with monkeypatch.context() as patch:
        patch.setattr(files.sound, "check", lambda where, mechanism: None)
        io.save(path, [broken])
    with pytest.raises(ValueError, match=r"crafted\.nc' holds .*Body\('b'\)\.mass is"):
        io.load(path)


def test_elements_are_checked_like_new_ones(tmp_path, monkeypatch):
    path, broken = tmp_path / "crafted.nc", _mechanism()
    object.__setattr__(broken.forces[0], "stiffness", jnp.asarray(jnp.nan))
    with monkeypatch.context() as patch:
        patch.setattr(files.sound, "check", lambda where, mechanism: None)
        io.save(path, broken)
    with pytest.raises(ValueError, match=r"crafted\.nc' holds .*stiffness is nan"):
        io.load(path)


def test_batches_of_mechanisms_come_back(tmp_path):
    path = tmp_path / "batch.nc"
    batch = jax.vmap(_mechanism)(jnp.asarray([1.0, 2.0]))
    io.save(path, batch)
    np.testing.assert_array_equal(io.load(path).bodies[0].mass, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"mass is -2\.0"):
        io.save(path, _with_mass(batch, [1.0, -2.0]))


def _links(*pairs):
    inertial = (
        '<inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    names = sorted({name for pair in pairs for name in pair})
    links = "".join(f'<link name="{name}">{inertial}</link>' for name in names)
    joints = "".join(
        f'<joint name="{a}{b}" type="fixed"><parent link="{a}"/><child link="{b}"/></joint>'
        for a, b in pairs
    )
    return f'<robot name="r">{links}{joints}</robot>'


DEEP = 3000
SOURCES = {
    "cycle of two": (_links("ab", "ba"), r"fixed joints in a cycle, through the links a, b"),
    "link fixed to itself": (_links("aa"), r"fixed joints in a cycle, through the links a;"),
    "cycle further up": (_links("ab", "bc", "cb", "cd"), r"in a cycle, through the links .*b"),
    "no XML": ("<robot", r"cannot be read as XML"),
    "nothing": ("", r"cannot be read as XML"),
    "deep bodies": (
        '<mujoco><worldbody><body name="b"><joint/>'
        + "<body>" * DEEP
        + "</body>" * DEEP
        + "</body></worldbody></mujoco>",
        r"nested too deeply",
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_crafted_models_are_refused_with_the_file(name, tmp_path):
    text, message = SOURCES[name]
    source = tmp_path / "crafted.xml"
    source.write_text(text)
    with pytest.raises(ValueError, match=rf"crafted\.xml'.*{message}"):
        io.write_inertias(source, _mechanism(), tmp_path / "new.xml")
    assert list(tmp_path.iterdir()) == [source]
