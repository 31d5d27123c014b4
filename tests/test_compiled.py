"""What the compiler makes of runs: one function for a time loop, and nothing twice."""

import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import one_function
from models import heavy_top

MARK = "xla_cpu_small_call"
RUNS = {
    "RKMK4, free": (False, lie_jax.RKMK("rk4")),
    "generalized-α, constrained": (True, lie_jax.GeneralizedAlpha(0.9)),
}
# A run as one function takes less than half of the time of its kernels one after the other; the
# bound leaves room for a busy machine.
SPEED_UP = 0.75


def _end(name, steps):
    constrained, integrator = RUNS[name]

    def end(mass):
        system, state = heavy_top.build(constrained=constrained, mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-4, steps=steps, save_every=steps, throw=False
        )
        return trajectory.q[-1]

    return end


def _compiled(function, *arguments):
    # A function of its own each time: what was traced is otherwise taken from memory.
    return jax.jit(lambda *arguments: function(*arguments)).lower(*arguments).compile()


def _seconds(compiled, *arguments):
    times = []
    for _ in range(5):
        begin = time.process_time()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.process_time() - begin)
    return min(times)


def test_a_run_is_one_function_and_faster_for_it(monkeypatch):
    monkeypatch.setattr(one_function, "ENABLED", True)
    mass, steps = jnp.asarray(heavy_top.MASS), 5000
    together = _compiled(_end("RKMK4, free", steps), mass)
    assert MARK in (together.as_text() or "")
    monkeypatch.setattr(one_function, "_possible", lambda *_: False)
    apart = _compiled(_end("RKMK4, free", steps), mass)
    assert MARK not in (apart.as_text() or "")
    assert_allclose(together(mass), apart(mass), rtol=1e-9, atol=1e-9)
    assert _seconds(together, mass) < SPEED_UP * _seconds(apart, mass)


def _marked(function, *arguments):
    return MARK in jax.jit(lambda *arguments: function(*arguments)).lower(*arguments).as_text()


def test_derivatives_and_small_batches_are_one_function_too(monkeypatch):
    monkeypatch.setattr(one_function, "ENABLED", True)
    mass, end = jnp.asarray(heavy_top.MASS), _end("RKMK4, free", 10)
    for transform in (jax.jacfwd, jax.grad):
        assert _marked(transform(lambda mass: jnp.sum(end(mass))), mass)
    assert _marked(jax.vmap(end), mass * jnp.ones(3))
    assert not _marked(jax.vmap(end), mass * jnp.ones(one_function._LARGE))


def test_what_one_function_cannot_hold_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(one_function, "ENABLED", True)
    a, b = jnp.diag(jnp.arange(1.0, 4.0)), jnp.ones(3)

    def repeated(solve):
        return lambda b: one_function.call(lambda b: jax.lax.fori_loop(0, 3, solve, b), b)

    library, own = repeated(lambda _, b: jnp.linalg.solve(a, b)), repeated(lambda _, b: b / (1 + b))
    assert not _marked(library, b)
    assert _marked(own, b)
    assert_allclose(_compiled(library, b)(b), jnp.arange(1.0, 4.0) ** -3, rtol=1e-15)
    assert_allclose(_compiled(own, b)(b), 0.25, rtol=1e-15)
    assert not _marked(own, jnp.ones(one_function._LARGE))


_WITH_THE_FLAG = f"""
import jax.numpy as jnp
import lie_jax
lie_jax.configure_cpu()
lie_jax.enable_x64()
from lie_jax import one_function
from tests import test_compiled
assert not one_function.ENABLED
for name in test_compiled.RUNS:
    text = test_compiled._compiled(test_compiled._end(name, 10), jnp.asarray(15.0)).as_text()
    print({MARK!r} in text)
"""


def test_xla_makes_one_function_itself_with_configure_cpu():
    done = subprocess.run(
        [sys.executable, "-c", _WITH_THE_FLAG], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"] * len(RUNS)


def test_configure_cpu_refuses_what_is_too_late_or_no_number():
    jax.devices()
    with pytest.raises(RuntimeError, match=r"after JAX had computed.*XLA_FLAGS="):
        lie_jax.configure_cpu(loop_bytes=12345)
    with pytest.raises(ValueError, match=r"loop_bytes=.*is 0"):
        lie_jax.configure_cpu(loop_bytes=0)


def test_other_parameters_are_not_compiled_again():
    count = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            count.append(event)

    def run(mass, steps=7):
        system, state = heavy_top.build(mass=mass)
        integrator = lie_jax.RKMK("rk4")
        return lie_jax.simulate(system, integrator, state, dt=1e-4 * mass, steps=steps).q[-1]

    run(15.0)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run(14.0)
        assert not count
        run(14.0, steps=8)
        assert count
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
