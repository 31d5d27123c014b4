"""What an integrator may ask of a system.

The equations of motion are, with velocities v of the system's configuration space,

    M(q) v̇ + B(t, q)ᵀ λ = f(t, q, v, u),    Φ(t, q) = 0,

M the mass matrix, f all other forces (gyroscopic ones included), Φ the position constraints, B
their Jacobian along velocities and λ the multipliers. u is the vector of inputs, or None.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax import calculus, checks, linear
from lie_jax.algebra import as_float
from lie_jax.spaces import AbstractSpace

Time = float | Float[Array, ""]
Configuration = Float[Array, " nq"]
Velocity = Float[Array, " nv"]
Multipliers = Float[Array, " nc"]
Inputs = Float[Array, " nu"] | None


class State(eqx.Module):
    """Configuration q (nq,) and velocity v (nv,) of a system: what a simulation starts from."""

    q: Float[Array, "..."] = eqx.field(converter=as_float)
    v: Float[Array, "..."] = eqx.field(converter=as_float)


class AbstractSystem(eqx.Module):
    """Equations of motion on a configuration space.

    A system of your own gives `space`, `mass_matrix` and `force`, and `nc` with `constraint` if it
    is constrained; the rest follows. Array leaves are physical parameters: everything is
    differentiable and vmappable with respect to them.
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
    def nc(self) -> int:
        """Number of position constraints."""
        return 0

    def regular(self, q: Configuration) -> Bool[Array, ""] | bool:
        """Whether q is away from the singularities of the coordinates, if they have any."""
        return True

    def constraint(self, t: Time, q: Configuration) -> Multipliers:
        """Position constraints Φ(t, q) (nc,), zero when they hold."""
        return jnp.zeros(0, q.dtype)

    def constraint_jacobian(self, t: Time, q: Configuration) -> Float[Array, "nc nv"]:
        """Jacobian B of the constraints along velocities: Φ̇ = B v + ∂Φ/∂t."""
        return calculus.jacobian_along(self.space, lambda q: self.constraint(t, q), q)

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

    def acceleration(self, t: Time, q: Configuration, v: Velocity, u: Inputs = None) -> Velocity:
        """v̇ from the equations of motion, with constraints in their index-1 form."""
        return accelerations_and_multipliers(self, t, q, v, u).acceleration


class Accelerations(NamedTuple):
    """Accelerations v̇ (nv,) and multipliers λ (nc,) at one instant."""

    acceleration: Array
    multipliers: Array


def _saddle(system: AbstractSystem, t: Time, q: Configuration) -> Array:
    # The matrix of the equations of motion with constraints. It is regular where the mass matrix is
    # singular along directions that the constraints fix.
    b = system.constraint_jacobian(t, q)
    none = jnp.zeros((system.nc, system.nc), q.dtype)
    return jnp.block([[system.mass_matrix(q), b.T], [b, none]])


def accelerations_and_multipliers(
    system: AbstractSystem,
    t: Time,
    q: Configuration,
    v: Velocity,
    u: Inputs = None,
    stabilization: float | Array = 0.0,
) -> Accelerations:
    """Solve the equations of motion and the twice differentiated constraints for v̇ and λ.

    The constraints obey Φ̈ + 2 γ Φ̇ + γ² Φ = 0 with γ (1/s) the `stabilization`, Baumgarte's with
    critical damping. Needs constraints of full rank.
    """
    t = jnp.asarray(t, q.dtype)
    if not system.nc:
        return Accelerations(
            linear.solve(system.mass_matrix(q), system.force(t, q, v, u)),
            jnp.zeros(0, q.dtype),
        )
    drift = calculus.second_time_derivative_at_rest(system.space, system.constraint, t, q, v)
    if checks.traced(stabilization) or stabilization:
        rate = calculus.time_derivative(system.space, system.constraint, t, q, v)
        drift = drift + stabilization * (2.0 * rate + stabilization * system.constraint(t, q))
    matrix = _saddle(system, t, q)
    solution = linear.solve(matrix, jnp.concatenate([system.force(t, q, v, u), -drift]))
    return Accelerations(solution[: system.nv], solution[system.nv :])


class Projected(NamedTuple):
    """A `State` on the constraints, and the largest violation of the positions that is left."""

    state: State
    violation: Float[Array, ""]


def onto_constraints(system: AbstractSystem, t: Array, state: State, iterations: int) -> Projected:
    """Gauss-Newton steps of positions along M⁻¹Bᵀ, then the smallest change of the velocity.

    Both in the kinetic-energy norm. Positions move on the group; errors square with each iteration.
    """

    def smallest(q, violation):
        right = jnp.concatenate([jnp.zeros(system.nv, q.dtype), -violation])
        return linear.solve(_saddle(system, t, q), right)[: system.nv]

    def correct(q, _):
        x = smallest(q, system.constraint(t, q))
        return system.space.retract(q, system.space.rate_at_zero(x)), None

    q, _ = jax.lax.scan(correct, state.q, length=iterations)
    rate = calculus.time_derivative(system.space, system.constraint, t, q, state.v)
    v = state.v + smallest(q, rate)
    return Projected(State(q, v), jnp.max(jnp.abs(system.constraint(t, q))))


_PROJECTION_ITERATIONS = 20


def project(system: AbstractSystem, state: State, t: Time = 0.0) -> State:
    """A state nearby that satisfies the position and velocity constraints.

    Positions move along M⁻¹Bᵀ by twenty Gauss-Newton steps; the velocity then gets the smallest
    change in the kinetic-energy norm. `t` is the time in seconds. Returns a `State`;
    differentiable. Raises `ValueError` if the constraints do not hold after it, because they are
    redundant or cannot be reached from there (not inside JAX transformations, where the result is
    then NaN or violates them).
    """
    if not system.nc:
        return state
    projected = _project(system, state, jnp.asarray(t, state.q.dtype))
    if not checks.traced(projected):
        violation = float(projected.violation)
        eps = float(jnp.finfo(state.q.dtype).eps)
        if not violation <= eps**0.5 * (1.0 + float(jnp.max(jnp.abs(state.q)))):
            raise ValueError(
                f"lie_jax.project leaves a violation of {violation:.3g}; the constraints "
                "must be independent and within reach: remove redundant joints, or start from "
                "poses that nearly fit."
            )
    return projected.state


@eqx.filter_jit
def _project(system: AbstractSystem, state: State, t: Array) -> Projected:
    return onto_constraints(system, t, state, _PROJECTION_ITERATIONS)
