"""Errors, orders, drifts, iterations and costs of one case."""

import itertools

import numpy as np

import lie_jax
from experiments._constrained_groups.cases import PROGRAMS, Case, method
from experiments._constrained_groups.runs import Program, Seen, seen, step_costs

# Explicit, of order 6 and on the constraints: another kind than the methods that are compared.
REFERENCE_METHOD = lie_jax.RKMK("rk67", stabilization=lie_jax.Projection())


def reference(case: Case) -> tuple[Seen, float]:
    """Every instant of the smallest step, and its error against the model's reference."""
    system, state = case.build(lie_jax.R3SO3())
    steps = case.step_counts[-1]
    integrator = REFERENCE_METHOD if system.nc else lie_jax.RKMK("rk67")
    program = Program(system, integrator, state, steps)
    truth = seen(program, case.observe, program.run(case.seconds / steps, steps), steps)
    return truth, _norm(truth.observed[-1] - np.asarray(case.references[case.seconds]))


def _norm(x) -> float:
    return float(np.linalg.norm(x))


def _largest(difference: np.ndarray) -> float:
    return float(np.max(np.abs(difference), initial=0.0))


_FIELDS = ("observed", "twists", "multipliers")
# Steps that count as the first ones.
_FIRST = 10
# Steps after a switch in which what it excites is seen and decays.
_AFTER = 40
_TENTHS = 10


def measure(case: Case, truth: Seen) -> dict[str, dict]:
    """Figures of all programs of a case. Errors of a field are the largest of all instants."""
    results, programs = {}, {}
    for name in case.programs:
        formulation, options = PROGRAMS[name]
        system, state = case.build(formulation)
        program = programs[name] = Program(system, method(**options), state, case.step_counts[-1])
        results[name] = _errors(case, program, truth)
    for name, cost in step_costs(programs, case.seconds / case.step_counts[-1], 200).items():
        results[name]["step_us"] = cost
    if "unified" in programs:
        _compare_unified(case, programs, results)
    return results


def _errors(case: Case, program: Program, truth: Seen) -> dict:
    figures: dict[str, list] = {
        "h": [case.seconds / n for n in case.step_counts],
        "end": [],
        "iterations": [],
        "drift": [],
        "rate_drift": [],
        **{field: [] for field in _FIELDS},
        "first_multipliers": [],
        "switched_multipliers": [],
        "worst_multipliers_t": [],
    }
    for steps in case.step_counts:
        recording = program.run(case.seconds / steps, steps)
        run = seen(program, case.observe, recording, steps)
        stride = case.step_counts[-1] // steps
        figures["end"].append(_norm(run.observed[-1] - np.asarray(case.references[case.seconds])))
        figures["iterations"].append(int(recording.iterations) / steps)
        figures["drift"].append(_largest(run.drift))
        figures["rate_drift"].append(_largest(run.rate_drift))
        for field in _FIELDS:
            difference = getattr(run, field) - getattr(truth, field)[::stride]
            figures[field].append(_largest(difference))
        if run.multipliers.size:
            off = np.max(np.abs(run.multipliers - truth.multipliers[::stride]), axis=1)
            figures["first_multipliers"].append(_largest(off[: _FIRST + 1]))
            if case.switch is not None:
                switch = round(case.switch / case.seconds * steps)
                figures["switched_multipliers"].append(_largest(off[switch:][: _AFTER + 1]))
            figures["worst_multipliers_t"].append(float(np.argmax(off) * case.seconds / steps))
    for field in ("end", *_FIELDS, "first_multipliers", "switched_multipliers", "rate_drift"):
        figures["order_" + field] = _orders(figures[field])
    return figures


def _orders(errors) -> list[float]:
    """log₂ of each error over that of half the step, where there is any."""
    pairs = itertools.pairwise(errors)
    return [float(np.log2(a / b)) if a > 0.0 and b > 0.0 else float("nan") for a, b in pairs]


def _compare_unified(case: Case, programs: dict[str, Program], results: dict) -> None:
    """The largest distance of unified velocities from SE(3) at any instant, of all fields."""
    steps = case.step_counts[0]
    runs = [
        seen(programs[name], case.observe, programs[name].run(case.seconds / steps, steps), steps)
        for name in ("unified", "SE(3) exp")
    ]
    results["unified"]["minus_se3"] = {
        field: _largest(getattr(runs[0], field) - getattr(runs[1], field)) for field in _FIELDS
    }


def extrapolated(case: Case) -> dict:
    """Errors at the end against the model's reference after extrapolation in h.

    Runs of h, h/2, h/4 ... are combined so that the terms h², then h³, vanish: what is left tells
    whether the error has an expansion in powers of h, and how small it can be made.
    """
    system, state = case.build(lie_jax.R3SO3())
    program = Program(system, method(), state, case.step_counts[-1])
    columns = []
    for steps in case.fine_counts:
        recording = program.run(case.seconds / steps, steps, steps // _TENTHS)
        columns.append(seen(program, case.observe, recording, _TENTHS).observed)
    values, table = np.asarray(columns), {}
    table["h²"] = values
    for power, name in ((2, "h³"), (3, "h⁴")):
        values = values[1:] + (values[1:] - values[:-1]) / (2**power - 1)
        table[name] = values
    results = {}
    for t, expected in case.references.items():
        place = round(_TENTHS * t / case.seconds)
        errors = {
            name: [_norm(x[place] - np.asarray(expected)) for x in rows]
            for name, rows in table.items()
        }
        results[str(t)] = {
            "h": [case.seconds / n for n in case.fine_counts],
            "errors": errors,
            "orders": {name: _orders(e) for name, e in errors.items()},
            "reached": min(min(e) for e in errors.values()),
        }
    return results
