"""Ctrl-C ends long calls, also where Python drops its exception; forked processes end at once."""

import functools
import gc
import os
import signal
import threading
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.numerics import forks, interrupts
from lie_jax.simulation import fixed_steps
from lie_jax.sweeps import storage


@pytest.fixture(autouse=True)
def pythons_handler():
    """Python's own handler, which programs that a shell starts in the background do not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _press():
    signal.raise_signal(signal.SIGINT)


def _press_in_the_collector():
    """Press Ctrl-C where Python drops exceptions, as in JAX's own callback.

    A collection of the youngest objects alone is short also after thousands of tests.
    """

    def callback(phase, info):
        gc.callbacks.remove(callback)
        _press()

    gc.callbacks.append(callback)
    gc.collect(0)


# Python reports the exception that it drops to `sys.unraisablehook`.
dropped = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dropped
def test_interrupts_that_python_drops_are_heeded():
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.watch() as check:
        check()
        _press_in_the_collector()
        check()
        raise AssertionError("the interrupt was lost")
    with pytest.raises(KeyboardInterrupt), interrupts.watch():
        _press_in_the_collector()
    with pytest.raises(KeyboardInterrupt), interrupts.watch():
        _press()
    assert signal.getsignal(signal.SIGINT) is handler is signal.default_int_handler


def test_other_handlers_and_threads_are_left_alone():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        with interrupts.watch() as check:
            _press()
            check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [1]

    def elsewhere():
        with interrupts.watch() as check:
            check()
            pressed.append(2)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert pressed == [1, 2]


@dropped
def test_a_sweep_ends_after_the_batch_and_goes_on_from_there(tmp_path, monkeypatch):
    saved = []

    def press(write, *arguments):
        write(*arguments)
        saved.append(arguments[2])
        if len(saved) == 2:
            _press_in_the_collector()

    def run():
        options = {"batch": 2, "save_to": tmp_path / "sweep.zarr", "progress": False}
        return lie_jax.sweep(lambda x: 2.0 * x, np.arange(20.0), **options)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", functools.partial(press, storage.write))
        with pytest.raises(KeyboardInterrupt):
            run()
    assert saved == [0, 1]
    np.testing.assert_array_equal(run()["value"], 2.0 * np.arange(20.0))


@pytest.mark.full
@dropped
def test_a_run_ends_after_the_piece(monkeypatch):
    body = lie_jax.Body("b", 1.0, np.eye(3), velocity=(1.0, 0.0, 0.0))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.R3SO3())
    pieces = []

    def press(begin, *arguments):
        pieces.append(1)
        if len(pieces) == 2:
            _press_in_the_collector()
        return begin(*arguments)

    monkeypatch.setattr(fixed_steps, "_piece", functools.partial(press, fixed_steps._piece))
    steps = 5 * fixed_steps.MOST_STEPS
    with pytest.raises(KeyboardInterrupt):
        lie_jax.simulate(
            system, lie_jax.RKMK("euler"), state, dt=1e-6, steps=steps, save=steps // 10
        )
    assert len(pieces) == 2


def test_forked_processes_are_refused(monkeypatch):
    np.asarray(jnp.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        # Nothing may leave the child, not even a failure.
        try:
            forks.refuse()
        except RuntimeError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    forks.refuse()
    body = lie_jax.Body("b", 1.0, np.eye(3))
    mechanism = lie_jax.Mechanism([body])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.1, steps=1)
    monkeypatch.setattr(forks, "_forked", True)
    for call in (
        lambda: lie_jax.assemble(mechanism, lie_jax.R3SO3()),
        lambda: lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.1, steps=1),
        lambda: lie_jax.sweep(lambda x: x, np.ones(2)),
        lambda: lie_jax.io.load("run.nc"),
        lambda: lie_jax.energies(system, run),
    ):
        with pytest.raises(RuntimeError, match=r"was forked .*'spawn'"):
            call()
