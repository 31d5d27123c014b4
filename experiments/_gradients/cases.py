"""Pairs of integrators and formulations, and their models."""

from collections.abc import Callable
from typing import NamedTuple

import lie_jax
from experiments import newton_rule
from experiments._gradients.mechanism import MECHANISM
from experiments._gradients.parameters import Model
from experiments._gradients.small import SMALL
from lie_jax import Baumgarte, CommutatorFree, CrouchGrossman, ImplicitRKMK, RungeKutta


class Case(NamedTuple):
    """`integrator(number)` makes the method from the parameter of the kind "method".

    `constraints` is what the model's `build` takes: hinges of the mechanism, whether the small
    body's point is held.
    """

    model: Model
    integrator: Callable[..., lie_jax.extend.AbstractIntegrator]
    formulation: lie_jax.extend.AbstractFormulation
    constraints: int
    adaptive: bool = False
    single: bool = True

    @property
    def reads_multipliers(self) -> bool:
        """Whether accelerations and multipliers are results of the steps."""
        return isinstance(self.integrator(0.8), lie_jax.GeneralizedAlpha)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Kinds of parameters with respect to which every derivative is zero."""
        integrator = self.integrator(0.8)
        stabilized = isinstance(getattr(integrator, "stabilization", None), Baumgarte)
        method = () if self.reads_multipliers or stabilized else ("method",)
        return (*method, "dt", "inputs") if self.adaptive else method


def _rkmk(tableau: str) -> Callable[..., lie_jax.extend.AbstractIntegrator]:
    return lambda number: lie_jax.RKMK(tableau)


def _alpha(**options) -> Callable[..., lie_jax.extend.AbstractIntegrator]:
    return lambda number: lie_jax.GeneralizedAlpha(number, **options)


def _explicit(method: Callable, *arguments) -> Callable[..., lie_jax.extend.AbstractIntegrator]:
    return lambda number: method(*arguments)


_R3SO3 = lie_jax.R3SO3()

# Each method, on the small body with its point held (1) or not (0).
_INTEGRATORS: dict[str, tuple[Callable[..., lie_jax.extend.AbstractIntegrator], int]] = {
    **{f"RKMK {tableau}": (_rkmk(tableau), 0) for tableau in ("heun", "rk4", "dopri5", "rk67")},
    **{f"CommutatorFree {n}": (_explicit(CommutatorFree, n), 0) for n in (2, 3, 4)},
    **{f"CrouchGrossman {n}": (_explicit(CrouchGrossman, n), 0) for n in (2, 3, 4)},
    "RungeKutta rk4": (_explicit(RungeKutta, "rk4"), 0),
    "RKMK heun, projection": (_rkmk("heun"), 1),
    "RKMK heun, Baumgarte": (
        lambda number: lie_jax.RKMK("heun", stabilization=Baumgarte(10.0 * number)),
        1,
    ),
    "CommutatorFree 3, projection": (_explicit(CommutatorFree, 3), 1),
    "CrouchGrossman 2, projection": (_explicit(CrouchGrossman, 2), 1),
    "RungeKutta heun, projection": (_explicit(RungeKutta, "heun"), 1),
    **{
        f"ImplicitRKMK {tableau} {jacobian}": (_explicit(ImplicitRKMK, tableau, jacobian), 0)
        for tableau in ("gauss2", "gauss4", "gauss6")
        for jacobian in ("autodiff", "analytic")
    },
    "GeneralizedAlpha, free": (_alpha(), 0),
    "GeneralizedAlpha": (_alpha(), 1),
    "GeneralizedAlpha analytic": (_alpha(jacobian="analytic"), 1),
    "GeneralizedAlpha index 2": (_alpha(index=2), 1),
    "GeneralizedAlpha modified": (_alpha(newton="modified"), 1),
    "GeneralizedAlpha modified analytic index 2": (
        _alpha(newton="modified", jacobian="analytic", index=2),
        1,
    ),
    "GeneralizedAlpha without T": (_alpha(tangent_operator=False), 1),
    "GeneralizedAlpha holzinger2024": (newton_rule.GeneralizedAlpha, 1),
}
_ADAPTIVE = {
    "RKMK dopri5, adaptive": (_rkmk("dopri5"), 0),
    "RKMK ode23, adaptive, projection": (_rkmk("ode23"), 1),
    "RungeKutta ode23, adaptive": (_explicit(RungeKutta, "ode23"), 0),
}

# Hinges of the mechanism for methods that take constraints, and for those that do not.
_FORMULATIONS: dict[str, tuple[lie_jax.extend.AbstractFormulation, int, int]] = {
    **{
        f"{group.__name__} {coordinates} {chart}": (
            group(coordinates=coordinates, chart=chart),
            2,
            0,
        )
        for group in (lie_jax.R3SO3, lie_jax.SE3)
        for coordinates in ("quaternion", "rotation_vector")
        for chart in ("exp", "cayley")
    },
    "EulerParameters": (lie_jax.EulerParameters(), 2, 2),
    "EulerParameters, not normalized": (lie_jax.EulerParameters(normalized=False), 2, 2),
    "TaitBryan": (lie_jax.TaitBryan(), 2, 0),
    "UnifiedVelocity": (lie_jax.UnifiedVelocity(), 2, 0),
    "Minimal": (lie_jax.Minimal(), 2, 2),
    "Minimal, floating": (lie_jax.Minimal(), 1, 1),
}
# Nearly every formulation runs by an explicit method; these by others, too.
_BY_ALPHA = (
    "SE3 quaternion exp",
    "SE3 rotation_vector cayley",
    "EulerParameters, not normalized",
    "TaitBryan",
    "UnifiedVelocity",
    "Minimal, floating",
)
_BY_GAUSS = ("R3SO3 quaternion cayley", "SE3 rotation_vector exp", "Minimal")
_BY_PROJECTION = ("SE3 quaternion exp",)


# Of those on the small body, what single precision is measured for.
_IN_SINGLE = (
    "RKMK rk4",
    "CommutatorFree 4",
    "CrouchGrossman 4",
    "RungeKutta rk4",
    "RKMK heun, projection",
    "ImplicitRKMK gauss4 autodiff",
    "GeneralizedAlpha",
    "GeneralizedAlpha index 2",
    "GeneralizedAlpha modified",
    "RKMK dopri5, adaptive",
)


def _cases() -> dict[tuple[str, str], Case]:
    cases = {}
    body = "one body"
    for name, (integrator, held) in _INTEGRATORS.items():
        cases[name, body] = Case(SMALL, integrator, _R3SO3, held, single=name in _IN_SINGLE)
    for name, (integrator, held) in _ADAPTIVE.items():
        cases[name, body] = Case(SMALL, integrator, _R3SO3, held, True, name in _IN_SINGLE)
    for name, (formulation, hinges, without) in _FORMULATIONS.items():
        runs = {}
        # Polynomials of Euler parameters that are not normalised are for implicit methods.
        if name != "EulerParameters, not normalized":
            runs["RKMK midpoint"] = _rkmk("midpoint"), without
        if name in _BY_PROJECTION:
            runs["RKMK midpoint, projection"] = (_rkmk("midpoint"), hinges)
        if name in _BY_ALPHA:
            runs["GeneralizedAlpha"] = (_alpha(), hinges)
        if name in _BY_GAUSS:
            runs["ImplicitRKMK gauss2 analytic"] = (
                _explicit(ImplicitRKMK, "gauss2", "analytic"),
                without,
            )
        for method, (integrator, count) in runs.items():
            cases[method, name] = Case(MECHANISM, integrator, formulation, count)
    return cases


CASES = _cases()
