"""What every integrator offers."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int

from lie_jax.system import AbstractSystem, Accelerations, State


class Step(NamedTuple):
    """State after a step, the integrator's own carry, Newton iterations, whether they or the
    projection converged, the residuals on the way (the largest entry of each; `newton.NONE` where
    there was no iteration), the number of the equation with the largest one (-1 if that is not
    known), the state of an embedded method of another order if there is one, and the fourth power
    of h |λ| next to the limit of stability (see `stability`), None for methods without one.
    """

    state: State
    carry: Any
    newton_iterations: Int[Array, ""]
    converged: Bool[Array, ""]
    residuals: Float[Array, " history"]
    worst: Int[Array, ""]
    embedded: State | None = None
    stability: Float[Array, ""] | None = None


class AbstractIntegrator(eqx.Module):
    """A one-step method: pure functions, with a carry of its own beside the `State`."""

    @property
    def embedded_order(self) -> int | None:
        """The lower order of the method and its embedded one, if there is one."""
        return None

    @property
    def history(self) -> int:
        """How many residuals a step notes."""
        return 1

    @abc.abstractmethod
    def check(self, system: AbstractSystem) -> None:
        """Raise `ValueError` if the method cannot integrate such a system."""

    @abc.abstractmethod
    def init(
        self,
        system: AbstractSystem,
        t: Float[Array, ""],
        dt: Float[Array, ""],
        state: State,
        u: Array | None,
    ) -> Any:
        """The carry of the first step, of size dt (s) from time t."""

    @abc.abstractmethod
    def step(
        self,
        system: AbstractSystem,
        t: Float[Array, ""],
        dt: Float[Array, ""],
        state: State,
        carry: Any,
        u: Array | None,
    ) -> Step:
        """One step of size dt (s) from time t, with the inputs u held over it."""

    @abc.abstractmethod
    def accelerations(
        self,
        system: AbstractSystem,
        t: Float[Array, ""],
        state: State,
        carry: Any,
        u: Array | None,
    ) -> Accelerations:
        """Accelerations and multipliers at a state, for the trajectory."""


def refuse_constraints(integrator: AbstractIntegrator, system: AbstractSystem) -> None:
    """Raise `ValueError` for a system with constraints."""
    if system.nc:
        raise ValueError(
            f"{type(integrator).__name__} cannot take a system with {system.nc} constraints; use "
            "lie_jax.GeneralizedAlpha() or an explicit method such as lie_jax.RKMK('rk4'), or a "
            "formulation without constraints."
        )
