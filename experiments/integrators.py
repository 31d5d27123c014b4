"""Integrators compared on six systems: error against CPU time, and which method for what."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _report
from experiments._integrators import plots
from experiments._integrators.cases import CASES, Case
from experiments._loops import failure
from lie_jax.numerics import checkpointing
from lie_jax.simulation import stops
from lie_jax.simulation.march import march
from lie_jax.simulation.schedules import Automatic, Schedule


class Method(NamedTuple):
    """An integrator, whether it chooses its steps itself, and whether some lead back in time."""

    integrator: lie_jax.extend.AbstractIntegrator
    automatic: bool
    backwards: bool = False


METHODS = {
    "RKMK rk4": Method(lie_jax.RKMK("rk4"), False),
    "RKMK dopri5, automatic": Method(lie_jax.RKMK("dopri5"), True),
    "RATTLie": Method(lie_jax.RATTLie(), False),
    "RATTLie, order 4": Method(lie_jax.RATTLie(composition=4), False, True),
    "generalized-α": Method(lie_jax.GeneralizedAlpha(index=2), False),
    "generalized-α, automatic": Method(lie_jax.GeneralizedAlpha(index=2), True),
    "BDF 2, automatic": Method(lie_jax.BDF(2), True),
    "BDF 5, automatic": Method(lie_jax.BDF(5), True),
    "radau5, automatic": Method(lie_jax.ImplicitRKMK("radau5"), True),
    "sdirk4, automatic": Method(lie_jax.ImplicitRKMK("sdirk4"), True),
}
TOLERANCES = tuple(10.0**-k for k in range(3, 13))
# Errors of which the cheapest method is named, relative to the size of what is observed.
ACCURACIES = (1e-3, 1e-6, 1e-9)
# A method's runs end with the first that takes longer (s), or whose error is below this.
LONGEST, _ENOUGH = 0.3, 3e-11
# Steps double so often, and an automatic run may have so many.
_DOUBLINGS, _BOUND = 16, 120_000
_REPEATS = 3


class Attempt(NamedTuple):
    """A run: its error or None, steps (rejected ones too), CPU time (s), why it failed or None."""

    error: float | None
    steps: int
    cpu_s: float
    failure: str | None


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Result, and least CPU time (s) of some calls; of one, if that was long."""
    end, least = None, float("inf")
    for _ in range(_REPEATS):
        begin = time.process_time()
        end = jax.block_until_ready(call())
        least = min(least, time.process_time() - begin)
        if least > LONGEST:
            break
    return end, least


def fixed(case: Case, system, state, method: Method, steps: int) -> Attempt:
    """A run with steps of one size, observed at each of the case's times."""
    dt = case.times[-1] / steps
    march_to = [round(t / dt) for t in case.times]

    def call(count):
        return march(system, method.integrator, state, dt, count)

    end, cpu = _timed(lambda: call(steps))
    reason = failure(end.result)
    if reason:
        return Attempt(None, int(end.completed), cpu, reason)
    ends = [*(call(count).state for count in march_to[:-1]), end.state]
    return Attempt(case.error(system, ends), steps, cpu, None)


def automatic(case: Case, system, state, method: Method, tolerance: float) -> Attempt:
    """A run with steps by a tolerance, relative and absolute, that ends at the case's times."""
    times = jnp.asarray(case.times)
    adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
    estimating = method.integrator.with_estimate(system)
    blocks = checkpointing.blocks("stored", None, _BOUND)
    first = jnp.asarray(case.first_step)
    (run, _), cpu = _timed(
        lambda: stops.trajectory(
            *(system, estimating, state, first, None, Schedule(_BOUND, 1, blocks)),
            *((), 0, None, np.zeros(0, np.int32), jnp.zeros_like(first)),
            Automatic(adaptive, times, False),
        )
    )
    reason = failure(run.result)
    steps = int(run.stats.completed_steps) + int(run.stats.rejected_steps)
    if reason:
        return Attempt(None, steps, cpu, reason)
    ends = [lie_jax.State(run.q[i], run.v[i]) for i in range(1, len(case.times) + 1)]
    return Attempt(case.error(system, ends), steps, cpu, None)


def measure(case: Case, method: Method) -> list[dict]:
    """Runs from the coarsest to the first that is accurate enough or takes too long.

    None of a method that steps back in time where dampers are strong.
    """
    if case.damped and method.backwards:
        return []
    system, state = case.build()
    attempt: Callable[..., Attempt] = automatic if method.automatic else fixed
    counts = (case.coarsest * 2**k for k in range(_DOUBLINGS))
    settings = TOLERANCES if method.automatic else tuple(counts)
    # Compile, and read the reference.
    attempt(case, system, state, method, settings[0])
    runs = []
    for setting in settings:
        run = attempt(case, system, state, method, setting)
        runs.append(run._asdict() | {"setting": setting})
        enough = run.error is not None and run.error < _ENOUGH
        if enough or run.cpu_s > LONGEST or run.failure == "step_bound":
            break
    return runs


def _good(runs: list[dict], accuracy: float) -> tuple[list[dict], int | None]:
    """Runs that came to their end, and the first from which on all have an error or less.

    A lucky run before coarser ones does not count.
    """
    good = [run for run in runs if run["error"] is not None]
    errors = [run["error"] for run in good]
    return good, next((i for i in range(len(errors)) if max(errors[i:]) <= accuracy), None)


def seconds_to_reach(runs: list[dict], accuracy: float) -> float | None:
    """CPU time (s) to reach an error, interpolated between two runs; None if none reached it."""
    good, first = _good(runs, accuracy)
    if first is None:
        return None
    if first == 0:
        return good[0]["cpu_s"]
    before, after = good[first - 1], good[first]
    share = np.log(before["error"] / accuracy) / np.log(before["error"] / after["error"])
    return float(before["cpu_s"] * (after["cpu_s"] / before["cpu_s"]) ** share)


def steps_to_reach(runs: list[dict], accuracy: float) -> int:
    """Steps of the first run that reached an error."""
    good, first = _good(runs, accuracy)
    assert first is not None
    return good[first]["steps"]


def reached(runs: dict[str, list[dict]]) -> dict[str, dict[str, float | None]]:
    """CPU time (s) of each method for each accuracy."""
    return {
        f"{accuracy:g}": {name: seconds_to_reach(series, accuracy) for name, series in runs.items()}
        for accuracy in ACCURACIES
    }


def cheapest(times: dict[str, float | None]) -> list[str]:
    """The methods that reached an accuracy, the fastest first."""
    return sorted((n for n, t in times.items() if t is not None), key=lambda n: times[n] or 0.0)


def report(results: dict) -> None:
    """Print what each run came to, and the tables of the page."""
    for name, case in results["runs"].items():
        print(f"\n{name}: setting, steps, CPU time (ms), error")
        for method, runs in case.items():
            print(f"  {method}")
            for run in runs:
                end = f"{run['error']:.1e}" if run["failure"] is None else run["failure"]
                print(f"    {run['setting']!s:8} {run['steps']:7} {1e3 * run['cpu_s']:9.2f}  {end}")
    reached = results["seconds_to_reach"]
    heads = ("", *(f"{accuracy:g}" for accuracy in ACCURACIES))
    rows = (
        (name, *(_fastest(results["runs"][name], *entry) for entry in accuracies.items()))
        for name, accuracies in reached.items()
    )
    print("", *_report.table(heads, rows), sep="\n")
    rows = (
        (
            method,
            *(_cell(runs[method], reached[name]["1e-06"][method])
              for name, runs in results["runs"].items()),
        )
        for method in METHODS
    )  # fmt: skip
    print("", *_report.table(("", *reached), rows), sep="\n")


def _fastest(runs: dict[str, list[dict]], accuracy: str, times: dict[str, float | None]) -> str:
    names = cheapest(times)
    if not names:
        return MISSED
    best = names[0]
    steps = steps_to_reach(runs[best], float(accuracy))
    return f"{best}, {_milliseconds(times[best])} ({steps})"


def _milliseconds(seconds: float | None) -> str:
    return MISSED if seconds is None else f"{float(f'{1e3 * seconds:.2g}'):g}"


# Marks of the second table: no run was accurate in time, none came to its end, none was made.
MISSED, FAILED, LEFT_OUT = "–", "×", "·"


def _cell(runs: list[dict], seconds: float | None) -> str:
    if not runs:
        return LEFT_OUT
    if all(run["error"] is None for run in runs):
        return FAILED
    return _milliseconds(seconds)


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and the picture."""
    results: dict = {"runs": {}, "seconds_to_reach": {}}
    for name, case in CASES.items():
        begin = time.perf_counter()
        measured = {label: measure(case, method) for label, method in METHODS.items()}
        results["runs"][name] = measured
        results["seconds_to_reach"][name] = reached(measured)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    _report.write_json(folder / "results.json", results, ascii=False)
    report(results)
    plots.work(results["runs"], folder / "work.png")
