"""The rule of Newton's method behind the tables of [S3], a variant of the generalized-α method."""

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from typing_extensions import override

import lie_jax
from lie_jax.integrators.generalized_alpha import equations, matrix
from lie_jax.integrators.generalized_alpha.equations import StepParameters
from lie_jax.integrators.generalized_alpha.start import initial_carry
from lie_jax.mechanics.joints.base import Wrench
from lie_jax.multibody.absolute.system import RigidBodySystem
from lie_jax.multibody.flexible import Loads
from lie_jax.numerics import kept_matrices, newton, small
from lie_jax.numerics.newton import Search
from lie_jax.systems.system import accelerations_and_multipliers

# Residuals below this part of the first one, or below this size, end a search.
_RELATIVE, _ABSOLUTE = 1e-8, 1e-10


class GeneralizedAlpha(lie_jax.GeneralizedAlpha):
    """`lie_jax.GeneralizedAlpha` that starts, stops and approximates its matrix as [S3] does.

    A search ends where the 2-norm of the residual, without scales, is below 1e-8 of the first one
    or below 1e-10. It begins with v̇ = 0 and λ = 0; its matrix has no derivatives of M, Bᵀλ and
    given loads; the first auxiliary acceleration is the initial acceleration.
    """

    @override
    def passes(self, system):
        return 0

    @override
    def init(self, system, t, dt, state, u):
        v_dot, multipliers = accelerations_and_multipliers(system, t, state.q, state.v, u)
        carry = initial_carry(v_dot, multipliers, jnp.zeros_like(v_dot))
        return self._reserve_inverse(system, t, dt, state, u, carry)

    @override
    def _parameters(self, system, t, dt, state, carry, u):
        problem, guess, a_bar, share = super()._parameters(system, t, dt, state, carry, u)
        return problem, jnp.zeros_like(guess), a_bar, share

    @override
    def _search(self, linearize, system):
        search = kept_matrices.modified if self.newton == "modified" else _chord
        rule = newton.Equations(equations.residual, self._matrix, _has_converged, _size)
        return partial(search, rule)

    @override
    def _matrix(self, y, problem):
        return _matrix(y, problem, self.tangent_operator)


def _chord(equations: newton.Equations, guess: Array, kept: None, args: Any) -> newton.Root:
    """Newton steps, at least one and at most 25, each with a new matrix of the equations."""

    def iterate(search):
        y, first = search.root.y, search.root.iterations == 0
        matrix = equations.matrix(y, args)
        correction = matrix.solve_from(-search.value, jnp.where(first, y, 0.0))
        return equations.correct(search, correction, args)

    value = equations.residual(guess, args)
    size = equations.size(value, args)
    start = newton.Search(newton.initial_root(guess), jnp.ones((), bool), value, size, size)
    return jax.lax.while_loop(newton.loop_condition(newton.MAX_ITERATIONS), iterate, start).root


def _size(value: Array, problem: StepParameters) -> Array:
    """2-norm of the residual in N, N m and m together."""
    n = problem.system.nv
    return jnp.sqrt(jnp.sum((problem.beta * value[:n]) ** 2) + jnp.sum(value[n:] ** 2))


def _has_converged(correction: Array, search: Search, problem: StepParameters) -> Array:
    return (search.size <= _RELATIVE * search.first) | (search.size <= _ABSOLUTE)


@eqx.filter_jit
def _matrix(y: Array, problem: StepParameters, operator: bool) -> Any:
    end, t = equations.end(y, problem), problem.t
    system, u = _without_loads(problem.system, problem.u)
    still = jnp.zeros_like(end.v)
    if system.forces and isinstance(system, RigidBodySystem):
        mass = system.mass_matrix(end.q)
        _, push = jax.linearize(lambda q, v: -_force(system, t, q, v, u), end.q, end.v)
        linear = system.algebra.forward(
            *(t, end.q, end.v, still),
            lambda dq, dv, acceleration: push(dq, dv) + small.matvec(mass, acceleration),
        )
    else:
        # Without accelerations and multipliers the derivatives of M and Bᵀλ vanish.
        none = jnp.zeros_like(end.multipliers)
        linear = system.linearization(t, end.q, end.v, still, none, u)
    return matrix.step_matrix(linear, y, problem, operator)


def _force(system: Any, t: Array, q: Array, v: Array, u: Any) -> Array:
    """Force whose derivatives by q are those of the rule: springs, dampers and controllers are
    differentiated by the poses at constant ṙ and ω, and wrenches are pulled back as at q.
    """
    _, rotation, position, _, omega = instant = system._instant(t, q, v)
    held = jax.lax.stop_gradient(q)
    fixed, place = system.poses(held)
    bias = system._inertia_forces(rotation, q, v, omega, jnp.zeros_like(v))
    velocities, none = system._velocities(fixed, held, v), jnp.zeros(0, q.dtype)
    wrench = system._applied_wrenches((t, rotation, position, *velocities), u)
    torque = jax.vmap(lambda home, r, x: small.matvec(home.T, small.matvec(r, x)))(
        fixed, rotation, wrench.torque
    )
    acting = Loads(Wrench(wrench.force, torque), none)
    applied = system._pull_back((t, fixed, place, *velocities), held, acting)
    return applied - system._pull_back(instant, q, Loads(bias, none))


def _without_loads(system: Any, u: Any) -> tuple[Any, Any]:
    """System without gravity, given forces and torques, and the inputs that it reads."""
    inner = dataclasses.replace(
        system,
        forces=tuple(group for group in system.forces if not group.element.is_load),
        gravity=jnp.zeros_like(system.gravity),
    )
    return inner, u if u is None else u[: inner.most_inputs]
