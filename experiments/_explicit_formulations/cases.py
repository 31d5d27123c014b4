"""Cases of the comparison: formulations and explicit methods, on two models."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

import lie_jax
from models import heavy_top, rotor

# [S3]'s abbreviations. It integrates Euler parameters with implicit methods only.
FORMULATIONS: dict[str, lie_jax.extend.AbstractCoordinates] = {
    "RV": lie_jax.R3SO3(coordinates="rotation_vector"),
    "Rxyz": lie_jax.TaitBryan(),
    "EP": lie_jax.EulerParameters(),
}
NAMES = {
    "RV": "R³×SO(3), rotation vector (RV)",
    "Rxyz": "Tait-Bryan angles (Rxyz)",
    "EP": "Euler parameters (EP)",
    "Rxyz, axis z": "angles, top's axis z",
}
METHODS = {
    "RK44": lie_jax.RKMK("rk4"),
    "DOPRI5": lie_jax.RKMK("dopri5"),
    "RK67": lie_jax.RKMK("rk67"),
}
# Besides, what `lie_jax` stores by default, the same method with the same errors.
QUATERNION = "quaternion"


class Case(NamedTuple):
    """A model, observed over some seconds.

    `builds` gives for each formulation a function of nothing that returns system and state,
    `observe(system, q)` the point (3,) whose error counts and `reference` where it is at the end.
    `step_counts` of each formulation are doubled from each to the next.
    """

    builds: dict[str, Callable]
    observe: Callable
    reference: tuple[float, ...]
    seconds: float
    step_counts: dict[str, tuple[int, ...]]


def _doubled(first: int, count: int) -> tuple[int, ...]:
    return tuple(first * 2**k for k in range(count))


# The same top in body axes of which z, not y, is that of symmetry.
_AXIS_Z = {
    "inertia": jnp.diag(jnp.asarray([0.234375, 0.234375, 0.46875])),
    "center_of_mass": (0.0, 0.0, 1.0),
    "orientation": (0.5**0.5, -(0.5**0.5), 0.0, 0.0),
    "omega_body": (0.0, 4.61538, 150.0),
}


def _build(model, name: str, **parameters) -> Callable:
    return lambda: model.build(FORMULATIONS[name], **parameters)


# [S3]'s steps are 1e-4 / 2^(n-1) s, n = 1 to 8. On the top three larger ones come before. What is
# left out at the other end shows rounding only, or takes millions of steps.
CASES = {
    "heavy top": Case(
        {name: _build(heavy_top, name) for name in FORMULATIONS}
        | {"Rxyz, axis z": _build(heavy_top, "Rxyz", **_AXIS_Z)},
        heavy_top.center_of_mass,
        heavy_top.REFERENCE[1.0],
        1.0,
        {name: _doubled(1250, 11) for name in ("RV", "Rxyz")}
        | {"EP": _doubled(1250, 8), "Rxyz, axis z": _doubled(1250, 7)},
    ),
    "rotor": Case(
        {name: _build(rotor, name) for name in FORMULATIONS},
        rotor.observed_point,
        rotor.REFERENCE[4.0],
        4.0,
        {
            "RV": _doubled(40_000, 6),
            "Rxyz": _doubled(40_000, 7),
            "EP": _doubled(40_000, 5),
        },
    ),
}
