"""Check of methods for control and estimation, whose steps start from a state alone."""

from typing import Any

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.explicit import RungeKutta
from lie_jax.systems.system import AbstractSystem


def check_method(where: str, method: Any) -> None:
    """Raise `ValueError` unless steps of the method follow from the state before them."""
    if not isinstance(method, AbstractIntegrator):
        raise ValueError(
            f"{where} is {method!r}; it must be an integrator, for example lie_jax.RKMK('rk4')."
        )
    if method.needs_past:
        raise ValueError(
            f"{where} is {type(method).__name__}, whose steps need more of the one before than the "
            "state at its end; here every step must start from a state alone: use "
            "lie_jax.RKMK('rk4'), another explicit method, lie_jax.ImplicitRKMK(), "
            "lie_jax.RATTLie(), or lie_jax.ConvexContact() for robots on the ground."
        )


def check_group(where: str, method: AbstractIntegrator, system: AbstractSystem) -> None:
    """Raise `ValueError` for a method that leaves the group of the system."""
    if isinstance(method, RungeKutta) and system.nq != system.nv:
        raise ValueError(
            f"{where} is RungeKutta, which leaves the group when {system.nq} coordinates belong to "
            f"{system.nv} velocities; use lie_jax.RKMK('rk4')."
        )
