"""Splines: inputs from few coefficients."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics.conversion import as_float


def spline_basis(
    steps: int, coefficients: int, degree: int = 3
) -> Float[Array, "steps coefficients"]:
    """Matrix from B-spline coefficients (coefficients, nu) to the inputs (steps, nu).

    Knots divide the run evenly, the first and last coefficient are the inputs at its start and
    end, and each step gets the value at its middle. Rows are not negative and sum to 1: inputs stay
    within the limits of the coefficients. `degree` 1 joins the coefficients by straight lines, 3
    by a cubic spline. Raises `ValueError` for numbers that are no positive integers, and if there
    are not more coefficients than the degree, or more of them than steps.
    """
    checks.positive_integer("spline_basis(steps=)", steps, "the number of steps")
    checks.positive_integer("spline_basis(coefficients=)", coefficients, "their number")
    checks.positive_integer("spline_basis(degree=)", degree, "degree of the polynomials")
    if not degree < coefficients <= steps:
        raise ValueError(
            f"spline_basis(coefficients=) is {coefficients}; it must be more than degree={degree} "
            f"and at most steps={steps}."
        )
    # SciPy comes with JAX; it is loaded when it is needed.
    from scipy.interpolate import BSpline

    inner = np.linspace(0.0, 1.0, coefficients - degree + 1)
    knots = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
    middle = (np.arange(steps) + 0.5) / steps
    table = BSpline.design_matrix(middle, knots, degree).toarray()
    return as_float(jnp.asarray(table))
