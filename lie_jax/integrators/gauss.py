"""Implicit Munthe-Kaas methods on the Gauss-Legendre nodes."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.numerics import newton
from lie_jax.numerics.dense import DenseMatrix
from lie_jax.system import AbstractSystem, Accelerations, State


def _gauss(stages: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients a (s, s), b, c by collocation at the nodes of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(stages)
    c = (nodes + 1.0) / 2.0
    powers = np.arange(stages)
    # Row i integrates every polynomial of degree below s from 0 to c_i exactly.
    a = (c[:, None] ** (powers + 1) / (powers + 1)) @ np.linalg.inv(c[:, None] ** powers)
    return a, weights / 2.0, c


TABLEAUX = {"gauss2": _gauss(1), "gauss4": _gauss(2), "gauss6": _gauss(3)}


class _Problem(NamedTuple):
    system: AbstractSystem
    t: Array
    dt: Array
    u: Any
    q: Array
    v: Array


class ImplicitRKMK(AbstractIntegrator):
    """Munthe-Kaas method of Gauss-Legendre type: order 2, 4 or 6, symmetric, A-stable.

    Full Newton iterations solve for the rates of the local coordinates and the accelerations of all
    stages together. Derivatives of a step come from the implicit function theorem. For systems
    without constraints. The iteration matrix is dense: (2 s n_v)² numbers for s stages.

    **Arguments:** `tableau`: `"gauss2"`, `"gauss4"` or `"gauss6"`, by its order; `jacobian`:
    `"autodiff"`, or `"analytic"` with the written-out derivative of dexp⁻¹ ([S4] (2.40), (2.51)).
    Both give the same matrix. Raises `ValueError` for any other word.
    """

    history = newton.HISTORY
    tableau: str = eqx.field(static=True, default="gauss4")
    jacobian: str = eqx.field(static=True, default="autodiff")

    def __check_init__(self):
        checks.one_of("ImplicitRKMK(tableau=)", self.tableau, tuple(TABLEAUX))
        checks.one_of("ImplicitRKMK(jacobian=)", self.jacobian, ("autodiff", "analytic"))

    @property
    def order(self) -> int:
        """Order of convergence."""
        return 2 * len(TABLEAUX[self.tableau][1])

    @override
    def check(self, system):
        if system.nc:
            raise ValueError(
                f"ImplicitRKMK cannot take a system with {system.nc} constraints; use "
                "lie_jax.GeneralizedAlpha() or an explicit method such as lie_jax.RKMK('rk4'), or "
                "a formulation without constraints."
            )

    @override
    def init(self, system, t, dt, state, u):
        # The carry is the last acceleration, from which the next iteration starts.
        return system.acceleration(t, state.q, state.v, u)

    @override
    def step(self, system, t, dt, state, carry, u):
        a, b, c = TABLEAUX[self.tableau]
        space, stages = system.space, len(b)
        problem = _Problem(system, t, dt, u, state.q, state.v)
        rates = [space.rate_at_zero(state.v + dt * float(node) * carry) for node in c]
        guess = jnp.stack([jnp.stack(rates), jnp.stack([carry] * stages)]).reshape(-1)
        equations = _Equations(a, c, self.jacobian)
        # Jitted: traced and differentiated once, however often Newton's method evaluates them.
        residual = eqx.filter_jit(equations.residual)
        linearize = eqx.filter_jit(equations.linearize)
        search = partial(newton.full, linearize, _converged)
        solution = newton.root(search, residual, linearize, guess, None, problem)
        rate, acceleration = solution.y.reshape(2, stages, space.nv)
        weights = jnp.asarray(b, state.q.dtype)[:, None]
        x, dv = (dt * jnp.sum(weights * k, axis=0) for k in (rate, acceleration))

        end = State(space.retract(state.q, x), state.v + dv)
        return Step(
            state=jax.tree.map(lambda x: jnp.where(solution.converged, x, jnp.nan), end),
            carry=acceleration[-1],
            newton_iterations=solution.iterations,
            converged=solution.converged,
            residuals=solution.history,
            worst=solution.worst % space.nv,
        )

    @override
    def accelerations(self, system, t, state, carry, u):
        return Accelerations(
            system.acceleration(t, state.q, state.v, u), jnp.zeros(0, state.q.dtype)
        )


class _Equations:
    """Equations of all stages, rate = T(x)⁻¹ v and the equations of motion, and their Jacobian."""

    def __init__(self, a: np.ndarray, c: np.ndarray, jacobian: str):
        self.a, self.c, self.jacobian = a, c, jacobian

    def _stage(self, i: int, y: Array, problem: _Problem) -> tuple[Array, Array]:
        """Local coordinates and velocity of a stage."""
        rates, accelerations = y.reshape(2, len(self.c), -1)
        row = jnp.asarray(self.a[i], y.dtype)[:, None] * problem.dt
        x = jnp.sum(row * rates, axis=0)
        return x, problem.v + jnp.sum(row * accelerations, axis=0)

    def _motion(self, problem: _Problem, i: int, q: Array, v: Array, acceleration: Array) -> Array:
        time = problem.t + float(self.c[i]) * problem.dt
        none = jnp.zeros(0, q.dtype)
        return problem.system.residual(time, q, v, acceleration, none, problem.u)

    def residual(self, y: Array, problem: _Problem) -> Array:
        """Residual (2 s nv,) of the rates (s, nv) and accelerations (s, nv) in y."""
        space = problem.system.space
        rates, accelerations = y.reshape(2, len(self.c), -1)
        kinematic, dynamic = [], []
        for i in range(len(self.c)):
            x, v = self._stage(i, y, problem)
            kinematic.append(rates[i] - space.tangent_operator_inv(x, v))
            q = space.retract(problem.q, x)
            dynamic.append(self._motion(problem, i, q, v, accelerations[i]))
        return jnp.concatenate([*kinematic, *dynamic])

    def linearize(self, y: Array, problem: _Problem) -> tuple[Array, DenseMatrix]:
        """Residual and its Jacobian."""
        if self.jacobian == "autodiff":
            value, push = jax.linearize(lambda y: self.residual(y, problem), y)
        else:
            value, push = self.residual(y, problem), partial(self._change, problem, y)
        return value, DenseMatrix(jax.vmap(push, out_axes=1)(jnp.eye(y.shape[0], dtype=y.dtype)))

    def _change(self, problem: _Problem, y: Array, direction: Array) -> Array:
        """Change of the residual along a direction of y."""
        space, at_rest = problem.system.space, problem._replace(v=jnp.zeros_like(problem.v))
        _, accelerations = y.reshape(2, len(self.c), -1)
        rates, changes = direction.reshape(2, len(self.c), -1)
        kinematic, dynamic = [], []
        for i in range(len(self.c)):
            x, v = self._stage(i, y, problem)
            dx, dv = self._stage(i, direction, at_rest)
            along_x = space.tangent_operator_inv_derivative(x, dx, v)
            kinematic.append(rates[i] - along_x - space.tangent_operator_inv(x, dv))
            q = space.retract(problem.q, x)
            tangents = space.lift(q, space.tangent_operator(x, dx)), dv, changes[i]
            motion = partial(self._motion, problem, i)
            dynamic.append(jax.jvp(motion, (q, v, accelerations[i]), tangents)[1])
        return jnp.concatenate([*kinematic, *dynamic])


def _converged(correction: Array, value: Array, y: Array, problem: _Problem) -> Array:
    rates, accelerations = y.reshape(2, -1)
    rate_changes, changes = correction.reshape(2, -1)
    eps = jnp.finfo(y.dtype).eps
    # Quadratic convergence leaves an error at the level of rounding. Rates and accelerations count
    # as velocities, the accelerations times the step size: a body at rest has no other velocity.
    size = jnp.max(jnp.abs(rates)) + problem.dt * jnp.max(jnp.abs(accelerations))
    change = jnp.max(jnp.abs(rate_changes)) + problem.dt * jnp.max(jnp.abs(changes))
    return change <= eps**0.5 * size + 64.0 * eps
