"""All stages of a method together: one dense system of equations.

Unknowns are the rates ẋ of all stages, then their multipliers dt λ, then their η. The velocities of
the stages follow from the rates, and their accelerations from the velocities by a⁻¹.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax.integrators import iterations
from lie_jax.integrators.implicit import stage
from lie_jax.integrators.implicit.stage import Stages, StepParameters
from lie_jax.integrators.implicit.tableaux import TABLEAUX
from lie_jax.numerics import newton
from lie_jax.numerics.dense import DenseMatrix, inertias, product
from lie_jax.systems.linearization import row_sizes


def solve(
    tableau: str, jacobian: str, problem: StepParameters, acceleration: Array, multipliers: Array
) -> tuple[Stages, newton.Root]:
    """Stages of a step, from the acceleration and multipliers at its start, and the search."""
    c = TABLEAUX[tableau].c
    space, s = problem.system.space, len(c)
    nodes = problem.dt * jnp.asarray(c, problem.v.dtype)[:, None]
    velocities = problem.v[None] + nodes * acceleration[None]
    x = nodes * space.rate_at_zero(problem.v)[None]
    rates = jax.vmap(space.tangent_operator_inv)(x, velocities)
    unknowns = [rates, jnp.broadcast_to(problem.dt * multipliers, (s, multipliers.shape[0]))]
    unknowns.append(jnp.zeros((s, problem.rows[2]), problem.v.dtype))
    guess = jnp.concatenate([x.reshape(-1) for x in unknowns])
    linearization = partial(linearize, tableau, jacobian)
    search = partial(
        newton.full, linearization, partial(stage.converges, dynamic=s * problem.rows[0])
    )
    root = newton.root(search, partial(residual, tableau), linearization, guess, None, problem)
    rates, _, _, accelerations, multipliers = _stages(tableau, root.y, problem)
    worst = stage.number_in_system(root.worst, problem, s)
    return Stages(rates, accelerations, multipliers), root._replace(worst=worst)


def _stages(tableau: str, y: Array, problem: StepParameters) -> tuple[Array, ...]:
    """Rates, local coordinates, velocities, accelerations and multipliers of all stages."""
    a = TABLEAUX[tableau].a
    s = len(a)
    nv, nc, _ = problem.rows
    rates, multipliers, corrections = (
        x.reshape(s, -1) for x in jnp.split(y, (s * nv, s * (nv + nc)))
    )
    x = problem.dt * product(jnp.asarray(a, y.dtype), rates)
    v = jax.vmap(partial(stage.velocity, problem))(x, rates, corrections)
    inverse = jnp.asarray(np.linalg.inv(a), y.dtype)
    accelerations = product(inverse, v - problem.v[None]) / problem.dt
    return rates, x, v, accelerations, multipliers / problem.dt


def _times(tableau: str, problem: StepParameters) -> Array:
    return problem.t + problem.dt * jnp.asarray(TABLEAUX[tableau].c, problem.dt.dtype)


# Newton's method evaluates it at several places: a jitted function is traced once.
@eqx.filter_jit
def residual(tableau: str, y: Array, problem: StepParameters) -> Array:
    """Residual of all stages, with as many entries as unknowns: dynamic equations of all stages,
    then rates of constraints, then positions.
    """
    _, x, v, accelerations, multipliers = _stages(tableau, y, problem)

    def at(t, x, v, change, multipliers):
        q = problem.system.space.retract(problem.q, x)
        return stage.equations(problem, t, problem.dt, q, v, change, multipliers)

    parts = jax.vmap(at)(_times(tableau, problem), x, v, accelerations, multipliers)
    return jnp.concatenate([part.reshape(-1) for part in parts])


@eqx.filter_jit
def linearize(
    tableau: str, jacobian: str, y: Array, problem: StepParameters
) -> tuple[Array, DenseMatrix]:
    """Residual of all stages and its Jacobian."""
    if iterations.by_derivatives(jacobian, problem.system):
        value, push = jax.linearize(lambda y: residual(tableau, y, problem), y)
        entries = jax.vmap(push, out_axes=1)(jnp.eye(y.shape[0], dtype=y.dtype))
    else:
        value, entries = residual(tableau, y, problem), _matrix(tableau, y, problem)
    s = len(TABLEAUX[tableau].c)
    rows, correcting = y.shape[0] - s * problem.rows[0], s * problem.rows[2]
    sizes = _row_sizes(entries, problem)
    return value, DenseMatrix(entries, rows, sizes, correcting=correcting).regularize()


def _row_sizes(entries: Array, problem: StepParameters) -> Array | None:
    """Sizes of the rows of constraints, rates and then positions of all stages, from the system's
    bounds; None without bounds.
    """
    bounds = problem.system.algebra.bounds(problem.t, problem.q)
    if bounds is None:
        return None
    nv, nc, positions = problem.rows
    dynamic = entries.shape[0] // (nv + nc + positions) * nv
    inertia = inertias(entries[:dynamic, :dynamic]).reshape(-1, nv)
    of_rates = jax.vmap(row_sizes, (None, 0))(bounds, inertia)
    # The multipliers of positions correct velocities by Nᵀη, without an inertia.
    of_positions = jax.vmap(row_sizes, (None, 0))(bounds[:positions], jnp.ones_like(inertia))
    return jnp.concatenate([of_rates.reshape(-1), of_positions.reshape(-1)])


def _matrix(tableau: str, y: Array, problem: StepParameters) -> Array:
    """The Jacobian from the linearizations of the system at the stages.

    A rate of stage j moves the coordinates of stage i by dt a_ij T, and its velocity by the change
    of T(x) along that; its own velocity changes by T and η, too, and accelerations by a⁻¹.
    """
    a, dt, space = jnp.asarray(TABLEAUX[tableau].a, y.dtype), problem.dt, problem.system.space
    inverse = jnp.asarray(np.linalg.inv(TABLEAUX[tableau].a), y.dtype)
    nv, nc, positions = problem.rows
    identity, each_alone = jnp.eye(nv, dtype=y.dtype), jnp.eye(len(a), dtype=y.dtype)
    rates, x, v, accelerations, multipliers = _stages(tableau, y, problem)

    def at(t, x, rate, v, change, multipliers):
        q = space.retract(problem.q, x)
        dense = problem.system.linearization(t, q, v, change, multipliers, problem.u).dense()
        moving, none = space.tangent_operator(x, rate), jnp.zeros_like(identity)

        def tangent_derivative(dx):
            # The derivative of T(x) ẋ along dx, from that of the inverse.
            change = space.tangent_operator_inv_derivative(x, dx, moving)
            return -space.tangent_operator(x, change)

        operator = jax.vmap(partial(space.tangent_operator, x), out_axes=1)(identity)
        turning = jax.vmap(tangent_derivative, out_axes=1)(identity)
        mass = dense.combined(none, 0.0, 0.0)
        damping = dense.combined(none, 0.0, 1.0) - mass
        stiffness = dense.combined(operator, 1.0, 0.0) - mass
        rows = dense.constraints[:positions]
        by_position = stiffness, dense.rate_columns(operator, 1.0), product(rows, operator)
        return operator, turning, mass, damping, dense.constraints, by_position

    stages = jax.vmap(at)(_times(tableau, problem), x, rates, v, accelerations, multipliers)
    operators, turnings, masses, dampings, constraints, by_position = stages

    def spread(weights, blocks):
        """Blocks (s, m, n) of stages i in the columns of all stages j, times weights (s, s)."""
        columns = weights[:, None, :, None] * blocks[:, :, None, :]
        return columns.reshape(*blocks.shape[:2], len(a) * blocks.shape[2])

    # Columns: rates of all stages, then all η.
    velocities = spread(each_alone, operators) + dt * spread(a, turnings)
    if problem.reactions is not None:
        normals = jnp.broadcast_to(problem.reactions.rows.T, (len(a), nv, positions))
        velocities = jnp.concatenate([velocities, spread(each_alone, normals)], axis=2)
    beyond = (0, 0), (0, 0), (0, len(a) * positions)
    stiffnesses, rates, places = (jnp.pad(spread(a, x), beyond) for x in by_position)
    changes = product(inverse, velocities.reshape(len(a), -1)).reshape(velocities.shape)
    times = jax.vmap(product)
    damped = times(dampings, velocities) + dt * stiffnesses
    dynamic = times(masses, changes) + dt * damped
    rates = times(constraints, velocities) + dt * rates
    rows = [x.reshape(-1, velocities.shape[2]) for x in (dynamic, rates, places)]
    rows = jnp.concatenate(rows)
    # The columns of λ lie between.
    reactions = spread(each_alone, constraints.swapaxes(1, 2)).reshape(len(a) * nv, len(a) * nc)
    reactions = jnp.pad(reactions, ((0, rows.shape[0] - reactions.shape[0]), (0, 0)))
    return jnp.concatenate([rows[:, : len(a) * nv], reactions, rows[:, len(a) * nv :]], axis=1)
