"""Series of the small-angle coefficients are exact to a few units in the last place."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lie_jax.groups import series
from tests import golden
from tests.suites import cases

# Units in the last place (machine epsilons, relative) that a value, a first and a second derivative
# may be off: what the scheme of `series` reaches with room for the platform's sine and cosine.
VALUE_EPS, FIRST_EPS, SECOND_EPS = 4, 6, 10
# Below this angle; towards 2π values are as ill-conditioned as 1 / (1 - θ/2π).
WELL_CONDITIONED = 4.6


def _half_derivatives(c, k):
    """Value and two derivatives in t of c_k, from c_k' = ½ (k c_{k+2} - c_{k+1})."""
    c = [Fraction(digits) for digits in c]

    def first(j):
        return (j * c[j + 2] - c[j + 1]) / 2

    second = (k * first(k + 2) - first(k + 1)) / 2
    return np.asarray([float(c[k]), float(first(k)), float(second)])


@pytest.fixture(scope="module")
def table():
    rows = [r for r in golden.MAPS["coefficients"] if float(r["theta"]) < WELL_CONDITIONED]
    t = np.asarray([float(r["t"]) for r in rows])
    expected = {f"c{k}": np.stack([_half_derivatives(r["c"], k) for r in rows]) for k in (1, 2, 3)}
    expected["c1 of both"] = expected["c1"]
    expected["e"] = np.stack([golden.array([r["E"], r["dE_dt"], r["d2E_dt2"]]) for r in rows])
    return t, expected


@pytest.mark.parametrize("dtype", cases([jnp.float32, jnp.float64], []))
def test_values_and_two_derivatives_are_exact_to_a_few_ulp(table, dtype):
    t, expected = table
    single = dtype == jnp.float32
    # A rounded t moves the values by its own rounding: compare in single precision where the
    # rounded argument is the golden one to single precision.
    t = jnp.asarray(t, dtype)

    @jax.jit
    @jax.vmap
    def all_derivatives(t):
        return {
            name: jnp.stack(
                [f(t), jax.grad(f)(t), jax.jacfwd(jax.jacfwd(f))(t), jax.grad(jax.jacfwd(f))(t)]
            )
            for name, f in (
                ("c1", series.c1),
                ("c1 of both", lambda t: series.c0_and_c1(t)[1]),
                ("c2", series.c2),
                ("c3", series.c3),
                ("e", series.e),
            )
        }

    got = jax.tree.map(np.asarray, all_derivatives(t))
    eps = float(jnp.finfo(dtype).eps)
    for name, reference in expected.items():
        # Next to a zero of a function (c1' has one at θ = 4.49) only the absolute error is small.
        size = np.maximum(np.abs(reference), 1e-2 * np.abs(reference[:1]))
        relative = np.abs(got[name][:, :3] - reference) / size / eps
        # In single precision rounding t itself adds up to an eps times the condition number.
        bounds = np.asarray([VALUE_EPS, FIRST_EPS, SECOND_EPS]) * (2 if single else 1)
        assert np.all(relative.max(axis=0) < bounds), (name, relative.max(axis=0))
        assert np.all(np.abs(got[name][:, 2] - got[name][:, 3]) / size[:, 2] < SECOND_EPS * eps)


def test_branches_meet_at_the_switches():
    # A wrong coefficient of a Taylor polynomial shows as a step at its switch, in the value or in
    # its derivative.
    switches = np.asarray([4.0, 10.0, 16.0])

    @jax.jit
    def values(t):
        functions = (series.c1, series.c2, series.c3)
        return [jax.jvp(f, (t[i],), (1.0,)) for i, f in enumerate(functions)]

    assert_allclose(values(np.nextafter(switches, 0)), values(switches), rtol=1e-12)


def test_arctan_ratio_is_smooth_at_zero_and_matches_atan2():
    y = jnp.asarray([0.0, 1e-18, 0.06, 0.0626, 1.0, 100.0])
    x = jnp.asarray([1.0, 1.0, 1.0, 1.0, 0.5, 0.0])
    root = np.sqrt(np.asarray(y))
    expected = np.where(root > 0, np.arctan2(root, x) / np.where(root > 0, root, 1), 1.0)
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(series.arctan_ratio)))(y, x)
    assert_allclose(values, expected, rtol=1e-15)
    assert_allclose(slopes[:2], -1.0 / 3.0, rtol=1e-15)
