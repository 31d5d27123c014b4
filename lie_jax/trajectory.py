"""Trajectories: what a simulation returns."""

import equinox as eqx
from jaxtyping import Array, Float, Int


class Result(eqx.Enumeration):
    """How a simulation ended."""

    successful = "The simulation reached its end."
    newton_failed = "Newton's method did not converge; what came before is in the trajectory."
    non_finite = "The state became infinite or NaN; what came before is in the trajectory."


class Statistics(eqx.Module):
    """Counts of a simulation.

    `newton_iterations` (steps,): linear solves of each step, zero for explicit methods.
    `completed_steps` (): steps before the first failure, all of them if there was none.
    `residual` (): the largest entry of the residual that Newton's method was left with in the first
    step that failed, scaled as in the method; zero if none failed.
    """

    newton_iterations: Int[Array, "..."]
    completed_steps: Int[Array, "..."]
    residual: Float[Array, "..."]


class Trajectory(eqx.Module):
    """Saved instants of a simulation, the initial state first.

    `t` (n,) times in s; `q` (n, nq) configurations; `v` (n, nv) velocities; `acceleration` (n, nv)
    their time derivatives; `multipliers` (n, nc); `stats` a `Statistics`; `result` a `Result`.
    n = steps // save_every + 1. Instants after a failure are NaN.
    """

    t: Float[Array, "..."]
    q: Float[Array, "..."]
    v: Float[Array, "..."]
    acceleration: Float[Array, "..."]
    multipliers: Float[Array, "..."]
    stats: Statistics
    result: Result
