"""Changed values that functions of users read cause a new compilation or an error."""

import collections
import dataclasses
import functools
import logging
import operator
import random
import threading
import time
import types
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import control
from lie_jax.user_functions import snapshots
from tests import mechanisms
from tests.cart import DT, MIDPOINT, START, ZERO, Cart, settle

STEPS, STEP = 2, 0.05
amplitude = 1.0
TABLE = np.array([1.0, 0.0, 0.0])
SETTINGS = types.ModuleType("settings")
SETTINGS.amplitude = 1.0


def push(t):
    return jnp.stack([amplitude + 0.0 * t, 0.0 * t, 0.0 * t])


def by_table(t):
    return jnp.asarray(TABLE) + 0.0 * t


def indirectly(t):
    return push(t)


def by_module(t):
    return SETTINGS.amplitude * t


class Push:
    def __init__(self, amplitude):
        self.amplitude = amplitude

    def __call__(self, t):
        return jnp.stack([self.amplitude + 0.0 * t, 0.0 * t, 0.0 * t])

    def speed(self, mass):
        return self.amplitude / mass


def _assembled(force):
    body = lie_jax.Body("b", 1.0, np.eye(3))
    mechanism = lie_jax.Mechanism([body], forces=[lie_jax.PointForce("b", force)])
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def _speed(system, state):
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=STEP, steps=STEPS)
    return float(run.v[-1, 0]) / (STEP * STEPS)


@pytest.fixture
def compilations():
    """Names of the programs that are compiled."""
    names = []

    def listen(event, *_, **details):
        if "backend_compile" in event:
            names.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.full
def test_forces_see_globals_that_change(compilations, monkeypatch):
    first = _assembled(push)
    for value in (1.0, 2.0):
        monkeypatch.setitem(globals(), "amplitude", value)
        # A system that was assembled before sees the change, too.
        for system, state in (first, _assembled(push)):
            assert _speed(system, state) == pytest.approx(value)
    # A value that was there before, and another function of the same code.
    monkeypatch.setitem(globals(), "amplitude", 1.0)
    same = types.FunctionType(push.__code__, globals(), push.__name__)
    compilations.clear()
    assert _speed(*first) == _speed(*_assembled(same)) == pytest.approx(1.0)
    assert not compilations


# `make test` has them in snapshots and in sweeps.
@pytest.mark.full
def test_forces_see_attributes_that_change():
    push = Push(1.0)
    system, state = _assembled(push)
    for push.amplitude in (1.0, 4.0):
        assert _speed(system, state) == pytest.approx(push.amplitude)


def _changes(function, change):
    before = snapshots.snapshot(function)
    assert before == snapshots.snapshot(function)
    assert hash(before) == hash(snapshots.snapshot(function))
    change()
    return before != snapshots.snapshot(function)


def test_snapshots_see_all_that_a_function_reads(monkeypatch):
    def set_global():
        monkeypatch.setitem(globals(), "amplitude", amplitude + 1.0)

    def closed(values):
        return lambda t: sum(values) * t

    def default(t, scale=TABLE):
        return scale * t

    def nested(t):
        return jax.vmap(lambda x: amplitude * x)(t)

    def change(target, key, value):
        return lambda: target.__setitem__(key, value)

    pusher, numbers, key = Push(1.0), [1.0, 2.0], {"key": jax.random.key(0)}
    assert _changes(push, set_global)
    assert _changes(indirectly, set_global)
    assert _changes(nested, set_global)
    assert _changes(by_module, lambda: setattr(SETTINGS, "amplitude", 3.0))
    assert _changes(by_table, change(TABLE, 1, 5.0))
    assert _changes(default, change(TABLE, 1, 6.0))
    assert _changes(closed(numbers), change(numbers, 0, 7.0))
    assert _changes(closed(numbers), change(numbers, 0, np.float64(7.0)))
    assert _changes(closed(key), change(key, "key", jax.random.key(1)))
    assert _changes(functools.partial(lambda a, t: a * t, numbers), change(numbers, 1, 8.0))
    assert _changes(jax.vmap(pusher.speed), lambda: setattr(pusher, "amplitude", -0.0))
    assert _changes(pusher, lambda: setattr(pusher, "amplitude", 0.0))
    assert not _changes(lambda t: jnp.sin(t), set_global)


class Length(float):
    # A float with a word of its own.
    unit: float


class Gains(NamedTuple):
    gain: float

    def __call__(self, t):
        return self.gain * SETTINGS.amplitude * t


class Queue(collections.deque):
    # A container in C with an attribute.
    gain = 1.0


class Shared:
    # Of all kinds that are neither numbers nor lists.
    offset = np.float64(1.0)
    names = {"a"}  # noqa: RUF012
    pusher = Push(1.0)


@dataclasses.dataclass
class Table:
    values: list = dataclasses.field(default_factory=lambda: [1.0])

    def __call__(self, t):
        return self.values[0] * t


def test_snapshots_see_what_classes_and_modules_hold(monkeypatch):
    def both(t):
        return SETTINGS.first * by_module(t)

    SETTINGS.first = 1.0
    length, table, masked = Length(1.0), Table(), np.ma.masked_equal([1.0, 2.0], 2.0)
    length.unit = 1.0
    settings, queue, other = [SETTINGS], collections.deque([1.0]), Queue([1.0])
    assert _changes(both, lambda: setattr(SETTINGS, "first", 2.0))
    assert _changes(both, lambda: setattr(SETTINGS, "amplitude", 5.0))
    assert _changes(Gains(1.0), lambda: setattr(SETTINGS, "amplitude", 6.0))
    in_a_list = lambda t: settings[0].amplitude * t  # noqa: E731
    assert _changes(in_a_list, lambda: setattr(SETTINGS, "amplitude", 7.0))
    assert _changes(lambda t: length.unit * t, lambda: setattr(length, "unit", 2.0))
    assert _changes(lambda t: queue[0] * t, lambda: queue.append(2.0))
    assert _changes(lambda t: other[0] * t, lambda: other.append(2.0))
    assert _changes(lambda t: other.gain * t, lambda: setattr(other, "gain", 2.0))
    assert _changes(lambda t: masked.sum() * t, lambda: masked.__setitem__(1, 2.0))
    assert _changes(lambda t: Shared.offset * t, lambda: setattr(Shared, "offset", np.float64(2)))
    assert _changes(lambda t: len(Shared.names) * t, lambda: Shared.names.add("b"))
    assert _changes(
        lambda t: Shared.pusher.speed(t), lambda: setattr(Shared.pusher, "amplitude", 2.0)
    )
    assert _changes(table, lambda: table.values.append(2.0))


def test_what_cannot_change_is_not_refused():
    logger, lock = logging.getLogger(__name__), threading.RLock()
    logger.addHandler(logging.StreamHandler())
    fixed = slice(0, 2), operator.itemgetter(0), jnp.ones(2, jnp.bfloat16), logger, lock
    assert not _changes(lambda t: (fixed, t)[1], lambda: None)


def test_what_cannot_be_read_is_refused():
    for hidden in (iter([1.0]), np.random.default_rng(0), (x for x in (1.0,)), object()):
        with pytest.raises(ValueError, match=r"reads 'hidden' of type .*cannot detect.*\.Module"):
            lie_jax.PointForce("b", lambda t: (hidden, jnp.ones(3))[1])  # noqa: B023


def test_what_is_another_in_each_call_is_refused():
    own = time.time
    for draw, what in (
        (lambda: random.random(), "random"),
        (lambda: np.random.normal(), "numpy.random"),  # noqa: NPY002
        (lambda: time.time(), "time"),
        (lambda: own(), "time.time"),
    ):
        with pytest.raises(ValueError, match=rf"uses {what}, whose values.*jax.random with a key"):
            lie_jax.PointForce("b", lambda t: draw() * jnp.ones(3))  # noqa: B023

    def with_a_key(t):
        return np.pi * jax.random.normal(jax.random.key(0), (3,), t.dtype)

    lie_jax.PointForce("b", with_a_key)


@jax.jit
def compiled(t):
    return push(t)


class Law(eqx.Module):
    scale: float

    def __call__(self, t):
        return self.scale * push(t)


def test_code_that_jax_knows_by_identity_must_not_change(monkeypatch):
    law = lie_jax.PointForce("b", Law(2.0))
    snapshots.freeze(law)
    snapshots.snapshot(compiled)
    monkeypatch.setitem(globals(), "amplitude", -3.0)
    with pytest.raises(ValueError, match=r"Law reads values that have changed.*must stay"):
        snapshots.freeze(law)
    with pytest.raises(ValueError, match=r"compiled reads values that have changed"):
        snapshots.snapshot(compiled)


def test_many_programs_of_one_function_are_told_of_once():
    pusher = Push(0.0)
    node = snapshots.watch(pusher)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for pusher.amplitude in map(float, range(20)):
            snapshots.freeze(node)
    (only,) = caught
    assert "Push was compiled for 9 different sets of the values" in str(only.message)


def test_equal_functions_are_not_stacked_for_one_may_change_later():
    system, _ = mechanisms.two_bodies(lie_jax.R3SO3())
    first, second = Push(1.0), Push(1.0)
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in "ab"]
    forces = [lie_jax.PointForce("a", first), lie_jax.PointForce("b", second)]
    system, _ = lie_jax.assemble(lie_jax.Mechanism(bodies, forces=forces), lie_jax.R3SO3())
    assert len(system.forces) == 2


def test_sweeps_see_attributes_that_change(compilations):
    push, masses = Push(1.0), jnp.asarray([1.0, 2.0])
    for push.amplitude in (1.0, 3.0):
        speeds = lie_jax.sweep(push.speed, masses, progress=False).results
        np.testing.assert_array_equal(speeds, push.amplitude / masses)
    compilations.clear()
    lie_jax.sweep(Push(3.0).speed, masses, progress=False)
    assert not compilations


weight = 1.0


def weighted(t, q, v, u):
    return weight * jnp.sum(u**2) + jnp.sum(q**2)


@pytest.mark.full
def test_costs_see_globals_that_change(monkeypatch):
    def effort():
        best = control.ilqr(Cart(), MIDPOINT, START, ZERO, dt=DT, running=weighted, final=settle)
        return float(jnp.sum(best.inputs**2))

    light = effort()
    monkeypatch.setitem(globals(), "weight", 1e4)
    # Inputs that cost ten thousand times more are not worth it.
    assert effort() < 1e-2 * light


def test_functions_may_close_over_the_variant_of_a_sweep():
    def pulled(scale):
        torque = lie_jax.Torque("b", lambda t: jnp.stack([scale, t, t])).torque
        return torque(jnp.asarray(2.0))

    assert np.array_equal(
        lie_jax.sweep(pulled, np.asarray([3.0, 4.0]), progress=False).results,
        [[3.0, 2.0, 2.0], [4.0, 2.0, 2.0]],
    )
