"""What an integrator may ask of a system.

The equations of motion are, with velocities v of the system's configuration space,

    M(q) v̇ + B(t, q)ᵀ λ = f(t, q, v, u),    Φ(t, q) = 0,    A(t, q) v + a(t, q) = 0,

M the mass matrix, f all other forces (gyroscopic ones included), Φ the position constraints, A v +
a the velocity constraints that follow from no position constraint (rolling wheels), B the Jacobian
of both along velocities and λ the multipliers. u is the vector of inputs, or None.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import conversion, rules
from lie_jax.spaces import derivatives
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.algebra import Algebra
from lie_jax.systems.demands import ACCELERATIONS, Demand
from lie_jax.systems.linearization import (
    AbstractLinearization,
)
from lie_jax.systems.validity import Validity

Time = float | Float[Array, ""]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]
Multipliers = Float[Array, " nc"]
Inputs = Float[Array, " nu"] | None

# Name of solutions that reverse mode may save, so that the backward pass does not solve again.
SOLVED = "solved for accelerations and multipliers"


class State(eqx.Module):
    """Configuration q (nq,) and velocity v (nv,) of a system: what a simulation starts from."""

    q: Float[Array, "..."] = eqx.field(converter=conversion.as_float)
    v: Float[Array, "..."] = eqx.field(converter=conversion.as_float)

    def __check_init__(self):
        checks.real("State(q=)", self.q)
        checks.real("State(v=)", self.v)

    def __repr__(self):
        """The numbers, or shapes under JAX transformations."""
        return f"State(q={conversion.text(self.q)}, v={conversion.text(self.v)})"


class AbstractSystem(eqx.Module):
    """Equations of motion on a configuration space.

    A system of your own gives `space`, `mass_matrix` and `force`, and `nc` with `constraint` if it
    is constrained, `velocity_rows` with `velocity_constraint` if some constraints concern
    velocities only. Everything is differentiable and vmappable by the array leaves.
    """

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """The configuration space."""

    @abc.abstractmethod
    def mass_matrix(self, q: Configuration) -> Float[Array, "nv nv"]:
        """Mass matrix M(q)."""

    @abc.abstractmethod
    def force(self, t: Time, q: Configuration, v: Velocity, u: Inputs) -> Velocity:
        """Generalised force f, gyroscopic terms included: M v̇ + Bᵀ λ = f."""

    @property
    def nq(self) -> int:
        """Number of absolute coordinates."""
        return self.space.nq

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return self.space.nv

    @property
    def nu(self) -> int:
        """Number of inputs that a run must be given at least."""
        return 0

    @property
    def nc(self) -> int:
        """Number of constraints and of multipliers, velocity constraints included."""
        return 0

    @property
    def velocity_rows(self) -> int:
        """Number of velocity constraints, the last ones among the constraints."""
        return 0

    @property
    def slow_to_compile(self) -> bool:
        """Whether accelerations are much code: Runge-Kutta methods then solve for them in a loop.

        With constraints such a loop uses `algebra.saddle`, in place of `acceleration`.
        """
        return self.nc > 0

    def constraint(self, t: Time, q: Configuration) -> Float[Array, " positions"]:
        """Position constraints Φ(t, q) (nc - velocity_rows,), zero when they hold."""
        return jnp.zeros(0, q.dtype)

    def velocity_constraint(
        self, t: Time, q: Configuration, v: Velocity
    ) -> Float[Array, " velocities"]:
        """Velocity constraints A v + a (velocity_rows,), zero when they hold; affine in v.

        Source: [S0] (3).
        """
        return jnp.zeros(0, q.dtype)

    def constraint_jacobian(self, t: Time, q: Configuration) -> Float[Array, "nc nv"]:
        """Jacobian B of the constraints along velocities: Φ̇ = B v + ∂Φ/∂t, then A."""
        b = derivatives.jacobian_along(self.space, lambda q: self.constraint(t, q), q)
        if not self.velocity_rows:
            return b
        rest = jnp.zeros(self.nv, q.dtype)
        return jnp.concatenate([b, jax.jacfwd(lambda v: self.velocity_constraint(t, q, v))(rest)])

    def constraint_rate(self, t: Time, q: Configuration, v: Velocity) -> Multipliers:
        """Φ̇ on a motion with velocity v, then the velocity constraints: (nc,)."""
        now = jnp.asarray(t, q.dtype)
        rate = derivatives.time_derivative(self.space, self.constraint, now, q, v)
        if not self.velocity_rows:
            return rate
        return jnp.concatenate([rate, self.velocity_constraint(t, q, v)])

    def constraint_rates(
        self, t: Time, q: Configuration, v: Velocity, x: Velocity, share: float | Array = 1.0
    ) -> tuple[Multipliers, Multipliers]:
        """`constraint_rate` (nc,) with a velocity v, and B x + c d (nc,): its own rate for an
        acceleration x, of whose part d without x a `share` c counts.
        """
        now = jnp.asarray(share, q.dtype)
        tangents = now * jnp.ones_like(t), self.space.lift(q, now * v), x
        return jax.jvp(self.constraint_rate, (t, q, v), tangents)

    def under_loads(self, part: Array) -> "AbstractSystem":
        """The system under a part of its given loads; here the system itself, all of f remains."""
        return self

    def memory_after(self, t: Time, q: Configuration, v: Velocity) -> Any:
        """Memory of the forces after an instant: a pytree of arrays, empty for most systems.

        A run hands it on from step to step: forces may depend on it through `with_memory`, by whole
        numbers only (the turns of a hinge), so that it has no derivatives.
        """
        return ()

    def with_memory(self, memory: Any) -> "AbstractSystem":
        """The system, whose forces recall what `memory_after` has kept of the last instant."""
        return self

    def closing(self) -> "AbstractSystem":
        """The system with position constraints that vanish where `branch_signs` are positive."""
        return self

    @property
    def algebra(self) -> Algebra:
        """Matrices of the equations of motion and the constraints."""
        return Algebra(self)

    @property
    def validity(self) -> Validity:
        """Limits of the model that a run checks."""
        return Validity(self)

    def owner(self, equation: int) -> str:
        """Owner of an equation, a body, a joint or a number, counted as in the residual."""
        if equation < self.nv:
            return f"the equation of motion of velocity {equation}"
        return f"constraint {equation - self.nv}"

    def residual(
        self,
        t: Time,
        q: Configuration,
        v: Velocity,
        acceleration: Velocity,
        multipliers: Multipliers,
        u: Inputs,
    ) -> Velocity:
        """M v̇ + Bᵀ λ - f, zero on a motion."""
        result = self.mass_matrix(q) @ acceleration - self.force(t, q, v, u)
        if self.nc:
            result = result + self.constraint_jacobian(t, q).T @ multipliers
        return result

    def linearization(
        self,
        t: Time,
        q: Configuration,
        v: Velocity,
        acceleration: Velocity,
        multipliers: Multipliers,
        u: Inputs,
    ) -> AbstractLinearization:
        """Residual with its derivatives K along q, C by v and M by v̇, and the Jacobian B.

        By forward-mode derivatives of `residual`, unless a system has closed forms.
        Source: [S3] (41), (43).
        """

        def residual(q, v, acceleration):
            return self.residual(t, q, v, acceleration, multipliers, u)

        value, push = jax.linearize(residual, q, v, acceleration)
        return self.algebra.forward(t, q, v, value, push)

    def acceleration(self, t: Time, q: Configuration, v: Velocity, u: Inputs = None) -> Velocity:
        """v̇ from the equations of motion, with constraints in their index-1 form."""
        return accelerations_and_multipliers(self, t, q, v, u).acceleration


class Accelerations(NamedTuple):
    """Rates `acceleration` v̇ (nv,) of the velocities and `multipliers` λ (nc,) at one instant."""

    acceleration: Array
    multipliers: Array


def accelerations_and_multipliers(
    system: AbstractSystem,
    t: Time,
    q: Configuration,
    v: Velocity,
    u: Inputs = None,
    demand: Demand = ACCELERATIONS,
) -> Accelerations:
    """Solve the equations of motion and the differentiated constraints for v̇ and λ.

    Redundant constraints have multipliers near those of minimum norm. Another `demand` may add
    feedback, or ask for a smallest change in place of accelerations.
    """
    t = jnp.asarray(t, q.dtype)
    if not system.nc:
        solved = system.algebra.saddle(t, q).solve(system.force(t, q, v, u))
        return Accelerations(solved, jnp.zeros(0, q.dtype))
    args = system, t, q, v, u, demand
    solution = checkpoint_name(_solve(rules.stop_gradient(args)), SOLVED)
    # Newton's and Euler's equations of the bodies are cheaper to differentiate than their solution.
    return rules.value_with_rule(solution, _change_of_solution, args)


def _solution(system: AbstractSystem, t: Array, q: Array, right: Array) -> Accelerations:
    # The matrix is regular where M is singular along directions that the constraints fix.
    x = system.algebra.saddle(t, q).solve_constrained(right)
    return Accelerations(x[: system.nv], x[system.nv :])


def _solve(args: Any) -> Accelerations:
    system, t, q, v, u, demand = args
    force, drift = system.force(t, q, v, u), demand.conditions(system, t, q, v, jnp.zeros_like(v))
    return _solution(system, t, q, jnp.concatenate([demand.share_of(force), -drift]))


def _change_of_solution(solution: Accelerations, args: Any, changes: Any) -> Accelerations:
    def defect(args):
        system, t, q, v, u, demand = args

        def dynamic(*solution):
            return system.residual(t, q, v, *solution, u)

        if demand.is_whole:
            forces = dynamic(*solution)
        else:
            # What x and λ add, as a derivative: without the rounding of forces that do not count.
            rest, added = jax.jvp(dynamic, tuple(map(jnp.zeros_like, solution)), tuple(solution))
            forces = demand.share_of(rest) + added
        return jnp.concatenate([forces, demand.conditions(system, t, q, v, solution.acceleration)])

    system, t, q, *_ = args
    _, change = eqx.filter_jvp(defect, (args,), (changes,))
    if change is None:
        return jax.tree.map(jnp.zeros_like, solution)
    return _solution(system, t, q, -change)
