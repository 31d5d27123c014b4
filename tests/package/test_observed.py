"""Functions see changes of what no reader of their code finds, or are refused by name."""

import decimal
import functools
import os
import threading
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.user_functions import snapshots

Partial = jax.tree_util.Partial
VALUES = (1.0, 2.0, 5.0, 1.0)
gain = 1.0
TABLE = np.ones(1)


class _Meta(type):
    gain = 1.0


class _Of(metaclass=_Meta):
    __power__ = 1.0


class _Object:
    def __init__(self):
        self.gain = 1.0

    def at(self, t):
        return _along_x(self.gain, t)

    __call__ = at


class _Scaled(eqx.Module):
    scale: jax.Array
    held: Any = eqx.field(static=True, default=None)

    def __call__(self, t, factor=1.0):
        return factor * self.scale * _along_x(_outside(), t)

    def outside(self, t):
        return self(t)


class _Holding(_Scaled):
    def __call__(self, t):
        return self.scale * _along_x(self.held.gain, t)


class _Outer(eqx.Module):
    inner: _Scaled
    times: float = eqx.field(static=True, default=0.5)

    def __call__(self, t):
        return self.inner.scale * self.inner(t, factor=2.0) * self.times


class _Opaque:
    __slots__ = ("gain",)

    def __init__(self):
        self.gain = 1.0


OBJECT, OPAQUE, LOCAL, HOLDER = _Object(), _Opaque(), threading.local(), _Object()


def _outside():
    return float(os.environ["LIE_JAX_TEST_GAIN"])


def _along_x(size, t):
    return jnp.stack([size + 0.0 * t, 0.0 * t, 0.0 * t])


def _set_global(value):
    globals()["gain"] = value


def _set_environment(value):
    os.environ["LIE_JAX_TEST_GAIN"] = repr(value)


def _set_precision(value):
    decimal.getcontext().prec = int(value)


def _read_table(t, path):
    return _along_x(np.load(path)[0], t)


WAYS = {
    "environment": (lambda t: _along_x(_outside(), t), _set_environment),
    "decimal context": (
        lambda t: _along_x(float(decimal.getcontext().prec), t),
        _set_precision,
    ),
    "thread's own values": (
        lambda t: _along_x(LOCAL.gain, t),
        lambda value: setattr(LOCAL, "gain", value),
    ),
    "metaclass": (
        lambda t: _along_x(_Of.gain, t),
        lambda value: setattr(_Meta, "gain", value),
    ),
    "underscores": (
        lambda t: _along_x(_Of.__power__, t),
        lambda value: setattr(_Of, "__power__", value),
    ),
    "attribute of a library": (
        lambda t: _along_x(np.lie_jax_gain, t),  # pyright: ignore
        lambda value: setattr(np, "lie_jax_gain", value),
    ),
    "method in a Partial": (Partial(OBJECT.at), lambda value: setattr(OBJECT, "gain", value)),
    "object in a Partial": (Partial(OBJECT), lambda value: setattr(OBJECT, "gain", value)),
    "slots in a Partial": (
        Partial(lambda t: _along_x(OPAQUE.gain, t)),
        lambda value: setattr(OPAQUE, "gain", value),
    ),
    "global in a Partial": (Partial(lambda t: _along_x(gain, t)), _set_global),
    "table in a Partial": (
        Partial(functools.partial(lambda table, t: _along_x(table[0], t), TABLE)),
        lambda value: TABLE.__setitem__(0, value),
    ),
    "batched function in a Partial": (
        Partial(lambda ones, t: jax.vmap(lambda x: gain * x)(ones) + 0.0 * t, jnp.ones(3)),
        _set_global,
    ),
    "environment in a module": (_Scaled(jnp.asarray(1.0)), _set_environment),
    "environment in a module of a module": (_Outer(_Scaled(jnp.asarray(1.0))), _set_environment),
    "environment in a module's method": (_Scaled(jnp.asarray(1.0)).outside, _set_environment),
}


@jax.jit
def _first(force, t):
    return force.force(t)[0]


def _now(force):
    return float(_first(snapshots.freeze(force), 0.5))


@pytest.mark.filterwarnings("ignore:.*was compiled for")
@pytest.mark.parametrize("way", WAYS)
def test_changes_outside_of_code_are_seen(way, monkeypatch):
    function, change = WAYS[way]
    monkeypatch.setenv("LIE_JAX_TEST_GAIN", "1.0")
    monkeypatch.setattr(np, "lie_jax_gain", 1.0, raising=False)
    with decimal.localcontext():
        change(VALUES[0])
        force, found = lie_jax.PointForce("b", function), []
        for value in VALUES:
            change(value)
            found.append(_now(force))
    assert found == list(VALUES)


@pytest.mark.full
def test_simulations_and_events_read_files_anew(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, np.asarray([1.0, 0.15]))
    body = lie_jax.Body("b", 1.0, np.eye(3))
    force = lie_jax.PointForce("b", lambda t: _read_table(t, path))
    event = lie_jax.Event(Partial(lambda t, q, v: v[0] - np.load(path)[1]), "stop")
    mechanism = lie_jax.Mechanism([body], forces=[force], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    for acceleration, speed in ((1.0, 0.15), (4.0, 0.1)):
        np.save(path, np.asarray([acceleration, speed]))
        run = lie_jax.simulate(system, lie_jax.RKMK("heun"), state, dt=0.1, steps=2, events=[event])
        assert float(run.events.t[0]) == pytest.approx(speed / acceleration)


def test_sweeps_read_files_anew(tmp_path):
    path = tmp_path / "table.npy"
    for value in (0.1, 0.2):
        np.save(path, np.asarray([value]))
        done = lie_jax.sweep(lambda m: m * np.load(path)[0], np.ones(2), progress=False)
        np.testing.assert_array_equal(done.results, [value, value])


def _swept(function):
    return lambda variants: lie_jax.sweep(function, variants, progress=False).results


@pytest.mark.full
@pytest.mark.parametrize("many", [lie_jax.batched, _swept])
def test_runs_read_files_anew_alone_and_in_batches(many, tmp_path):
    """A call that finds another one's program compiles nothing, and is compared with later ones."""
    path = tmp_path / "table.npy"

    def speed(mass):
        body = lie_jax.Body("b", mass, lie_jax.solids.sphere(mass, 0.1))
        force = lie_jax.PointForce("b", lambda t: _read_table(t, path))
        slider = lie_jax.PrismaticJoint("ground", "b", axis=(1.0, 0.0, 0.0))
        mechanism = lie_jax.Mechanism([body], [slider], [force])
        system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
        run = lie_jax.simulate(system, lie_jax.RKMK("euler"), state, dt=0.1, steps=2, throw=False)
        return run.v[-1, 0]

    masses = jnp.linspace(1.0, 2.0, 8)
    for value in (1.0, 2.0):
        np.save(path, np.asarray([value]))
        np.testing.assert_allclose(many(speed)(masses), 0.2 * value / masses, rtol=1e-12)
        assert float(speed(masses[0])) == pytest.approx(0.2 * value, rel=1e-12)


def test_a_value_that_changes_while_it_is_compiled_spoils_nothing(monkeypatch):
    force = lie_jax.PointForce("b", lambda t: _along_x(gain, t))
    _set_global(3.0)
    started = snapshots.freeze(force)
    # As another thread would, after the call has begun.
    _set_global(4.0)
    assert float(_first(started, 0.5)) in (3.0, 4.0)
    for value in (3.0, 4.0, 3.0):
        _set_global(value)
        assert _now(force) == value


def test_objects_in_static_fields_must_stay():
    force = lie_jax.PointForce("b", _Holding(jnp.asarray(2.0), HOLDER))
    HOLDER.gain = 1.0
    assert _now(force) == 2.0
    HOLDER.gain = 3.0
    with pytest.raises(ValueError, match=r"_Object reads values that have changed.*must stay"):
        snapshots.freeze(force)
    HOLDER.gain = 1.0
    drawing = _Scaled(jnp.asarray(2.0), np.random.default_rng(0))
    with pytest.raises(ValueError, match="cannot detect changes"):
        snapshots.freeze(drawing)


def test_compiled_functions_in_a_partial_must_stay():
    _set_global(1.0)
    force = lie_jax.PointForce("b", Partial(jax.jit(lambda t: _along_x(gain, t))))
    assert _now(force) == 1.0
    _set_global(2.0)
    with pytest.raises(ValueError, match="reads values that have changed"):
        snapshots.freeze(force)


def test_rules_of_derivatives_must_stay():
    @jax.custom_jvp
    def by_tangent(x):
        return x

    @jax.custom_vjp
    def by_cotangent(x):
        return x

    by_tangent.defjvp(lambda primals, tangents: (primals[0], gain * tangents[0]))
    by_cotangent.defvjp(lambda x: (x, None), lambda _, cotangent: (gain * cotangent,))
    for function in (by_tangent, by_cotangent):
        _set_global(1.0)
        force = lie_jax.PointForce("b", Partial(lambda k, t, f=function: _along_x(f(k), t), 1.0))
        _now(force)
        _set_global(2.0)
        with pytest.raises(ValueError, match=r"by_.* reads values that have changed"):
            snapshots.freeze(force)


def test_rules_that_hold_their_function_are_read():
    """As those of `jax.nn.relu`, which `defjvps` makes."""

    @jax.custom_jvp
    def scaled(x):
        return gain * x

    scaled.defjvps(lambda tangent, result, x: gain * tangent)
    for function in (scaled, jax.nn.relu):
        _set_global(1.0)
        force = lie_jax.PointForce("b", Partial(lambda k, t, f=function: _along_x(f(k), t), 1.0))
        assert _now(force) == 1.0
        assert snapshots.snapshot(function) == snapshots.snapshot(function)
    force = lie_jax.PointForce("b", Partial(lambda k, t: _along_x(scaled(k), t), 1.0))
    _now(force)
    _set_global(2.0)
    with pytest.raises(ValueError, match=r"scaled.* reads values that have changed"):
        snapshots.freeze(force)


def test_functions_that_numpy_hides_are_refused():
    hidden = np.frompyfunc(lambda x: gain * x, 1, 1)
    with pytest.raises(ValueError, match="'hidden' of type ufunc"):
        lie_jax.PointForce("b", lambda t: _along_x(float(hidden(1.0)), t))


def test_parameters_of_modules_compile_nothing_anew():
    traces = []

    class Law(eqx.Module):
        scale: jax.Array

        def __call__(self, t):
            return self.scale * _along_x(1.0, t)

    @jax.jit
    def first(force, t):
        traces.append(1)
        return force.force(t)[0]

    for scale in (1.0, 2.0, 3.0):
        for function in (Law(jnp.asarray(scale)), Partial(lambda k, t: k * t, scale * jnp.ones(3))):
            force = lie_jax.PointForce("b", function)
            expected = scale if isinstance(function, Law) else 0.5 * scale
            assert float(first(snapshots.freeze(force), 0.5)) == expected
    assert len(traces) == 2


def test_derivatives_go_through_observed_functions():
    """Second derivatives by time and a parameter: of k³ sin t they are 6 k cos t."""
    force = lie_jax.PointForce("b", Partial(lambda k, t: _along_x(k**3 * jnp.sin(t), t), 1.0))

    def value(k, t):
        return snapshots.freeze(eqx.tree_at(lambda f: f.force.args, force, (k,))).force(t)[0]

    slope = jax.jit(jax.jacrev(jax.grad(jax.jacfwd(value), argnums=0), argnums=1))
    at = jnp.asarray(2.0), jnp.asarray(0.3)
    np.testing.assert_allclose(slope(*at), 12.0 * np.cos(0.3), rtol=1e-12)
    batch = jax.jit(jax.vmap(value))(jnp.asarray([1.0, 2.0]), jnp.asarray([0.1, 0.2]))
    np.testing.assert_allclose(batch, [np.sin(0.1), 8.0 * np.sin(0.2)], rtol=1e-12)
