"""Index-1 constraints: projection onto them, dependent ones, and multipliers of minimum norm."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax import checks
from lie_jax.numerics import lapack, programs, rules
from lie_jax.numerics.block_matrix import unit
from lie_jax.systems.system import AbstractSystem, Configuration, Multipliers, State, Velocity


def smallest_change(
    system: AbstractSystem, t: Array, q: Configuration, rates: Multipliers
) -> Velocity:
    """The velocity x with B x = rates that has the least kinetic energy."""
    right = jnp.concatenate([jnp.zeros(system.nv, q.dtype), rates])
    return system.algebra.saddle(t, q).solve_constrained(right)[: system.nv]


def project_onto_constraints(
    system: AbstractSystem,
    t: Array,
    state: State,
    iterations: int,
    closing: AbstractSystem | None = None,
) -> tuple[State, Float[Array, " positions"]]:
    """State on the constraints, and the violations of the positions that are left.

    Gauss-Newton steps move positions along M⁻¹Bᵀ on the group, each of which squares their error;
    the velocity then changes least. Least is meant in the kinetic-energy norm. Steps are those of
    the system `closing`, by default the same one.
    """
    stepping = system if closing is None else closing
    none = jnp.zeros(system.velocity_rows, state.q.dtype)

    def correct(q, _):
        x = smallest_change(stepping, t, q, jnp.concatenate([-stepping.constraint(t, q), none]))
        return system.space.flow(q, x), None

    q, _ = jax.lax.scan(correct, state.q, length=iterations)
    v = state.v + smallest_change(system, t, q, -system.constraint_rate(t, q, state.v))
    return State(q, v), jnp.abs(system.constraint(t, q))


def redundant(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""] | np.ndarray:
    """Whether the rows of the constraint Jacobian depend on each other at q.

    Inside JAX transformations, where the smallest multipliers are compiled in any case, many bodies
    without loops count as not redundant: these multipliers need full matrices, and only a joint
    that is singular by itself would ask for them.
    """
    if not system.nc or system.nc > system.nv:
        return np.full((), system.nc > system.nv)
    system, t, q = rules.stop_gradient((system, t, q))
    if not checks.has_tracers(system, t, q):
        return _has_dependent_rows(system, t, q)
    saddle = system.algebra.saddle(t, q)
    if not saddle.may_be_redundant:
        return np.zeros((), bool)
    return saddle.smallest_row() < _rank_tolerance(q.dtype)


def has_dependent_rows(
    system: AbstractSystem, t: Float[Array, ""], q: Float[Array, " nq"]
) -> Bool[Array, ""]:
    """Whether the rows of the constraint Jacobian depend on each other at q."""
    if not system.nc or system.nc > system.nv:
        return jnp.full((), system.nc > system.nv)
    return system.algebra.saddle(t, q).smallest_row() < _rank_tolerance(q.dtype)


_has_dependent_rows = programs.run_once(has_dependent_rows)


def _rank_tolerance(dtype) -> Any:
    """Singular values below this, relative to the largest, are zero."""
    return jnp.finfo(dtype).eps ** 0.5


def smallest_multipliers(
    system: AbstractSystem,
    t: Float[Array, ""],
    q: Float[Array, " nq"],
    multipliers: Float[Array, " nc"],
) -> Float[Array, " nc"]:
    """Multipliers λ of minimum 2-norm among those with the same reactions Bᵀλ."""
    # Scaled velocities change neither the solutions nor their norm.
    forces = unit(system.constraint_jacobian(t, q).T, 1)
    smallest = _smallest(*rules.stop_gradient((forces, multipliers)))
    return rules.value_with_rule(smallest, _change_of_smallest, (forces, multipliers))


# Each pass divides the error of λ by the square of the smallest singular value of the independent
# rows, relative to the largest, over the rounding of the squares.
_PASSES = 12


@lapack.one_by_one
def _smallest(forces: Float[Array, "nv nc"], multipliers: Multipliers) -> Multipliers:
    # λ = Fᵀy with F Fᵀ y = F λ, y by a shifted matrix and corrections: half of an SVD's cost.
    # The shift lies above the rounding of the zero eigenvalues. What it leaves of their
    # eigenvectors in y vanishes in λ.
    size = forces.shape[0]
    shift = 16.0 * size * jnp.finfo(forces.dtype).eps
    factor = jnp.linalg.cholesky(forces @ forces.T + shift * jnp.eye(size, dtype=forces.dtype))
    smallest = jnp.zeros_like(multipliers)
    for _ in range(_PASSES):
        y = jax.scipy.linalg.cho_solve((factor, True), forces @ (multipliers - smallest))
        smallest = smallest + forces.T @ y
    return smallest


def _change_of_smallest(smallest: Multipliers, parameters: Any, changes: Any) -> Multipliers:
    # The pseudoinverse has derivatives along changes of the rank, too.
    def by_pseudoinverse(forces, multipliers):
        inverse = lapack.pseudoinverse(forces, _rank_tolerance(forces.dtype))
        return inverse @ (forces @ multipliers)

    return eqx.filter_jvp(by_pseudoinverse, parameters, changes)[1]
