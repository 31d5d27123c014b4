"""Garbage collections are rare while JAX traces, and as before afterwards."""

import gc
import threading

import pytest

from lie_jax.numerics.tracing import rare_collections


@pytest.fixture
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_the_last_block_restores_the_threshold(usual):
    entered, leave = threading.Event(), threading.Event()

    def other():
        with rare_collections():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with pytest.raises(KeyError), rare_collections(), rare_collections():
        thread.start()
        entered.wait()
        raise KeyError
    assert gc.get_threshold()[0] > 10 * usual[0]
    leave.set()
    thread.join()
    assert gc.get_threshold() == usual


def test_collections_that_are_off_stay_off(usual):
    gc.set_threshold(0)
    with rare_collections():
        assert gc.get_threshold()[0] == 0
