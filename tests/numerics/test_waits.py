"""A line on stderr says what compiles, once, and only where something compiles."""

import gc
import io
import sys
import threading
import time

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax.numerics import jax_internals, waits
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START, Oscillator

LINE = "lie_jax: compiling"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Lines at the first look that meets JAX at work."""
    monkeypatch.setattr(waits, "AFTER", 0.0)
    monkeypatch.setattr(waits, "LOOK", 0.005)


def _new():
    """A system that no program is compiled for."""

    class Own(Oscillator):
        pass

    return Own(OSCILLATOR.stiffness)


def _run(system, steps=20, **options):
    return lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), OSCILLATOR_START, dt=1e-3, steps=steps, **options
    )


def test_a_line_says_what_compiles_once(capfd):
    system = _new()
    _run(system)
    line, *others = capfd.readouterr().err.splitlines()
    # A busy machine may take half a minute.
    assert all("still compiling" in other for other in others)
    assert line.startswith(f"{LINE} the run of RKMK() for 2 velocities, about ")
    assert line.endswith("; later calls with other numbers start at once")
    # Many looks at steps, by programs that are there.
    _run(system, steps=200_000, save=10_000)
    assert not capfd.readouterr().err


@pytest.fixture
def told(monkeypatch):
    """What each wait is for; without programs that JAX compiles after other tests."""
    words = []

    class Wait(waits._Wait):
        def __init__(self, what):
            words.extend([] if what.startswith("jit(") else [what])
            super().__init__(what)

    monkeypatch.setattr(waits, "_Wait", Wait)
    return words


@pytest.mark.full
def test_mechanisms_say_what_compiles(told):
    bodies = [lie_jax.Body(f"body{i}", 1.0, np.eye(3)) for i in range(5)]
    mechanism = lie_jax.Mechanism(bodies, [lie_jax.SphericalJoint("ground", "body0")])
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    rows = 0.0, state.q, state.v, state.v, jnp.zeros(3)
    system.reactions(*rows)
    system.powers(*rows[:3], rows[-1])
    expected = "assembly in SE3()", "reactions", "powers"
    assert told == [f"the {what} for 5 bodies" for what in expected]


READINGS = {
    "contacts": lambda system, q, v: system.contacts(0.0, q, v),
    "beams": lambda system, q, v: system.beams(q, v),
    "joint coordinates": lambda system, q, v: system.joint_coordinates(q),
    "forces": lambda system, q, v: system.force(0.0, q, v),
    "residual": lambda system, q, v: system.residual(0.0, q, v, v, jnp.zeros(system.nc)),
    "accelerations": lambda system, q, v: system.acceleration(0.0, q, v),
    "coriolis matrix": lie_jax.robotics.coriolis_matrix,
    "jacobian": lambda system, q, v: lie_jax.robotics.Frame("a").jacobian(system, q),
}


@pytest.mark.parametrize(
    "formulation", [pytest.param(lie_jax.SE3(), marks=pytest.mark.full), lie_jax.Minimal()]
)
def test_readings_say_what_compiles(formulation, told):
    joint = lie_jax.RevoluteJoint("ground", "a", (0.0, 0.0, 1.0))
    mechanism = lie_jax.Mechanism([lie_jax.Body("a", 1.0, np.eye(3))], [joint])
    system, state = lie_jax.assemble(mechanism, formulation)
    for what, read in READINGS.items():
        told.clear()
        waits._waits.clear()
        # Traced alone: nothing compiles.
        jax.eval_shape(lambda q, v, read=read: read(system, q, v), state.q, state.v)
        assert told[0] == f"a function with the {what} for 1 body"


def test_functions_that_are_traced_already_are_told_of_by_name(capfd):
    @jax.jit
    def end(mass):
        return _run(Oscillator(mass * OSCILLATOR.stiffness), throw=False).q[-1, 0]

    def doubled(mass):
        # JAX has traced it: lie_jax is not called again.
        return 2.0 * end(mass)

    jax.eval_shape(end, 1.0)
    waits._waits.clear()
    capfd.readouterr()
    jax.jit(doubled).lower(1.0).compile()
    assert capfd.readouterr().err.startswith(f"{LINE} jit(doubled), about ")
    assert not waits._waits


def test_functions_of_the_user_are_told_of_until_they_are_compiled(capfd, monkeypatch):
    monkeypatch.setattr(waits, "AFTER", 1e9)

    @jax.jit
    def end(mass):
        run = _run(Oscillator(mass * OSCILLATOR.stiffness), throw=False)
        # The line is due when lie_jax has returned.
        monkeypatch.setattr(waits, "AFTER", 0.0)
        return jax.jacfwd(jax.jacrev(lambda x: jnp.sum(jnp.linalg.inv(x * run.q[:2]))))(mass)

    end.lower(1.0).compile()
    line, *others = capfd.readouterr().err.splitlines()
    # A busy machine may take half a minute.
    assert all("still compiling" in other for other in others)
    assert line.startswith(f"{LINE} a function with the run of RKMK() for 2 velocities, about ")
    # The wait ends with the compilation, so that the next function has a line of its own.
    assert not waits._waits
    jax.jit(lambda mass: end.__wrapped__(2.0 * mass)).lower(1.0).compile()
    assert capfd.readouterr().err.startswith(LINE)
    # Without another call of lie_jax the thread ends, too.
    for _ in range(1000):
        if waits._thread is None:
            break
        time.sleep(0.01)
    assert waits._thread is None and not waits._waits


@pytest.mark.parametrize("form", cases(["quiet", "closed", "none"], ["quiet"]))
def test_no_line_and_no_failure(form, capfd, monkeypatch):
    if form == "quiet":
        monkeypatch.setattr(waits, "quiet", True)
    else:
        stream = io.StringIO()
        stream.close()
        monkeypatch.setattr(sys, "stderr", stream if form == "closed" else None)
    assert bool(_run(_new()).result == lie_jax.Result.successful)
    assert not capfd.readouterr().err


def test_configure_switches_the_lines_off(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert not waits.quiet
    try:
        lie_jax.configure(fast_loops=False, quiet=True)
        assert waits.quiet
    finally:
        lie_jax.configure(fast_loops=False)
    assert not waits.quiet
    with pytest.raises(ValueError, match=r"configure\(quiet=\) is 'yes'"):
        lie_jax.configure(quiet="yes")


def test_interrupted_calls_wait_no_longer():
    @waits.announce("nothing")
    def interrupted(system):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(OSCILLATOR)
    assert not waits._waits
    # Wrong arguments are the function's to refuse.
    with pytest.raises(TypeError, match="unexpected keyword"):
        interrupted(OSCILLATOR, other=1)


def test_durations_follow_from_the_time_of_tracing(monkeypatch):
    lines = []
    monkeypatch.setattr(waits, "_write", lines.append)
    monkeypatch.setattr(waits, "AFTER", 2.0)
    # Traced for one second of two so far, compiled for one of three: a run takes 1 s + 3 s.
    wait = waits._Wait("it")
    for phase in [jax_internals.TRACING, None, jax_internals.COMPILING, *[None] * 4]:
        assert not lines
        wait.count(phase, 1.0)
        if sum(wait.spent.values()) == 2.0:
            break
    (line,) = lines
    assert line.startswith("lie_jax: compiling it, about 5 s;")
    # Two seconds of tracing, as many to come, and three times as long for XLA.
    wait = waits._Wait("it")
    for _ in range(8):
        wait.count(jax_internals.TRACING, 0.5)
    assert lines[1:] == [lines[0].replace("5 s", "15 s or longer")]
    # It takes longer than twice as long.
    for _ in range(20):
        wait.count(jax_internals.COMPILING, 2.0)
    assert lines[2:] == ["lie_jax: still compiling it, 30 s so far, about 45 s in all"]
    # A very long compilation.
    wait = waits._Wait("it")
    wait.count(jax_internals.COMPILING, 200.0)
    assert "about 5 min" in lines[-1]
    # Operations that are compiled one by one: the number of those to come is not known.
    lines.clear()
    wait = waits._Wait("it")
    for _ in range(4):
        wait.count(jax_internals.COMPILING, 0.5)
        wait.count(None, 0.5)
    assert lines == [
        "lie_jax: compiling it, about 5 s or longer; later calls with other numbers start at once"
    ]


@pytest.mark.full
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="collects garbage between instructions only"
)
def test_no_garbage_is_collected_while_frames_are_made(monkeypatch):
    def collections():
        return sum(generation["collections"] for generation in gc.get_stats())

    def counted(frame):
        before = collections()
        found = phase(frame)
        counts.append(collections() - before)
        return found

    def deep(depth, function):
        # Objects of these frames are made when they are looked at.
        if depth:
            return deep(depth - 1, function)
        thread = threading.Thread(target=function)
        thread.start()
        return thread.join()

    phase, counts, own = jax_internals.phase, [], threading.get_ident()
    monkeypatch.setattr(jax_internals, "phase", counted)
    thresholds = gc.get_threshold()
    # A collection of much garbage lets other threads run meanwhile, in which none then begins.
    gc.collect()
    gc.set_threshold(10)
    try:
        deep(50, lambda: counted(sys._current_frames()[own]))
        unguarded = sum(counts)
        counts.clear()
        deep(50, waits._phases)
    finally:
        gc.set_threshold(*thresholds)
    assert unguarded and counts and not sum(counts) and gc.isenabled()
