"""Explicit methods of this package as solvers of diffrax, on configuration spaces.

diffrax's step-size controllers, `SaveAt`, events and adjoints then work on rotations and poses:

    solution = diffrax.diffeqsolve(
        equations_of_motion(system),
        ManifoldSolver(lie_jax.RKMK("dopri5")),
        t0=0.0, t1=1.0, dt0=1e-3, y0=state,
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
    )

The solution `y` is a `State`; `args` are the inputs u. Needs diffrax, which is not installed with
this package: `pip install '.[diffrax]'` in the clone.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.integrators.compositions import AbstractComposition
from lie_jax.integrators.explicit import AbstractTableauMethod
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import AbstractSystem, State

try:
    import diffrax
except ImportError as error:
    raise ImportError(
        "lie_jax.io.diffrax is for diffrax, which is not installed: in the clone of lie_jax run "
        "pip install '.[diffrax]'."
    ) from error


class _Motion(eqx.Module):
    system: AbstractSystem

    def __call__(self, t, y, args):
        t = jnp.asarray(t, y.q.dtype)
        rate = self.system.space.lift(y.q, y.v)
        return State(rate, self.system.acceleration(t, y.q, y.v, args))


def equations_of_motion(system: AbstractSystem) -> diffrax.ODETerm:
    """`terms` of a system: rates of q and v. `ManifoldSolver` takes the system from them."""
    return diffrax.ODETerm(_Motion(system))


class GroupInterpolation(diffrax.AbstractLocalInterpolation):
    """Dense output on the group: a polynomial of degree 5 in the local coordinates of the step.

    The polynomial has the positions, velocities and accelerations of both ends; velocities are its
    derivatives. Errors are of order h⁶ in configurations and h⁵ in velocities.
    """

    t0: Any  # pyright: ignore[reportIncompatibleVariableOverride]
    t1: Any  # pyright: ignore[reportIncompatibleVariableOverride]
    space: AbstractSpace
    start: State
    end: State
    accelerations: tuple[Array, Array]
    # -1 backwards in time: diffrax's own time grows then, too.
    direction: Float[Array, ""]

    @override
    def evaluate(self, t0, t1=None, left=True) -> State:
        if t1 is not None:
            first, last = self.evaluate(t0), self.evaluate(t1)
            return State(last.q - first.q, last.v - first.v)
        space, length = self.space, self.t1 - self.t0
        length = jnp.where(length == 0.0, 1.0, length)
        h = self.direction * length
        zero = jnp.zeros_like(self.start.v)
        x1 = space.inverse_retract(self.start.q, self.end.q)
        # Value, first and second derivative at both ends, time counted in steps.
        d0, dd0 = self._rates(h, zero, self.start.v, self.accelerations[0])
        d1, dd1 = self._rates(h, x1, self.end.v, self.accelerations[1])
        c3 = 10.0 * x1 - 6.0 * d0 - 4.0 * d1 - 1.5 * dd0 + 0.5 * dd1
        c4 = -15.0 * x1 + 8.0 * d0 + 7.0 * d1 + 1.5 * dd0 - dd1
        c5 = 6.0 * x1 - 3.0 * d0 - 3.0 * d1 - 0.5 * dd0 + 0.5 * dd1
        s = (t0 - self.t0) / length
        x = s * (d0 + s * (0.5 * dd0 + s * (c3 + s * (c4 + s * c5))))
        dx = d0 + s * (dd0 + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))
        return State(space.retract(self.start.q, x), space.tangent_operator(x, dx / h))

    def _rates(self, h, x, v, acceleration):
        rate = self.space.tangent_operator_inv(x, v)
        curvature = self.space.tangent_operator_inv_derivative(x, rate, v)
        return h * rate, h * h * (curvature + self.space.tangent_operator_inv(x, acceleration))


def _system(terms: Any, y: State) -> tuple[AbstractSystem, Array]:
    # diffrax wraps terms to run backwards in time.
    direction = jnp.asarray(getattr(terms, "direction", 1), y.q.dtype)
    return getattr(terms, "term", terms).vector_field.system, direction


class ManifoldSolver(diffrax.AbstractSolver):
    """An explicit method as a solver of diffrax, for `equations_of_motion(system)`.

    `integrator`: for example `lie_jax.RKMK("dopri5")`; adaptive controllers need an embedded method
    and receive errors as rates of the coordinates. Dense output takes one evaluation a step.
    """

    integrator: AbstractTableauMethod | AbstractComposition

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = GroupInterpolation

    @override
    def order(self, terms):
        return self.integrator.order

    @override
    def error_order(self, terms):
        lower = self.integrator.embedded_order
        return None if lower is None else lower + 1

    @override
    def init(self, terms, t0, t1, y0, args):
        system, direction = _system(terms, y0)
        self.integrator.check(system)
        return system.acceleration(direction * t0, y0.q, y0.v, args)

    @override
    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        system, direction = _system(terms, y0)
        t0, t1 = direction * t0, direction * t1
        step = self.integrator.step(system, t0, t1 - t0, y0, None, args)
        y1, error = step.state, None
        if step.error is not None:
            displacement, velocity = step.error
            error = State(system.space.lift(y1.q, displacement), velocity)
        acceleration = system.acceleration(t1, y1.q, y1.v, args)
        first = solver_state
        if made_jump is not False:
            first = jax.lax.cond(
                jnp.asarray(made_jump),
                lambda: system.acceleration(t0, y0.q, y0.v, args),
                lambda: solver_state,
            )
        dense = {
            "space": system.space,
            "start": y0,
            "end": y1,
            "accelerations": (first, acceleration),
            "direction": direction,
        }
        codes: Any = diffrax.RESULTS
        result = codes.where(step.converged, codes.successful, codes.nonlinear_divergence)
        return y1, error, dense, acceleration, result

    @override
    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)
