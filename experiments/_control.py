"""Parts of the experiments on optimal control: two methods, their agreement, tables, pictures."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from matplotlib.axes import Axes

import lie_jax
from experiments import _plots
from lie_jax import control

INTEGRATOR = lie_jax.RKMK("rk4")
# Methods in tables: `ilqr` and `solve`.
NAMES = ("iLQR", "interior points")


class Task(NamedTuple):
    """Minimise Σ dt running(t, q, v, u) so that end(q, v) = 0, with u between limits if given."""

    system: lie_jax.extend.AbstractMultibodySystem
    state: lie_jax.State
    dt: float
    running: Callable
    end: Callable
    limits: Any = None


def by_ilqr(task: Task, guess: Float[Array, "steps nu"], **options) -> control.Solution:
    """The optimum by iLQR."""
    return control.ilqr(
        task.system,
        INTEGRATOR,
        task.state,
        guess,
        dt=task.dt,
        running=task.running,
        end=task.end,
        limits=task.limits,
        **options,
    )


def by_nodes(task: Task, steps: int, guess: control.Guess) -> control.Optimum:
    """The optimum by interior points with the states of all steps as unknowns."""
    phase = control.Phase(
        task.system,
        INTEGRATOR,
        steps=steps,
        duration=task.dt * steps,
        running=task.running,
        end=task.end,
        limits=task.limits,
    )
    return control.solve(phase, task.state, guess=guess)


def run(task: Task, inputs: ArrayLike) -> lie_jax.Trajectory:
    """The motion of given inputs (steps, nu)."""
    inputs = jnp.asarray(inputs)
    return lie_jax.simulate(
        task.system,
        INTEGRATOR,
        task.state,
        dt=task.dt,
        steps=len(inputs),
        inputs=inputs,
    )


def step_error(task: Task, solution: control.Solution) -> float:
    """Distance of the last state from that of half steps: largest local coordinate."""
    inputs = jnp.repeat(solution.inputs, 2, axis=0)
    finer = lie_jax.simulate(
        task.system,
        INTEGRATOR,
        task.state,
        dt=0.5 * task.dt,
        steps=inputs.shape[0],
        inputs=inputs,
        save=inputs.shape[0],
    )
    q, v = solution.trajectory.q[-1], solution.trajectory.v[-1]
    apart = jax.jit(task.system.space.inverse_retract)(q, finer.q[-1])
    return float(np.max(np.abs(np.concatenate([apart, finer.v[-1] - v]))))


def numbers(solution: control.Solution | control.Optimum) -> dict[str, Any]:
    """Final numbers of a method."""
    return {
        "cost": float(solution.cost),
        "gradient_norm": float(solution.gradient_norm),
        "violation": float(solution.violation),
        "iterations": int(solution.iterations),
        "converged": bool(solution.converged),
    }


def checked(task: Task, first: control.Solution, second: control.Optimum) -> dict[str, Any]:
    """Numbers of two solutions and how well they agree; prints them."""
    size = float(np.max(np.abs(first.inputs)))
    result = {
        "methods": {
            name: numbers(solution) for name, solution in zip(NAMES, (first, second), strict=True)
        },
        "cost_difference": abs(float(first.cost) - float(second.cost)) / float(first.cost),
        "input_difference": float(np.max(np.abs(first.inputs - second.inputs))) / size,
        "step_error": step_error(task, first),
    }
    print(f"{'':20}{'cost':>14}{'gradient':>12}{'violation':>12}{'iterations':>12}")
    for name, row in result["methods"].items():
        print(
            f"{name:20}{row['cost']:14.8f}{row['gradient_norm']:12.1e}{row['violation']:12.1e}"
            f"{row['iterations']:12}" + ("" if row["converged"] else "  not converged")
        )
    print(
        f"costs differ by {result['cost_difference']:.1e}, inputs by "
        f"{result['input_difference']:.1e} of the largest; half steps end "
        f"{result['step_error']:.1e} away"
    )
    return result


def stairs(axes: Axes, inputs: np.ndarray, dt: float, names: Mapping[int, str]) -> None:
    """Draw inputs (steps, nu) as they are held, those whose numbers have names."""
    times = dt * np.arange(len(inputs) + 1)
    for number, name in names.items():
        axes.stairs(inputs[:, number], times, baseline=None, label=name, lw=1.5)


def history(axes: Axes, solution: control.Solution, other: control.Optimum) -> None:
    """Draw the relative gradient and the end values over the iterations."""
    own = solution.history
    rows = (own.gradient_norm, own.violation), np.asarray(other.history).T[1:]
    for name, (norm, violation) in zip(NAMES, rows, strict=True):
        # Where nothing costs and no multiplier pulls yet, the gradient is zero.
        norm = np.where(np.asarray(norm) > 0.0, norm, np.nan)
        (line,) = axes.semilogy(norm, label=f"gradient, {name}")
        axes.semilogy(violation, "--", color=line.get_color(), label=f"violation, {name}")
    axes.set(xlabel="iteration", ylabel="relative gradient, violation", title="search")
    axes.legend(fontsize=8)


def figure(title: str) -> tuple[Any, np.ndarray]:
    """Four axes under a title."""
    picture, axes = _plots.plt.subplots(2, 2, figsize=(10.0, 6.5))
    picture.suptitle(title)
    return picture, axes.reshape(-1)
