"""Convergence studies: errors of runs with ever more steps, and the orders that they show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.multibody.arguments import check_state, check_system, input_vector
from lie_jax.numerics import jax_internals, programs, waits
from lie_jax.numerics.conversion import real_shape
from lie_jax.simulation.simulate import simulate
from lie_jax.simulation.trajectory import count_results, succeeded
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions.reader import name_of

# Steps of the reference over those of the finest run: with an eighth of the step an error of second
# order falls to 2 %, one of fourth order to 0.02 %.
_FINER = 8
# Runs whose errors give the observed order.
_FITTED = 3
# An error of fewer roundings of the numbers, times the root of the number of steps, has no order.
_ROUNDINGS = 30.0


class Convergence(eqx.Module):
    """Errors at the end of runs with several numbers of steps, by the names of their integrators.

    - `steps` (n,): numbers of steps, ascending; `dt` (n,): step sizes, s.
    - `configuration_errors[name]` (n,): norms of the increments from the reference to the ends of
      the runs, with components of velocities (m and rad together); `velocity_errors[name]` (n,):
      norms of the differences of velocities. NaN for runs that failed.
    - `configuration_orders[name]`, `velocity_orders[name]`: orders by least squares of the three
      finest runs that succeeded, without errors that rounding or a tolerance holds up; NaN without
      two of them.
    - `failures[name]`: names of the `Result` of runs that failed, by their numbers of steps.
    - `reference`: the `State` at the end that counts as exact.
    """

    steps: Int[np.ndarray, " n"]
    dt: Float[np.ndarray, " n"]
    configuration_errors: dict[str, np.ndarray]
    velocity_errors: dict[str, np.ndarray]
    configuration_orders: dict[str, float]
    velocity_orders: dict[str, float]
    failures: dict[str, dict[int, str]] = eqx.field(static=True)
    reference: State

    def __str__(self):
        lines = []
        for name, errors in self.configuration_errors.items():
            rates = self.velocity_errors[name]
            order, order_of_rates = self.configuration_orders[name], self.velocity_orders[name]
            lines.append(
                f"{name}: order {order:.2f} in configuration, {order_of_rates:.2f} in velocity"
            )
            lines.append(f"{'steps':>9}{'dt / s':>11}{'error of q':>13}{'error of v':>13}")
            for steps, dt, *numbers in zip(self.steps, self.dt, errors, rates, strict=True):
                failure = self.failures[name].get(int(steps))
                shown = f"  {failure}" if failure else "".join(f"{x:13.3e}" for x in numbers)
                lines.append(f"{steps:9d}{dt:11.3e}{shown}")
        return "\n".join(lines)


class _End(NamedTuple):
    """State at the end of a run, and the name of its result if it failed."""

    state: State
    failure: str | None


@waits.announce("the convergence study")
def convergence(
    system: AbstractSystem,
    integrators: AbstractIntegrator
    | Mapping[str, AbstractIntegrator]
    | Sequence[AbstractIntegrator],
    state: State,
    t_end: ArrayLike,
    steps: Sequence[int],
    *,
    inputs: ArrayLike | None = None,
    reference: State | None = None,
) -> Convergence:
    """Run integrators with several numbers of steps and compare the ends of their runs.

    **Arguments:**

    - `system`: from `lie_jax.assemble`, or an `AbstractSystem` of your own; `state`: its `State` at
      time 0.
    - `integrators`: one, a list of them, or a dictionary by the names that the table shows.
    - `t_end`: time of the end, s. `steps`: at least two numbers of steps from 0 to `t_end`.
    - `inputs`: (nu,), those of motors and loads, held over all runs. Loads that change with time
      are functions of it in the forces: steps would hold their samples, the coarser the longer.
    - `reference`: the exact state at `t_end`. By default it is the end of a run with eight times as
      many steps as the finest, by the integrator whose two finest runs differ least.

    **Returns** a `Convergence`: `print` shows it as a table, `lie_jax.viz.convergence` draws it.
    Each integrator compiles once. Runs that fail, unstable ones of explicit methods for example,
    are named in `failures`.

    Raises `ValueError` as `simulate` does, for numbers of steps that are no two different ones, and
    where no integrator has two successful runs to find a reference from; `SimulationError` if the
    run of the reference fails.
    """
    named, counts = _check(system, integrators, state, t_end, steps, reference)
    u = _constant_inputs(system, inputs, state)
    duration = float(np.asarray(t_end))

    def end(integrator: AbstractIntegrator, number: int, throw: bool = False) -> _End:
        options = {"steps": number, "save": number, "throw": throw}
        rows = None if u is None else jnp.broadcast_to(u, (number, *u.shape))
        run = simulate(system, integrator, state, dt=duration / number, inputs=rows, **options)
        (name,) = count_results(run.result)
        return _End(State(run.q[-1], run.v[-1]), None if succeeded(run.result) else name)

    ends = {name: [end(each, number) for number in counts] for name, each in named.items()}
    if reference is None:
        best = _most_accurate(system, counts, ends)
        reference = end(named[best], _FINER * counts[-1], throw=True).state
    exact = jax.tree.map(jnp.asarray, reference)
    errors = {
        name: np.asarray([_distance(system, exact, x) for x in row]).T for name, row in ends.items()
    }
    floors = [
        _ROUNDINGS * np.finfo(x.dtype).eps * max(1.0, float(np.max(np.abs(x), initial=0.0)))
        for x in map(np.asarray, (exact.q, exact.v))
    ]
    numbers = np.asarray(counts)
    orders = {
        name: [_order(numbers, x, floor) for x, floor in zip(both, floors, strict=True)]
        for name, both in errors.items()
    }
    return Convergence(
        steps=numbers,
        dt=duration / numbers,
        configuration_errors={name: both[0] for name, both in errors.items()},
        velocity_errors={name: both[1] for name, both in errors.items()},
        configuration_orders={name: both[0] for name, both in orders.items()},
        velocity_orders={name: both[1] for name, both in orders.items()},
        failures={
            name: {n: x.failure for n, x in zip(counts, row, strict=True) if x.failure}
            for name, row in ends.items()
        },
        reference=reference,
    )


def _most_accurate(system: AbstractSystem, counts: list[int], ends: dict[str, list[_End]]) -> str:
    """Name of the integrator whose two finest runs differ least."""
    differences = {}
    for name, row in ends.items():
        fine = [x for x in row if not x.failure]
        if len(fine) > 1:
            differences[name] = sum(_distance(system, fine[-1].state, fine[-2]))
    if not differences:
        results = "; ".join(
            f"{name}: " + ", ".join(f"{n} steps {x.failure or 'successful'}" for n, x in row)
            for name, row in ((name, zip(counts, row, strict=True)) for name, row in ends.items())
        )
        raise ValueError(
            f"convergence(steps=): no integrator has two runs that succeed ({results}), and the "
            "reference must come from one: take more steps, or give the exact state as reference=."
        )
    return min(differences, key=differences.__getitem__)


def _distance(system: AbstractSystem, exact: State, end: _End) -> tuple[float, float]:
    """Norms of the differences of configurations and of velocities; NaN for a run that failed."""
    if end.failure:
        return np.nan, np.nan
    q, v = _norms(system, exact, end.state)
    return float(q), float(v)


@programs.run_once
def _norms(system: AbstractSystem, exact: State, state: State) -> tuple[Array, Array]:
    increment = system.space.inverse_retract(exact.q, state.q)
    return jnp.linalg.norm(increment), jnp.linalg.norm(state.v - exact.v)


def _order(steps: np.ndarray, errors: np.ndarray, floor: float) -> float:
    """Slope of the finest runs in a logarithmic diagram, by least squares; NaN without two of them.

    Errors below a floor for one step show none, nor do the last ones where they no longer fall. The
    coarsest runs often do not show the order yet.
    """
    known = errors > floor * np.sqrt(steps)
    h, e = -np.log(steps[known]), np.log(errors[known])
    if len(h) < 2:
        return np.nan
    rates = np.diff(e) / np.diff(h)
    usual = float(np.median(rates))
    falling = np.flatnonzero(rates >= min(usual, 0.5 * usual))
    end = int(falling[-1]) + 2
    finest = slice(max(0, end - _FITTED), end)
    return float(np.polyfit(h[finest], e[finest], 1)[0])


def _check(
    system: Any, integrators: Any, state: Any, t_end: Any, steps: Any, reference: Any
) -> tuple[dict[str, AbstractIntegrator], list[int]]:
    """Integrators by their names, and numbers of steps in ascending order."""
    if checks.has_tracers(system, state, t_end) or not jax_internals.traces_nothing():
        raise ValueError(
            "convergence(system=) is traced by JAX, and a study reads its numbers: call it outside "
            "of jax.jit and other transformations."
        )
    checks.positive("convergence(t_end=)", t_end, "s")
    counts = list(steps) if isinstance(steps, Sequence | np.ndarray) else [steps]
    for number in counts:
        checks.positive_integer("convergence(steps=)", number, "numbers of steps, ascending")
    if len(set(counts)) < 2:
        raise ValueError(
            f"convergence(steps=) is {steps!r}; it must be at least two different numbers of "
            "steps, for example [50, 100, 200]."
        )
    check_system("convergence(system=)", system)
    check_state("convergence(state=)", state)
    if reference is not None:
        check_state("convergence(reference=)", reference)
        checks.shape("convergence(reference=).q", reference.q, (system.nq,), "its coordinates")
        checks.shape("convergence(reference=).v", reference.v, (system.nv,), "its velocities")
        checks.finite("convergence(reference=).q", reference.q)
        checks.finite("convergence(reference=).v", reference.v)
    return _name_integrators(integrators), sorted({int(number) for number in counts})


def _constant_inputs(system: AbstractSystem, inputs: Any, state: State) -> Array | None:
    """Inputs (nu,) that all runs hold."""
    is_function = callable(inputs)
    if is_function or len(real_shape(inputs) or ()) == 2:
        given = f"is the function {name_of(inputs)}" if is_function else "has a row for each step"
        raise ValueError(
            f"convergence(inputs=) {given}; it must be one input vector "
            f"({system.nu or 'nu'},), held over all runs: inputs that steps hold are others for "
            "each number of steps. Loads that change are functions of time in the forces, such as "
            "lie_jax.Torque(body, lambda t: ...)."
        )
    return input_vector("convergence(inputs=)", inputs, system, state.q.dtype)


def _name_integrators(integrators: Any) -> dict[str, AbstractIntegrator]:
    """Integrators by names: of their types, and of the fields in which those of a type differ."""
    if isinstance(integrators, str) or not isinstance(integrators, Iterable):
        integrators = [integrators]
    is_dictionary = isinstance(integrators, Mapping)
    members = list(integrators.values() if is_dictionary else integrators)
    for each in members:
        if not isinstance(each, AbstractIntegrator):
            raise ValueError(
                f"convergence(integrators=) holds {each!r}; it must hold integrators, for example "
                "{'RK4': lie_jax.RKMK('rk4'), 'BDF': lie_jax.BDF(3)}."
            )
    names = list(integrators) if is_dictionary else [_name(each, members) for each in members]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"convergence(integrators=) holds {', '.join(names) or 'nothing'}; it must hold "
            "different integrators: give each of them once."
        )
    return dict(zip(names, members, strict=True))


def _name(integrator: AbstractIntegrator, others: list[AbstractIntegrator]) -> str:
    alike = [x for x in others if type(x) is type(integrator)]
    values = {x.name: [getattr(each, x.name) for each in alike] for x in fields(integrator)}
    different = [name for name, of in values.items() if any(x != of[0] for x in of)]
    told = ", ".join(f"{name}={getattr(integrator, name)!r}" for name in different)
    return f"{type(integrator).__name__}({told})" if told else type(integrator).__name__
