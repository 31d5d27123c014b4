"""Contract of an integrator, and the record of a step."""

import abc
import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from lie_jax.integrators.stability import Estimate
from lie_jax.numerics import newton
from lie_jax.systems.system import AbstractSystem, Accelerations, Inputs, State

Time = Float[Array, ""]


class Difference(NamedTuple):
    """Small difference of two states: velocity times time (nv,) and velocity (nv,)."""

    displacement: Array
    velocity: Array


class Step(NamedTuple):
    """End of a step. A method without iterations writes `Step(State(q, v), carry)`.

    `state`: at the end of the step. `carry`: values that the integrator passes to its next step.
    `newton_iterations`; `converged`: success of the iterations or of the projection. `residuals`:
    largest entry of the residual after each iteration, as many as the integrator's `history`,
    `newton.NONE` without an iteration. `worst`: number of the equation with the largest residual,
    -1 if unknown. `error`: embedded method's end minus the method's, if there is an embedded one.
    `stability`: estimate of h |λ| relative to the limit of stability, None for methods without one.
    """

    state: State
    carry: Any = None
    newton_iterations: Int[Array, ""] | int = 0
    converged: Bool[Array, ""] | bool = True
    residuals: Float[Array, " history"] | float = newton.NONE
    worst: Int[Array, ""] | int = -1
    error: Difference | None = None
    stability: Estimate | None = None


class AbstractIntegrator(eqx.Module):
    """Method of steps: pure functions, with a carry beside the `State`.

    `history`: number of residuals that a step records. `shortest`: shortest step, in parts of those
    of the run, that rounding leaves accurate; shorter ones, beside events, are Taylor's.
    """

    history: ClassVar[int] = 1
    shortest: ClassVar[float] = 0.0
    # Whether a step needs more of the one before than its end, besides guesses.
    needs_past: ClassVar[bool] = False

    # Equinox leaves out what has its default value, the tableau of a method for example.
    def __repr__(self):
        values = (f"{x.name}={getattr(self, x.name)!r}" for x in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(values)})"

    @property
    def embedded_order(self) -> int | None:
        """Lower order of the method and its embedded method; None without an embedded method."""
        return None

    @property
    def largest_growth(self) -> float:
        """Largest ratio of an automatic step to the one before that the method accepts."""
        return math.inf

    def with_estimate(self, system: AbstractSystem) -> "AbstractIntegrator":
        """The method with an `embedded_order`, for automatic steps.

        Raises `ValueError` for a method that cannot estimate its error, or not for this system.
        """
        if self.embedded_order is None:
            raise ValueError(
                f"simulate(adaptive=): {type(self).__name__} has no estimate of its error here; "
                "use a tableau with embedded weights, for example lie_jax.RKMK('dopri5'), or "
                "lie_jax.ImplicitRKMK('radau5') for stiff forces and constraints."
            )
        return self

    def check(self, system: AbstractSystem) -> None:
        """Raise `ValueError` for a system that the method cannot integrate."""

    @abc.abstractmethod
    def init(self, system: AbstractSystem, t: Time, dt: Time, state: State, u: Inputs) -> Any:
        """Carry of the first step, of size dt (s) from time t."""

    def passes(self, system: AbstractSystem) -> int:
        """Number of steps which, after `begin`, do not move but complete the first carry: a time
        loop then holds their equations once.
        """
        return 0

    def begin(
        self, system: AbstractSystem, t: Time, dt: Time, state: State, u: Inputs, passes: int
    ) -> Any:
        """Carry before so many passes, `passes(system)` of them or more."""
        return self.init(system, t, dt, state, u)

    def starting(self, carry: Any) -> Bool[Array, ""] | None:
        """Whether the next step is a pass; None where no pass is left."""
        return None

    def ready(self, carry: Any) -> Any:
        """The carry after all passes: that of `init`."""
        return carry

    @abc.abstractmethod
    def step(
        self, system: AbstractSystem, t: Time, dt: Time, state: State, carry: Any, u: Inputs
    ) -> Step:
        """Step of size dt (s) from time t, with constant inputs u."""

    @abc.abstractmethod
    def accelerations(
        self, system: AbstractSystem, t: Time, state: State, carry: Any, u: Inputs
    ) -> Accelerations:
        """Accelerations and multipliers at a state, for the trajectory.

        `carry`: of the step that ended there, or None if no step did.
        """

    def first_accelerations(
        self, system: AbstractSystem, t: Time, state: State, carry: Any, u: Inputs
    ) -> Accelerations:
        """`accelerations` before the first step, with the carry of `init` or of a restart."""
        return self.accelerations(system, t, state, carry, u)
