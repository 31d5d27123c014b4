"""Sweeps equal vmap, mark what fails, and name stores that are damaged or of another sweep."""

import contextlib
import dataclasses
import errno
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import lie_jax
from lie_jax import Result
from lie_jax.numerics import memory
from lie_jax.sweeps import batches as sweep_batches
from lie_jax.sweeps import storage, unfinished
from models import heavy_top
from tests.messages import check_message

# Batches of other sizes are vectorised otherwise: rounding of numbers up to 150.
ROUNDING = 1e-12


def _top(variant):
    system, state = heavy_top.build(mass=variant["mass"])
    return lie_jax.simulate(
        system, lie_jax.RKMK("euler"), state, dt=variant["dt"], steps=4, save=2, throw=False
    )


def _tops():
    """Of 13 variants number 4 fails."""
    dt = np.full(13, 1e-3)
    dt[4] = 1e300
    return {"mass": np.linspace(10.0, 20.0, 13), "dt": dt}


def _sweep(fn, parameters, **options):
    return lie_jax.sweep(fn, parameters, **{"progress": False} | options)


def test_equals_vmap_and_is_the_same_on_disk(tmp_path, capsys):
    tops = _tops()
    # 13 variants in batches of 5: the last one is filled up.
    swept = lie_jax.sweep(_top, tops, batch=5)
    assert "13/13" in capsys.readouterr().err
    expected = jax.jit(jax.vmap(_top))(jax.tree.map(jnp.asarray, tops))
    expected = dataclasses.replace(expected, restart=None)
    assert jax.tree.structure(swept.results) == jax.tree.structure(expected)
    for got, want in zip(jax.tree.leaves(swept.results), jax.tree.leaves(expected), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=ROUNDING, atol=ROUNDING)
    assert np.flatnonzero(swept.failed).tolist() == [4]
    assert bool((swept.results.result == expected.result).all())

    _sweep(_top, tops, batch=5, save_to=tmp_path / "deeper" / "tops.zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = xarray.open_zarr(tmp_path / "deeper" / "tops.zarr")
    trajectory = swept.results
    for name, values in (
        ("t", trajectory.t),
        ("q", trajectory.q),
        ("multipliers", trajectory.multipliers),
        ("stats.newton_iterations", trajectory.stats.newton_iterations),
        ("result", trajectory.result._value),
        ("parameters.mass", tops["mass"]),
        ("parameters.dt", tops["dt"]),
    ):
        np.testing.assert_array_equal(stored[name].values, values, err_msg=name)
        assert stored[name].dims[0] == "variant"
        assert stored[name].encoding["chunks"][0] == 5
    assert stored.q.dims == ("variant", "instant", "q_1") and stored.sizes["instant"] == 3
    assert set(stored.coords) == {"t", "parameters.mass", "parameters.dt", "status"}
    assert stored.status.values.tolist() == swept.failed.astype(int).tolist()
    assert stored.status.attrs["flag_meanings"] == "pending fine failed"
    code = stored.result.attrs["flag_meanings"].split().index("non_finite")
    assert int(stored.result[4]) == stored.result.attrs["flag_values"][code]
    assert "infinite or NaN" in stored.result.attrs["messages"][code]


def test_what_fails_is_marked():
    def fn(i):
        result = Result.where(i == 1, Result.redundant, Result.successful)
        nothing = jnp.full(2, jnp.nan)
        return {
            "result": Result.where(i == 2, Result.newton_failed, result),
            "number": jnp.where(i == 3, jnp.nan, 1.0),
            "several": jnp.where((i == 4) & (jnp.arange(2) == 1), jnp.inf, 1.0),
            # What a trajectory does not fill is NaN in it, which is no failure.
            "statistics": lie_jax.simulation.trajectory.Statistics(
                i, i, i, nothing[0], nothing[0], nothing, i, nothing[0]
            ),
            "flag": i > 2,
            "count": i,
            "constant": 3.0,
        }

    swept = _sweep(fn, jnp.arange(6), batch=4)
    assert swept.failed.tolist() == [False, False, True, True, True, False]
    np.testing.assert_array_equal(swept.results["count"], np.arange(6))
    np.testing.assert_array_equal(swept.results["constant"], np.full(6, 3.0))


@pytest.mark.full
def test_a_simulation_that_throws_is_explained():
    def throws(dt):
        system, state = heavy_top.build()
        return lie_jax.simulate(system, lie_jax.RKMK("euler"), state, dt=dt, steps=1).q

    with pytest.raises(RuntimeError, match="pass throw=False, and failed variants are marked"):
        _sweep(throws, np.asarray([1e-3, 1e300]))


def test_single_precision_and_single_arrays(tmp_path):
    values = jnp.linspace(0.0, 1.0, 7, dtype=jnp.float32)
    swept = _sweep(jnp.sqrt, values)
    assert swept.results.dtype == np.float32
    np.testing.assert_array_equal(swept.results, np.sqrt(np.asarray(values)))
    stored = _sweep(jnp.sqrt, values, save_to=tmp_path / "s")
    assert set(stored.variables) == {"value", "parameters", "status"}
    np.testing.assert_array_equal(stored["value"], swept.results)


def test_counts_that_are_zero_take_no_room(tmp_path):
    store = tmp_path / "s"
    _sweep(lambda x: jnp.zeros(10_000, int), np.arange(4.0), save_to=store)
    chunks = [path for path in (store / "value" / "c").rglob("*") if path.is_file()]
    assert chunks and sum(path.stat().st_size for path in chunks) < 1000


def test_batches_that_fit_are_chosen(monkeypatch):
    """Fewer variants where memory is short, a multiple of the devices, little padding."""
    assert sweep_batches.even_batch(4097, 1024, 1) == 820
    assert sweep_batches.even_batch(4097, 1024, 8) == 824
    assert sweep_batches.even_batch(3, 1024, 8) == 8
    sizes = []
    compiled = sweep_batches._compile
    monkeypatch.setattr(
        sweep_batches, "_compile", lambda *args: sizes.append(args[3]) or compiled(*args)
    )

    traces = []
    # A list that the function itself appends to would be a value that it reads.
    evaluate = sweep_batches.evaluate_one
    monkeypatch.setattr(
        sweep_batches, "evaluate_one", lambda fn, x: traces.append(x) or evaluate(fn, x)
    )

    def fn(x):
        return jnp.full(1000, x)

    variants = np.arange(100.0)
    full = _sweep(fn, variants)
    assert sizes == [100] and full.results.shape == (100, 1000)
    # To learn the shapes and to compile, and never again.
    assert len(traces) == 2
    _sweep(fn, variants[::-1])
    assert len(traces) == 2
    # Of 2 MB half may be used, twice by results of 8 kB: 62 variants in theory.
    monkeypatch.setattr(memory, "free_host_bytes", lambda: 2_000_000)
    np.testing.assert_array_equal(_sweep(fn, variants).results, full.results)
    assert 20 <= sizes[-1] <= 62, sizes


def test_who_comes_late_takes_the_store_that_is_there(tmp_path, monkeypatch):
    path, values, create = tmp_path / "s", np.arange(6.0), storage.create

    def late(*arguments):
        monkeypatch.setattr(storage, "create", create)
        _sweep(_square, values, batch=2, save_to=path)
        create(*arguments)

    monkeypatch.setattr(storage, "create", late)
    stored = _sweep(_square, values, save_to=path)
    assert stored["value"].encoding["chunks"] == (2,)
    np.testing.assert_array_equal(stored["value"], values**2)
    assert list(tmp_path.iterdir()) == [path]
    # What another process has half written stays while it runs.
    fragment = path / "value" / "2.0123.partial"
    fragment.touch()
    with contextlib.closing(unfinished.Lock(path / "zarr.json")):
        _sweep(_square, values, save_to=path)
        assert fragment.exists()
    _sweep(_square, values, save_to=path)
    assert not fragment.exists()


def test_full_disks_and_damaged_metadata_are_named(tmp_path, monkeypatch):
    path, values = tmp_path / "s", np.arange(6.0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage.Chunks, "write", full)
        with pytest.raises(OSError, match=r"/s', which .* space left on device.*call again"):
            _sweep(_square, values, batch=2, save_to=path)
    _sweep(_square, values, save_to=path)
    text = (path / "zarr.json").read_text()
    for there, instead, message in (
        ("pending fine failed", "pending fime failed", "zarr.json is damaged.*'status'.*fime"),
        ("float64", "floau64", "zarr.json is damaged"),
        ('"lie_jax_sweep"', '"lie_kax_sweep"', "not a saved sweep, or whose zarr.json is damaged"),
        ("{", "", "not a saved sweep, or whose zarr.json is damaged"),
    ):
        assert there in text
        (path / "zarr.json").write_text(text.replace(there, instead))
        with pytest.raises(ValueError, match=f"/s', .*{message}"):
            _sweep(_square, values, save_to=path)


def _square(x):
    return x**2


BAD = {
    "no array": (lambda: _sweep(_square, {}), "holds no array", "linspace"),
    "a single number": (
        lambda: _sweep(_square, {"a": np.ones(3), "b": 2.0}), "['b'] is 2.0", "close over"),
    "lengths": (
        lambda: _sweep(_square, {"a": np.ones(3), "b": np.ones((4, 3))}), "3 in", "['a']", "4 in",
        "leading axis"),
    "no variant": (lambda: _sweep(_square, np.ones((0, 3))), "0 in", "at least one"),
    "words": (lambda: _sweep(_square, np.asarray(["a", "b"])), "<U1", "numbers", "close over"),
    "random keys": (
        lambda: _sweep(lambda k: jax.random.normal(k), jax.random.split(jax.random.key(0), 3)),
        "key<fry>", "seeds"),
    "a transformation": (
        lambda: jax.jit(lambda x: _sweep(_square, x).results)(jnp.ones(3)), "traced", "jax.vmap"),
    "a result": (lambda: _sweep(lambda x: {"a": x, "b": "text"}, np.ones(3)), "a str", "pytree"),
    "no result": (lambda: _sweep(lambda x: None, np.ones(3)), "returns nothing", "Trajectory"),
    "batch": (lambda: _sweep(_square, np.ones(3), batch=0), "batch", "0", "at least 1"),
    "a batch that does not fit": (
        lambda: _sweep(_square, np.ones(3), batch=10**11), "100000000000 variants", "GB are free",
        "take batch="),
    "results that do not fit": (
        lambda: _sweep(lambda x: jnp.broadcast_to(x, (10**9, 10**4)), np.ones(3)), "2.4e+05 GB",
        "save_to="),
    "variants that fit no batch": (
        lambda: _sweep(lambda x: jnp.broadcast_to(x, (10**9, 10**4)), np.ones(3), save_to="never"),
        "a batch of 1 variants", "let fn return less"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_message(*BAD[case])
    assert not list(tmp_path.iterdir())


def test_other_settings_are_refused(tmp_path):
    path, values = tmp_path / "s", np.arange(6.0)
    _sweep(_square, values, batch=2, save_to=path)
    before = sorted(path.rglob("*"))

    def never(x):
        return jax.pure_callback(pytest.fail, jax.ShapeDtypeStruct((), x.dtype), x)

    for parts, parameters, fn, options in (
        (("other parameters", "take another name"), values + 1, never, {}),
        (("other parameters", "parameters.a", "absent"), {"a": values}, lambda x: x["a"], {}),
        (("other variants", "6 there, 5 now"), values[:5], never, {}),
        (("other batch", "2 there, 3 now"), values, never, {"batch": 3}),
        (("other results", "<f8", "<f4"), values, lambda x: x.astype(jnp.float32), {}),
        (("other results", "[3]"), values, lambda x: jnp.full(3, x), {}),
        (("other results", "value", "absent"), values, lambda x: {"a": x}, {}),
    ):
        act = lambda: _sweep(fn, parameters, save_to=path, **options)  # noqa: B023, E731
        check_message(act, str(path), *parts)
    assert sorted(path.rglob("*")) == before
    # Neither a folder of something else nor a file is touched.
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "text").write_text("mine")
    for other in ("notes", "notes/text"):
        check_message(
            lambda: _sweep(_square, values, save_to=tmp_path / other),  # noqa: B023
            other, "not a saved sweep", "another name",
        )  # fmt: skip
    assert (tmp_path / "notes" / "text").read_text() == "mine"
    check_message(
        lambda: _sweep(lambda x: {"status": x}, values, save_to=tmp_path / "a"),
        "'status'",
        "rename",
    )
    check_message(
        lambda: _sweep(lambda x: {"m/s": x}, values, save_to=tmp_path / "a"), "'m/s'", "rename"
    )
    check_message(
        lambda: _sweep(lambda x: x.astype(jnp.bfloat16), values, save_to=tmp_path / "a"),
        "bfloat16", "float32",
    )  # fmt: skip


def test_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"\.\[sweep\]"):
        _sweep(_square, np.ones(3), save_to=tmp_path / "s")
