"""Results of optimal control."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.control import conditions
from lie_jax.control.conditions import Conditions
from lie_jax.control.problem import Options
from lie_jax.simulation.trajectory import Trajectory
from lie_jax.user_functions import libraries


class History(NamedTuple):
    """`cost`, `gradient_norm` and `violation` (iterates,) of a search, as in `Solution`.

    The first guess is the first iterate; entries after the last one are NaN.
    """

    cost: Float[Array, "*batch iterates"]
    gradient_norm: Float[Array, "*batch iterates"]
    violation: Float[Array, "*batch iterates"]


class Solution(eqx.Module):
    """An optimal control, or the best inputs of a search that has not converged.

    - `inputs`: (steps, nu), held over each step. `trajectory`: the `Trajectory` they give.
    - `unknowns`: the inputs, or the coefficients of a spline.
    - `cost`: the sum that was minimised, without any penalty.
    - `gradient_norm`: largest entry of the gradient of cost + multipliers · conditions by the
      unknowns that no limit holds, relative to the terms that cancel in it; zero at an optimum.
    - `violation`: largest absolute end value, inequality above zero, or distance from zero of an
      inequality with a multiplier (and, between nodes, the largest gap).
    - `multipliers`: (ends,), derivative of the cost by each end value, with the opposite sign;
      `inequality_multipliers`: (steps, inequalities), not negative, zero where one is not active.
    - `gains`: (steps, nu, 2 nv), the feedback: inputs + gains @ (local coordinates of q, v - v̄)
      around the trajectory; None if the method has none.
    - `iterations`, `history`; `converged`: whether gradient and violation met their tolerances.
    """

    inputs: Float[Array, "..."]
    unknowns: Float[Array, "..."]
    trajectory: Trajectory
    cost: Float[Array, "..."]
    gradient_norm: Float[Array, "..."]
    violation: Float[Array, "..."]
    multipliers: Float[Array, "..."]
    inequality_multipliers: Float[Array, "..."]
    gains: Float[Array, "..."] | None
    iterations: Int[Array, "..."]
    history: History
    converged: Bool[Array, "..."]


def warn_unless_converged(
    call: str, solution: Solution, values: Conditions, options: Options, slow: str, unmet: str
) -> None:
    """Warn if the search has not converged; silent where JAX traces.

    `slow` is the remedy for a gradient that is too large, `unmet` that for a violation.
    """
    if checks.has_tracers(solution.converged) or bool(solution.converged):
        return
    iterations, norm, violation = (
        x.item() for x in (solution.iterations, solution.gradient_norm, solution.violation)
    )
    missed, remedies = [], []
    if not np.isfinite([solution.cost, norm, violation]).all():
        if np.isfinite(solution.trajectory.q).all() and np.isfinite(solution.trajectory.v).all():
            missed += ["a cost, a condition or a derivative of them is not finite"]
            remedies += ["avoid roots, logarithms and quotients of zero in your functions"]
        else:
            missed += ["the motion of the inputs is not finite"]
        remedies += ["start from other inputs, or take smaller steps"]
    if norm > options.tolerance:
        missed += [f"gradient_norm is {norm:.2g} (tolerance={options.tolerance:.2g})"]
        remedies += [slow]
    if violation > options.end_tolerance:
        where = _largest_error(solution, values)
        missed += [
            f"violation is {violation:.2g} (end_tolerance={options.end_tolerance:.2g}){where}"
        ]
        exclusive = "loosen conditions that exclude each other within these steps"
        # A search that is optimal but for the conditions has hardly a way to go on.
        is_optimal = norm <= options.tolerance
        remedies += [exclusive, unmet] if is_optimal else [unmet, exclusive]
    if iterations >= options.max_iterations:
        more = f"raise max_iterations={options.max_iterations}"
        remedies = [*remedies, more] if norm <= options.tolerance else [more, *remedies]
    advice = ", or ".join(dict.fromkeys(remedies))
    libraries.warn(
        f"{call}: not converged, iterations: {iterations}; {' and '.join(missed)}: {advice}. "
        "`inputs` are the best that were computed.",
    )


def _largest_error(solution: Solution, values: Conditions) -> str:
    """Place of the violation."""
    multipliers = Conditions(solution.multipliers, solution.inequality_multipliers)
    ends, inequalities = (np.asarray(x) for x in conditions.errors(values, multipliers))
    end, inequality = (np.max(x, initial=0.0) for x in (ends, inequalities))
    if solution.violation > max(end, inequality):
        return ", of a gap at a node"
    if end >= inequality:
        return f", of end value {np.argmax(ends)}"
    step, number = np.unravel_index(np.argmax(inequalities), inequalities.shape)
    after = f"after step {step}, at t = {solution.trajectory.t[step + 1]:.6g}"
    value = values.inequalities[step, number]
    acts = "" if value > 0.0 else f", which is {value:.2g} and has a multiplier"
    return f", of inequality {number} {after}{acts}"
