"""Numbers of the comparison on the fifteen systems support the claims of its page."""

import pytest

from experiments import fifteen_systems
from experiments._fifteen_systems import tables
from experiments._fifteen_systems.cases import CASES
from tests.results import numbers_of

pytestmark = pytest.mark.full

# Between two numbers of steps, of errors that are far from rounding and from too few steps.
SLACK = 0.5
# Stiff: its fast oscillations are below the errors of all orders.
STIFF = "governor with compliant joints"


@pytest.fixture(scope="module")
def results():
    return numbers_of(fifteen_systems, "results.json")


def test_all_rows_are_filled(results):
    folder, numbers = results
    assert set(numbers["systems"]) == set(CASES)
    rows = {case.number.rstrip("ab") for case in CASES.values()}
    assert rows == {str(number) for number in range(1, 16)}
    for picture in ("integrators.png", "formulations.png"):
        assert (folder / picture).stat().st_size > 10_000


@pytest.mark.parametrize("name", CASES)
def test_a_method_reaches_the_reference(results, name):
    error, method = tables.best(results[1]["systems"][name])
    assert error < 1e-10, method


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(results, name):
    assert results[1]["systems"][name]["gradient"] < 1e-8


@pytest.mark.parametrize("name", [name for name in CASES if name != STIFF])
def test_orders(results, name):
    runs = results[1]["systems"][name]["runs"]["R3SO3"]
    for label, method in fifteen_systems.METHODS.items():
        if isinstance(runs[label], str):
            assert "constraints" in runs[label], label
            continue
        order = tables.order(runs[label])
        if order is None:
            # The second run has come to rounding.
            assert runs[label][1]["error"] <= 1e-11, label
            continue
        # Errors of several orders may cancel, and then fall faster.
        assert order > method.order - SLACK, label


def test_se3_holds_joints_to_the_ground_and_no_others(results):
    gaps = results[1]["drift"]
    top = gaps["heavy top, constrained"]
    assert top["SE3"] < 1e-12 < 1e-6 < top["R3SO3"]
    for name in ("floating bodies, ball joint", "floating bodies, hinge"):
        assert 0.3 < gaps[name]["SE3"] / gaps[name]["R3SO3"] < 3.0
