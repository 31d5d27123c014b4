"""The optimal control problem in discrete time, checked, and its states in local coordinates."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from lie_jax import checks
from lie_jax.integrators import one_step
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.simulation import checks as simulation
from lie_jax.simulation.simulate import simulate
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, snapshots

Inputs = Float[Array, "steps nu"]


class ControlProblem(eqx.Module):
    """Minimise Σ dt running(t, q, v, u) + final(q, v) subject to conditions and limits on u.

    The sum goes over the steps, with the state at the start of each; the inputs u are held over it.
    Conditions: end(q, v) = 0 at the last state, inequalities(t, q, v, u) <= 0 after each step.
    """

    system: AbstractSystem
    integrator: AbstractIntegrator
    state: State
    dt: Float[Array, ""]
    lower: Float[Array, " nu"]
    upper: Float[Array, " nu"]
    running: Callable
    final: Callable | None = None
    end: Callable | None = None
    inequalities: Callable | None = None

    def step(self, k: Array, state: State, u: Array) -> State:
        """State after step k."""
        t = k.astype(self.dt.dtype) * self.dt
        # The carry of a one-step method is at most a start value: each step makes a new one.
        carry = self.integrator.init(self.system, t, self.dt, state, u)
        return self.integrator.step(self.system, t, self.dt, state, carry, u).state

    def step_cost(self, k: Array, state: State, u: Array) -> Array:
        """Cost of step k."""
        t = k.astype(self.dt.dtype) * self.dt
        return self.dt * self.running(t, state.q, state.v, u)

    def final_cost(self, state: State) -> Array:
        """Cost of the last state."""
        if self.final is None:
            return jnp.zeros((), state.q.dtype)
        return self.final(state.q, state.v)

    def end_values(self, state: State) -> Float[Array, " ends"]:
        """Values of the end conditions, zero at a solution."""
        if self.end is None:
            return jnp.zeros(0, state.q.dtype)
        return self.end(state.q, state.v).reshape(-1)

    def inequality_values(self, k: Array, after: State, u: Array) -> Float[Array, " inequalities"]:
        """Values of the inequalities at the end of step k, not positive at a solution."""
        if self.inequalities is None:
            return jnp.zeros(0, after.q.dtype)
        t = (k + 1).astype(self.dt.dtype) * self.dt
        return self.inequalities(t, after.q, after.v, u).reshape(-1)

    def trajectory(self, inputs: Inputs) -> Trajectory:
        """`Trajectory` that the inputs give, with the reason in it where a step failed."""
        return simulate(
            self.system,
            self.integrator,
            self.state,
            dt=self.dt,
            steps=inputs.shape[0],
            inputs=inputs,
            throw=False,
        )


class Options(NamedTuple):
    """Largest relative gradient and error of a converged search, and its iterations."""

    tolerance: Any
    end_tolerance: Any
    max_iterations: int


def displace(space: AbstractSpace, state: State, x: Float[Array, " n"]) -> State:
    """State at the local coordinates x = (of q, change of v) around a state."""
    return State(space.retract(state.q, x[: space.nv]), state.v + x[space.nv :])


def difference(space: AbstractSpace, state: State, other: State) -> Float[Array, " n"]:
    """Local coordinates around a state of another one; inverse of `displace`."""
    return jnp.concatenate([space.inverse_retract(state.q, other.q), other.v - state.v])


class Run(NamedTuple):
    """Inputs and the states before each step, the last state, the sum of the steps' costs, and the
    values of the inequalities after each step.
    """

    inputs: Inputs
    states: State
    last: State
    cost: Float[Array, ""]
    inequalities: Float[Array, "steps inequalities"]

    def after(self) -> State:
        """States after each step."""
        return jax.tree.map(
            lambda x, last: jnp.concatenate([x[1:], last[None]]), self.states, self.last
        )


def follow(
    problem: ControlProblem,
    state: State,
    rows: PyTree,
    first: int | Array = 0,
    control: Callable[[State, Any], Array] = lambda state, u: u,
) -> Run:
    """Run of the steps from number `first` on with inputs control(state, row), a row a step.

    The loop of `lie_jax.simulation` keeps no costs, and its inputs do not depend on the state.
    """

    def body(state, step):
        k, row = step
        u = control(state, row)
        after, cost = problem.step(k, state, u), problem.step_cost(k, state, u)
        return after, (u, state, cost, problem.inequality_values(k, after, u))

    numbers = first + jnp.arange(len(jax.tree.leaves(rows)[0]))
    # Reverse mode keeps the states alone, and computes the stages of each step again.
    body = jax.checkpoint(body, prevent_cse=False)
    last, (inputs, states, costs, values) = jax.lax.scan(body, state, (numbers, rows))
    return Run(inputs, states, last, jnp.sum(costs), values)


def make_problem(
    call: str,
    system: Any,
    integrator: Any,
    state: Any,
    inputs: Any,
    dt: Any,
    functions: tuple[Any, Any, Any, Any],
    limits: Any,
    guess: Any,
    options: Options,
) -> ControlProblem:
    """Problem of checked arguments; `functions` are running, final, end and inequalities.

    Limits hold for `guess`, the inputs or their coefficients. Raises `ValueError` for wrong ones.
    """
    checks.real(f"{call}(inputs=)", inputs)
    shape = tuple(np.shape(inputs))
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{call}(inputs=) has shape {shape}; it must have shape (steps, nu), one input vector "
            "for each step: start from jnp.zeros((steps, nu)) for example."
        )
    nu = getattr(system, "nu", None)
    if nu and nu != shape[1]:
        raise ValueError(
            f"{call}(inputs=) has shape {shape}, and the system reads {nu} inputs; it must have "
            f"shape ({shape[0]}, {nu}): give a column for each input."
        )
    simulation.check(system, integrator, state, dt, shape[0], inputs)
    if not checks.has_tracers(system, state):
        simulation.check_violations(system, state)
    one_step.check_method(f"{call}(integrator=)", integrator)
    one_step.check_group(f"{call}(integrator=)", integrator, system)
    dtype = state.q.dtype
    # `_check_functions` refuses values that are no functions.
    watched = [snapshots.watch(each) if callable(each) else each for each in functions]
    lower, upper = _limits(call, guess, limits)
    result = ControlProblem(
        system, integrator, state, jnp.asarray(dt, dtype), lower, upper, *watched
    )
    _check_functions(call, result, shape[1])
    checks.positive(f"{call}(dt=)", dt, "seconds")
    checks.positive(f"{call}(tolerance=)", options.tolerance, "relative gradient")
    checks.positive(f"{call}(end_tolerance=)", options.end_tolerance, "error of the conditions")
    iterations = options.max_iterations
    checks.positive_integer(f"{call}(max_iterations=)", iterations, "steps of the search")
    return snapshots.freeze(result)


def _limits(call: str, guess: Array, limits: Any) -> tuple[Array, Array]:
    """Lower and upper limits (nu,); raises `ValueError` for wrong ones and a guess outside."""
    dtype, nu = guess.dtype, guess.shape[1]
    if limits is None:
        unlimited = jnp.full(nu, jnp.inf, dtype)
        return -unlimited, unlimited
    if not (isinstance(limits, tuple | list) and len(limits) == 2):
        raise ValueError(
            f"{call}(limits=) is {limits!r}; it must be a pair (lower, upper) of numbers or of "
            f"arrays ({nu},)."
        )
    for side, value in zip(("lower", "upper"), limits, strict=True):
        checks.real(f"{call}(limits=): {side}", value)
        if np.shape(value) not in ((), (nu,)):
            raise ValueError(
                f"{call}(limits=): {side} has shape {np.shape(value)}; it must be one number or "
                f"have shape ({nu},): one for each input."
            )
    lower, upper = (jnp.broadcast_to(jnp.asarray(x, dtype), (nu,)) for x in limits)
    if checks.has_tracers(lower, upper):
        return lower, upper
    low, high = np.asarray(lower), np.asarray(upper)
    if not np.all(low < high):
        raise ValueError(
            f"{call}(limits=) are {low.tolist()} and {high.tolist()}; every lower limit must be "
            "below the upper one: look for a wrong sign, use -numpy.inf and numpy.inf for none."
        )
    if not checks.has_tracers(guess):
        table = np.asarray(guess)
        outside = np.argwhere((table < low) | (table > high))
        if len(outside):
            step, i = outside[0].tolist()
            raise ValueError(
                f"{call}(inputs=) has {table[step, i]:.6g} for input {i} of step {step}, outside "
                f"its limits {low[i]:.6g} to {high[i]:.6g}; start within them: use jnp.clip."
            )
    return lower, upper


def _check_functions(call: str, problem: ControlProblem, nu: int) -> None:
    q, v = problem.state.q, problem.state.v
    time, u = (jax.ShapeDtypeStruct(shape, q.dtype) for shape in ((), (nu,)))
    for option, function, arguments in (
        ("running", problem.running, (time, q, v, u)),
        ("final", problem.final, (q, v)),
        ("end", problem.end, (q, v)),
        ("inequalities", problem.inequalities, (time, q, v, u)),
    ):
        if function is None and option != "running":
            continue
        names = ("t", "q", "v", "u") if len(arguments) == 4 else ("q", "v")
        checks.function(f"{call}({option}=)", function, *names)
        with closures.refuse_numbers(f"{call}({option}=)", function, f"({', '.join(names)})"):
            value: Any = jax.eval_shape(cast(Callable, function), *arguments)
        if not hasattr(value, "shape") or value.dtype != q.dtype:
            returns = f"dtype {value.dtype}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(
                f"{call}({option}=) returns {returns}; it must return an array of {q.dtype}, the "
                "precision of the state: compute it with jax.numpy from the arguments."
            )
        if option in ("running", "final") and value.shape != ():
            raise ValueError(
                f"{call}({option}=) returns shape {value.shape}; a cost is one number: use jnp.sum."
            )
