"""Results of optimal control."""

import warnings
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.control.problem import Options
from lie_jax.simulation.trajectory import Trajectory


class History(NamedTuple):
    """One row for each iterate, the first guess included; NaN after the last one."""

    cost: Float[Array, "*batch iterates"]
    gradient_norm: Float[Array, "*batch iterates"]
    violation: Float[Array, "*batch iterates"]


class Solution(eqx.Module):
    """An optimal control, or the best inputs of a search that has not converged.

    - `inputs`: (steps, nu), held over each step. `trajectory`: the `Trajectory` they give.
    - `unknowns`: the inputs, or the coefficients of a spline.
    - `cost`: the sum that was minimised, without any penalty.
    - `gradient_norm`: largest entry of the gradient of cost + multipliers · end values by the
      unknowns that no limit holds, relative to the terms that cancel in it; zero at an optimum.
    - `violation`: largest absolute end value (and, between nodes, the largest gap).
    - `multipliers`: (ends,), derivative of the cost by each end value, with the opposite sign.
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
    gains: Float[Array, "..."] | None
    iterations: Int[Array, "..."]
    history: History
    converged: Bool[Array, "..."]


def warn_unless_converged(call: str, solution: Solution, options: Options, advice: str) -> None:
    """Warn if the search has not converged; silent where JAX traces."""
    if checks.traced(solution.converged) or bool(solution.converged):
        return
    warnings.warn(
        f"{call}: not converged, iterations: {int(solution.iterations)}; gradient_norm is "
        f"{float(solution.gradient_norm):.2g} (tolerance={options.tolerance:.2g}), violation "
        f"{float(solution.violation):.2g} (end_tolerance={options.end_tolerance:.2g}). "
        f"{advice}, start nearer, or raise max_iterations=; `inputs` are the best that were found.",
        stacklevel=3,
    )
