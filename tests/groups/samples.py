"""Groups, elements at the angles that matter, and bounds on residuals of their relations."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.groups import adjoint, quaternion, rn, se3, so3
from lie_jax.groups.product import direct_product, power

# Rounding of products of a few matrices with entries of order one to ten, in machine epsilons; an
# inverse map may amplify it by its condition number.
ROUNDING_EPS = 100
EPS = float(jnp.finfo(jnp.float64).eps)

# Identity, tiny and small rotations (with translations of order one), random ones, the
# neighbourhood of π on both sides, and angles between π and 2π.
ANGLES = np.asarray([0.0, 1e-9, 1e-4, 1e-2, 0.7, 2.6, np.pi - 1e-7, np.pi + 1e-3, 4.5, 6.0])


class Case(NamedTuple):
    group: object
    dimension: int
    rotations: tuple  # where in an algebra element the rotation vectors begin
    charts: tuple = ("exp", "cay")
    has_matrices: bool = False


CASES = {
    "SO(3)": Case(so3, 3, (0,), ("exp", "cay", "cay2"), True),
    "S3": Case(quaternion, 3, (0,), ("exp", "cay", "cay2")),
    "SE(3)": Case(se3, 6, (3,), has_matrices=True),
    "Ad(SE(3))": Case(adjoint, 6, (3,), has_matrices=True),
    "R4": Case(rn, 4, ()),
    "R3 x SO(3)": Case(direct_product((rn, 3), (so3, 3)), 6, (3,)),
    "SO(3)^2": Case(power(so3, 3, 2), 6, (0, 3)),
}


def samples(case, seed=7):
    """Algebra elements, one a row: translations of order one, rotations by the `ANGLES`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(ANGLES), case.dimension))
    for start in case.rotations:
        axes = x[:, start : start + 3]
        axes *= (ANGLES / np.linalg.norm(axes, axis=1))[:, None]
    return x


def directions(case, count):
    rng = np.random.default_rng(8)
    return rng.normal(size=(count, len(ANGLES), case.dimension))


def difference(a, b):
    return jax.tree.map(jnp.subtract, a, b)


def check(residuals, bounds):
    """Every residual below its bound, relative to the size of what was compared."""
    for rule, value in residuals.items():
        worst = np.max(
            [
                np.max(np.abs(leaf), axis=tuple(range(1, leaf.ndim)))
                for leaf in jax.tree.leaves(value)
            ],
            axis=0,
        )
        assert np.all(worst < bounds), (rule, worst / bounds)
