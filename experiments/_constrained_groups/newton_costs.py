"""Costs of ways to the iteration matrix of Newton's method."""

import lie_jax
from experiments._constrained_groups.cases import method
from experiments._constrained_groups.runs import Program, step_costs
from models import chain, puma560, slider_crank

SYSTEMS = {
    "chain, n = 1": (lambda: chain.build(n=1), 1e-3),
    "chain, n = 4": (lambda: chain.build(n=4), 1e-3),
    "chain, n = 12": (lambda: chain.build(n=12), 1e-3),
    "slider-crank": (slider_crank.build, 1e-3),
    "Puma 560": (puma560.build, 1e-3),
}
_STEPS = 100


def ways(system) -> dict[tuple[str, str, bool], lie_jax.GeneralizedAlpha]:
    """Methods by kind of Jacobian, of Newton's method, and whether with the tangent operator."""
    jacobians = ("autodiff", "analytic") if hasattr(system, "linearization") else ("autodiff",)
    return {
        (jacobian, newton, operator): method(
            jacobian=jacobian, newton=newton, tangent_operator=operator
        )
        for jacobian in jacobians
        for newton in ("full", "modified")
        for operator in (True, False)
    }


def measure() -> dict[str, dict[str, dict]]:
    """CPU time of a step (µs) and iterations a step of each way on each system."""
    results = {}
    for name, (build, dt) in SYSTEMS.items():
        system, state = build()
        programs = {
            key: Program(system, integrator, state, 1) for key, integrator in ways(system).items()
        }
        counts = {
            key: int(program.run(dt, _STEPS, _STEPS).iterations) / _STEPS
            for key, program in programs.items()
        }
        costs = step_costs(programs, dt, _STEPS)
        results[name] = {
            label(*key): {"step_us": costs[key], "iterations": counts[key]} for key in programs
        }
    return results


def label(jacobian: str, newton: str, operator: bool) -> str:
    """A way in words."""
    return f"{jacobian}, {newton}, {'T' if operator else 'no T'}"
