"""Numbers of the comparison of integrators support the page's advice."""

import pytest

from experiments import integrators
from tests.results import numbers_of

pytestmark = pytest.mark.full

EXPLICIT = ("RKMK rk4", "RKMK dopri5, automatic")
SECOND_ORDER = ("RATTLie", "generalized-α", "generalized-α, automatic", "BDF 2, automatic")
# Times vary with the machine by less; the factors here are 3.3 and more.
CLEARLY = 2.0


def _best(times, names):
    return min((times[name] for name in names if times[name] is not None), default=float("inf"))


def test_which_method_for_what():
    folder, results = numbers_of(integrators, "results.json")
    reached, runs = results["seconds_to_reach"], results["runs"]
    implicit = [name for name in integrators.METHODS if name not in EXPLICIT]
    # Where nothing is faster than the motion, explicit methods are the cheapest.
    for system in ("heavy top", "slider-crank", "squeezer", "rotor"):
        times = reached[system]["1e-06"]
        assert CLEARLY * _best(times, EXPLICIT) < _best(times, implicit), system
    # Where the motion follows commands, large steps do.
    times = reached["Puma 560"]["1e-06"]
    assert _best(times, ("generalized-α",)) < _best(times, EXPLICIT)
    by_steps = {run["setting"]: run for run in runs["Puma 560"]["RKMK rk4"]}
    assert by_steps[800]["failure"] == "unstable"
    assert by_steps[1600]["error"] < 1e-7
    # Where dampers are stiff, BDF.
    for accuracy in ("1e-06", "1e-09"):
        times = reached["governor"][accuracy]
        others = [name for name in integrators.METHODS if name != "BDF 5, automatic"]
        assert CLEARLY * _best(times, ("BDF 5, automatic",)) < _best(times, others), accuracy
    # Smaller tolerances cost an explicit method no steps there.
    counts = [run["steps"] for run in runs["governor"]["RKMK dopri5, automatic"][:3]]
    assert max(counts) < 1.01 * min(counts)
    assert max(run["steps"] for run in runs["governor"]["BDF 5, automatic"][:3]) < 0.05 * min(
        counts
    )
    # Order 2 is for few digits; composed, RATTLie reaches more.
    for system in ("heavy top", "slider-crank", "rotor", "governor"):
        assert all(reached[system]["1e-09"][name] is None for name in SECOND_ORDER), system
    for system in ("heavy top", "slider-crank"):
        times = reached[system]["1e-06"]
        assert CLEARLY * times["RATTLie, order 4"] < times["RATTLie"], system
    assert (folder / "work.png").stat().st_size > 10_000


def test_the_governor():
    _, results = numbers_of(integrators, "results.json")
    at_tolerance = {
        name: run
        for name, runs in results["runs"]["governor"].items()
        for run in runs
        if run["setting"] == GOVERNOR_TOLERANCE
    }
    # Each step may err by its tolerance, and errors of the oscillation add up.
    for name, run in at_tolerance.items():
        assert run["error"] < run["steps"] * GOVERNOR_TOLERANCE, name
    # An explicit method takes several times the steps of every method that is stiffly stable.
    explicit = at_tolerance.pop("RKMK dopri5, automatic")
    assert all(5 * run["steps"] < explicit["steps"] for run in at_tolerance.values())


GOVERNOR_TOLERANCE = 1e-6
