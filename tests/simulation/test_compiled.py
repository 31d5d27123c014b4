"""A time loop compiles to one function, and no program compiles twice."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax import config
from lie_jax.numerics import waits
from lie_jax.simulation import fixed_steps
from models import chain, heavy_top, slider_crank
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START, PENDULUM_START, Oscillator, Pendulum

MARK = "xla_cpu_small_call"
RUNS = {
    "RKMK4, free": (False, lie_jax.RKMK("rk4")),
    "generalized-α, constrained": (True, lie_jax.GeneralizedAlpha(0.9)),
}


def _end(name, steps):
    constrained, integrator = RUNS[name]

    def end(mass):
        system, state = heavy_top.build(constrained=constrained, mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-4, steps=steps, save=steps, throw=False
        )
        return trajectory.q[-1]

    return end


def _compiled(function, *arguments):
    # A function of its own each time: what was traced is otherwise taken from memory.
    return jax.jit(lambda *arguments: function(*arguments)).lower(*arguments).compile()


_WITH_THE_FLAG = f"""
import sys
import jax.numpy as jnp
import jaxtyping
import lie_jax
from lie_jax import config
lie_jax.configure()
from tests.simulation import test_compiled
end = test_compiled._end(sys.argv[1], 10)
print({MARK!r} in test_compiled._compiled(end, jnp.asarray(15.0)).as_text())
print(jnp.zeros(()).dtype == "float64")
from threadpoolctl import ThreadpoolController
blas = [l for l in ThreadpoolController().lib_controllers if "scipy.libs" in str(l.filepath)]
print([library.num_threads for library in blas] == [1])
"""


@pytest.mark.parametrize("name", cases(RUNS, ["RKMK4, free"]))
def test_configure_sets_up_the_process(name):
    # XLA makes one function of each loop, numbers are doubles, and JAX's BLAS has one thread.
    done = subprocess.run(
        [sys.executable, "-c", _WITH_THE_FLAG, name], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"] * 3


# Runs of mechanisms in absolute coordinates, and whether loops are small enough to be one function.
MECHANISMS = {
    f"{model}, {name}": (model, formulation, options, small or model == "crank")
    for model in ("crank", "chain")
    for name, formulation, options, small in (
        ("index 2", lie_jax.R3SO3(), {"index": 2}, False),
        ("Euler parameters", lie_jax.EulerParameters(), {}, False),
        ("modified", lie_jax.R3SO3(), {"newton": "modified"}, True),
    )
}


def _mechanism(name):
    model, formulation, options, _ = MECHANISMS[name]
    system, state = slider_crank.build(formulation)
    if model == "chain":
        system, state = chain.build(formulation, n=16)
    integrator = lie_jax.GeneralizedAlpha(0.8, **options)

    def end(gravity):
        moved = dataclasses.replace(system, gravity=gravity)
        options = {"dt": 1e-3, "steps": 10, "save": 10, "throw": False}
        return lie_jax.simulate(moved, integrator, state, **options).q[-1]

    return end, system.gravity


_LOOPS = """
import lie_jax
from lie_jax import config
lie_jax.configure()
from tests.simulation import test_compiled
for name, (*_, small) in test_compiled.MECHANISMS.items():
    text = test_compiled._compiled(*test_compiled._mechanism(name)).as_text()
    assert "lapack" not in text, name
    assert "ynn_fusion" not in text, name
    assert not small or text.count(test_compiled.MARK) == text.count(" while("), name
    print(name)
"""


@pytest.mark.full
def test_time_loops_of_mechanisms_call_no_library():
    """No LAPACK and no fusion of a library; loops of small mechanisms become one function each."""
    done = subprocess.run([sys.executable, "-c", _LOOPS], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert len(done.stdout.splitlines()) == len(MECHANISMS)


def test_configure_refuses_what_is_too_late(monkeypatch):
    jax.devices()
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(waits, "quiet", waits.quiet)
    with pytest.raises(RuntimeError, match=r"after JAX had computed.*fast_loops=False.*XLA_FLAGS="):
        lie_jax.configure(quiet=True)


@pytest.mark.full
def test_configure_leaves_flags_of_the_user():
    program = "import os, lie_jax; lie_jax.configure(); lie_jax.configure(); "
    done = subprocess.run(
        [sys.executable, "-c", program + "print(os.environ['XLA_FLAGS'])"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=true"},
    )
    own, loop, *others = done.stdout.split()
    assert own.endswith("=true") and "threshold=1000000" in loop.split("=", 1)[1].split(",")[0]
    assert len(others) == len({x.split("=")[0] for x in (own, *others)}) - 1


_TO_A_CACHE = """
import sys
import jax.numpy as jnp
import jaxtyping
import lie_jax
from lie_jax import config
lie_jax.configure(fast_loops=False, cache=sys.argv[1], quiet=True)
from tests.simulation import test_compiled
events = []
test_compiled.jax.monitoring.register_event_listener(lambda event, **kwargs: events.append(event))
test_compiled._compiled(test_compiled._end("RKMK4, free", 10), jnp.asarray(15.0))
print(events.count("/jax/compilation_cache/cache_hits"))
print(events.count("/jax/compilation_cache/cache_misses"))
"""


@pytest.mark.full
def test_second_process_compiles_nothing(tmp_path):
    environment = {name: of for name, of in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}

    def hits_and_misses():
        command = [sys.executable, "-c", _TO_A_CACHE, str(tmp_path / "cache")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        # XLA's loader says nothing of processor features.
        assert not done.stderr
        return tuple(map(int, done.stdout.split()))

    hits, programs = hits_and_misses()
    assert hits == 0 and programs > 0
    assert hits_and_misses() == (programs, 0)


_FOLDERS = """
import os, sys, warnings
import jax
import lie_jax
from lie_jax import config
warnings.simplefilter("always")
for home, options in eval(sys.argv[1]):
    os.environ["XDG_CACHE_HOME"] = home
    lie_jax.configure(fast_loops=False, **options)
    print(jax.config.jax_compilation_cache_dir)
"""


def _folders(*settings, **environment):
    """Folders after each of the user's folders for caches and options, in one process."""
    command = [sys.executable, "-c", _FOLDERS, repr(settings)]
    environment = os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split(), done.stderr


@pytest.mark.full
def test_configure_keeps_programs_in_the_users_folder(tmp_path):
    home, own = str(tmp_path), tmp_path / "lie_jax" / config._processor()
    own.mkdir(parents=True)
    # The first one as a process leaves it that ends while it keeps a program.
    half, whole = own / "a-cache", own / "b-cache"
    for file in (half, whole, own / "b-atime"):
        file.write_bytes(b"")
    (*none, folder), told = _folders((home, {"cache": False}), ("/proc/x", {}), (home, {}))
    assert told.count("cannot be created or written") == 1
    assert none == ["None", "None"] and folder == str(own)
    assert whole.exists() and not half.exists()


@pytest.mark.full
def test_configure_leaves_jaxs_own_folder(tmp_path):
    folder = f"{tmp_path}/own"
    assert _folders((str(tmp_path), {}), JAX_COMPILATION_CACHE_DIR=folder) == ([folder], "")


@pytest.mark.parametrize("folder", [__file__, "/proc/x", ""])
def test_cache_refuses_what_is_no_folder_to_write_to(folder, monkeypatch):
    monkeypatch.setattr(waits, "quiet", waits.quiet)
    with pytest.raises(ValueError, match=r"configure\(cache=\) is .*must be a folder"):
        lie_jax.configure(fast_loops=False, cache=folder, quiet=True)


@pytest.mark.parametrize("cache", [None, 1])
def test_configure_takes_a_truth_value_or_a_folder(cache, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=rf"configure\(cache=\) is {cache}; .* give False"):
        lie_jax.configure(fast_loops=False, cache=cache)


@pytest.fixture
def compilations():
    """List that grows by one with each compilation."""
    count = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            count.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield count
    jax.monitoring.unregister_event_duration_listener(listen)


def test_other_parameters_and_numbers_of_steps_are_not_compiled_again(compilations):
    def run(mass, steps=7, save=1):
        system, state = heavy_top.build(mass=mass)
        return lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=1e-4 * mass, steps=steps, save=save
        )

    first = run(15.0)
    compilations.clear()
    run(14.0)
    other = run(15.0, steps=12)
    every_third = run(15.0, steps=11, save=3)
    every_fifth = run(15.0, steps=12, save=5)
    assert not compilations
    # Shapes and rows are those of the steps asked for, bit by bit.
    assert other.q.shape[0] == 13 and other.stats.newton_iterations.shape == (12,)
    assert np.array_equal(other.q[:8], first.q)
    assert np.array_equal(every_third.q, other.q[:12:3])
    assert np.array_equal(every_fifth.q, other.q[::5])
    assert np.array_equal(every_fifth.restart.state.q, other.q[12])
    assert np.array_equal(every_third.t, other.t[:12:3])


# Integrators with carries of their own, and a system that they take.
STUDIES = {
    "RKMK4, inputs": (lambda: _motor(), lie_jax.RKMK("rk4")),
    "generalized-α": (lambda: (Pendulum(jnp.ones(())), PENDULUM_START), lie_jax.GeneralizedAlpha()),
    "BDF": (lambda: (OSCILLATOR, OSCILLATOR_START), lie_jax.BDF(3)),
    "RATTLie": (lambda: (OSCILLATOR, OSCILLATOR_START), lie_jax.RATTLie()),
}


def _motor():
    """A disc on an axle with a motor."""
    disc = lie_jax.Body("disc", 1.0, np.diag([0.1, 0.2, 0.3]))
    axle = lie_jax.RevoluteJoint("ground", "disc", (1, 0, 0))
    motor = lie_jax.JointMotor(axle, input=0)
    return lie_jax.assemble(lie_jax.Mechanism([disc], [axle], [motor]), lie_jax.Minimal())


@pytest.mark.parametrize("name", cases(STUDIES, []))
def test_a_convergence_study_and_its_restarts_compile_once(name, compilations):
    build, integrator = STUDIES[name]
    system, state = build()

    def study(start, steps, rows=5):
        inputs = np.ones((steps, 1)) if system.nu else None
        return lie_jax.simulate(
            system, integrator, start, dt=2e-3 / steps, steps=steps, save=steps // rows,
            inputs=inputs,
        )  # fmt: skip

    def runs(counts):
        return [study(study(state, n).restart, n) for n in counts]

    runs([5])
    compilations.clear()
    ends = runs([10, 40, 600])
    assert not compilations
    assert [run.stats.newton_iterations.shape for run in ends] == [(10,), (40,), (600,)]
    times = np.linspace(2e-3, 4e-3, 6)
    for run in ends:
        np.testing.assert_allclose(run.t, times, rtol=1e-12)


# `make test` has runs with other numbers of steps, and with functions that are saved.
@pytest.mark.full
def test_runs_with_events_compile_once(compilations):
    system, state = _motor()
    start = lie_jax.State(state.q, jnp.asarray([3.0]))
    events = [
        lie_jax.Event(lambda t, q, v: q[0] - 0.01, lambda t, q, v: (q, -0.5 * v), direction=1),
        lie_jax.Event(lambda t, q, v: q[0] + 0.01, "stop"),
    ]

    def run(steps, save):
        return lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), start, dt=0.02 / steps, steps=steps,
            save=save, events=events, inputs=np.zeros((steps, 1)), max_events=4,
        )  # fmt: skip

    run(8, 2)
    compilations.clear()
    runs = {numbers: run(*numbers) for numbers in ((8, 2), (50, 7), (12, 12))}
    assert not compilations
    for (steps, save), found in jax.tree.map(np.asarray, runs).items():
        # Back at half the speed after a third of 1/100 s, which takes 4/3 of 1/100 s more.
        np.testing.assert_allclose(found.events.t[:2], [0.01 / 3, 0.05 / 3], rtol=1e-9)
        np.testing.assert_array_equal(found.events.index, [0, 1, -1, -1])
        assert found.q.shape == (steps // save + 1, 1)
        assert found.stats.newton_iterations.shape == (steps,)
        t = 0.02 / steps * np.arange(0, steps + 1, save)[:-1]
        before = t < 0.05 / 3
        angle = np.where(t < 0.01 / 3, 3.0 * t, 0.01 - 1.5 * (t - 0.01 / 3))
        np.testing.assert_allclose(found.q[:-1, 0][before], angle[before], atol=1e-12)
        assert np.isnan(found.q[:-1, 0][~before]).all()
        np.testing.assert_allclose([found.t[-1], found.q[-1, 0]], [0.05 / 3, -0.01], rtol=1e-9)


def test_long_runs_in_pieces_are_short_runs_one_after_the_other(compilations, monkeypatch):
    system, state = _motor()
    inputs = np.sin(np.arange(103.0))[:, None]
    # Turns without other loads: torque over the step times the step, over the moment of inertia.
    rates = np.cumsum(np.append(0.0, inputs * 1e-2 / 0.1))
    angles = np.cumsum(np.append(0.0, 1e-2 * (rates[1:] + rates[:-1]) / 2))
    options = {"dt": 1e-2, "steps": 103, "inputs": inputs}
    whole = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, **options)
    monkeypatch.setattr(fixed_steps, "MOST_STEPS", 10)
    for save in (1, 3, 10, 15):
        pieces = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, save=save, **options)
        for name in ("t", "q", "v", "acceleration", "multipliers"):
            assert np.array_equal(getattr(pieces, name), getattr(whole, name)[::save]), name
        assert pieces.stats.newton_iterations.shape == (103,)
        assert np.array_equal(pieces.restart.state.q, whole.q[-1])
        assert np.array_equal(pieces.restart.inputs, inputs[-1])
        np.testing.assert_allclose(pieces.q[:, 0], angles[::save], atol=1e-12)


# How often the forces may be written down for a gradient: explicit methods do it once for all
# stages, implicit ones in each of the functions that Newton's method needs. At each place of use it
# would be 6, 7, 12 and 25 times.
TRACES = {
    lie_jax.RKMK("rk4"): 1,
    lie_jax.CrouchGrossman(4): 1,
    lie_jax.GeneralizedAlpha(0.9): 6,
    lie_jax.ImplicitRKMK("gauss4"): 12,
}


@pytest.mark.parametrize(
    "integrator",
    cases(TRACES, [lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)]),
    ids=lambda x: type(x).__name__,
)
def test_gradients_trace_what_a_step_repeats_once(integrator):
    traces = []

    # A class of its own each time, whose traces are in no memory.
    class Counted(Oscillator):
        def force(self, t, q, v, u=None):
            traces.append(t)
            return super().force(t, q, v, u)

    def end(factor):
        system = Counted(factor * OSCILLATOR.stiffness)
        run = lie_jax.simulate(system, integrator, OSCILLATOR_START, dt=0.1, steps=10, throw=False)
        return jax.numpy.sum(run.q[-1])

    jax.jit(jax.grad(end)).trace(1.0)
    assert 1 <= len(traces) <= TRACES[integrator]
