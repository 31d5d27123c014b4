"""Derivatives of the maps to third order, in every nesting of forward and reverse mode."""

import itertools
from functools import reduce
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax.groups import adjoint, closed_forms, quaternion, se3, so3
from tests import golden
from tests.groups.samples import ANGLES, CASES, samples
from tests.suites import cases

# Derivatives at the identity are sums of some ten products of numbers of order one.
EXACT_EPS = 16
# Rounding of different orders of summation over some hundred terms of order one.
AGREEMENT_EPS = 200

GROUPS = {"so3": so3, "se3": se3, "quaternion": quaternion, "adjoint": adjoint}
MODES = {2: ("f", "r", "ff", "fr", "rf", "rr"), 3: ("fff", "frr", "rrr")}
# `make test` takes all modes for one map, these for the others.
QUICK_MODES = ("f", "r", "ff", "fr")


def _along(mode, function, u):
    """Directional derivative of a scalar function along u, in forward or reverse mode."""
    if mode == "f":
        return lambda x: jax.jvp(function, (x,), (u,))[1]
    return lambda x: jnp.vdot(jax.grad(function)(x), u)


def _nested(modes, function, directions):
    for mode, u in zip(modes, directions, strict=False):
        function = _along(mode, function, u)
    return function


def _power_series(product, generators, coefficient):
    """Derivative along the generators of a series whose term of this order has the coefficient."""
    orders = itertools.permutations(generators)
    return coefficient * sum(reduce(product, order) for order in orders)


# Coefficient of the term of order k, of what, and of which map.
SERIES = {
    "exp": ("hat", lambda k: 1 / factorial(k)),
    "cay": ("hat", lambda k: 2.0),
    "dexp": ("ad", lambda k: 1 / factorial(k + 1)),
    "dexp_inv": ("ad", lambda k: {1: -1 / 2, 2: 1 / 12, 3: 0.0}[k]),
}
# Their derivatives at the identity are those of the power series.
FUNCTIONS_AT_IDENTITY = [
    *(("so3", f) for f in SERIES),
    *(("se3", f) for f in SERIES),
    ("quaternion", "exp"),
    ("adjoint", "cay"),
]
FUNCTIONS = [
    *FUNCTIONS_AT_IDENTITY,
    ("quaternion", "cay"),
    ("adjoint", "exp"),
    *((name, "dcay_inv") for name in GROUPS),
    ("so3", "cay2"),
    ("quaternion", "cay2"),
    ("so3", "ddexp, closed"),
    ("so3", "ddexp_inv, closed"),
]


# One map for each series, and the least alike of the others. Poses and quaternions move in the
# derivatives of steps.
QUICK = {
    ("so3", "exp"),
    ("so3", "cay"),
    ("so3", "dexp_inv"),
    ("quaternion", "cay2"),
    ("adjoint", "dcay_inv"),
}


def _function(name, function):
    if name == "so3" and function.endswith(", closed"):
        closed = getattr(closed_forms, f"so3_{function.removesuffix(', closed')}")
        return lambda x: closed(x, x[::-1])
    return getattr(GROUPS[name], function)


def _small(name):
    return name in ("so3", "quaternion")


def _dimension(name):
    return 3 if _small(name) else 6


def _check_at_identity(name, function, modes, got, u, covector):
    """A derivative against that of the power series."""
    product = quaternion.multiply if name == "quaternion" else np.matmul
    generator, coefficient = SERIES[function]
    k = len(modes)
    generators = [np.asarray(getattr(GROUPS[name], generator)(v)) for v in u[:k]]
    expected = np.vdot(covector, _power_series(product, generators, coefficient(k)))
    size = float(np.sum(np.abs(covector))) * float(np.prod(np.max(np.abs(u[:k]), axis=1)))
    eps = float(jnp.finfo(u.dtype).eps)
    golden.assert_close(got, expected, rtol=0, atol=EXACT_EPS * eps * size, err_msg=modes)


def _cases():
    for (name, function), dtype in itertools.product(FUNCTIONS, (jnp.float32, jnp.float64)):
        at_identity = (name, function) in FUNCTIONS_AT_IDENTITY
        if dtype == jnp.float32 and not at_identity and function != "exp":
            continue
        modes = MODES[2] if at_identity else ("f", "r", "ff", "rr")
        # Larger programs and single precision have the same rules.
        quick = (name, function) in QUICK and dtype == jnp.float64
        if quick and (name, function) != ("so3", "exp"):
            yield _case(name, function, dtype, QUICK_MODES, quick=True)
            quick = False
        yield _case(name, function, dtype, modes, quick=quick)


def _case(name, function, dtype, modes, *, quick):
    return pytest.param(
        name, function, dtype, modes, marks=() if quick else pytest.mark.full,
        id=f"{name}-{function}-{dtype.__name__}-{len(modes)} modes",
    )  # fmt: skip


@pytest.mark.parametrize(("name", "function", "dtype", "modes"), list(_cases()))
def test_first_and_second_derivatives(name, function, dtype, modes):
    """Exact at the identity, and the same in all modes there and everywhere else: at tiny rotations
    with translations of order one, next to π, and beyond.
    """
    case = CASES[{"so3": "SO(3)", "se3": "SE(3)", "quaternion": "S3", "adjoint": "Ad(SE(3))"}[name]]
    elsewhere = samples(case)[ANGLES < 4.6].astype(dtype)
    x = np.concatenate([np.zeros((1, _dimension(name)), dtype), elsewhere])
    rng = np.random.default_rng(9)
    u, w = rng.normal(size=(2, *x.shape)).astype(dtype)
    at_identity = (name, function) in FUNCTIONS_AT_IDENTITY
    map_ = _function(name, function)
    covector = rng.normal(size=jax.eval_shape(map_, x[0]).shape).astype(dtype)

    @jax.jit
    @jax.vmap
    def derivatives(x, u, w):
        def number(x):
            return jnp.vdot(covector, map_(x))

        return {m: _nested(m, number, (u, w))(x) for m in modes}

    got = derivatives(x, u, w)
    eps = float(jnp.finfo(dtype).eps)
    for mode, values in got.items():
        assert np.all(np.isfinite(values)), mode
        forward = got["f" * len(mode)]
        scale = max(1.0, float(np.max(np.abs(forward))))
        golden.assert_close(values, forward, atol=AGREEMENT_EPS * eps * scale, err_msg=mode)
        if at_identity:
            along = np.stack([u[0], w[0]])
            _check_at_identity(name, function, mode, values[0], along, covector)


def _cases_of_third_order():
    for (name, function), dtype in itertools.product(
        FUNCTIONS_AT_IDENTITY, (jnp.float32, jnp.float64)
    ):
        yield pytest.param(name, function, dtype, id=f"{name}-{function}-{dtype.__name__}")


# Their programs compile for up to minutes.
@pytest.mark.full
@pytest.mark.parametrize(("name", "function", "dtype"), list(_cases_of_third_order()))
def test_third_derivatives_at_the_identity_are_exact(name, function, dtype):
    rng = np.random.default_rng(11)
    u = rng.normal(size=(3, _dimension(name))).astype(dtype)
    zero = np.zeros(_dimension(name), dtype)
    map_ = _function(name, function)
    covector = rng.normal(size=jax.eval_shape(map_, zero).shape).astype(dtype)

    def number(x):
        return jnp.vdot(covector, map_(x))

    for mode in MODES[3]:
        got = jax.jit(_nested(mode, number, u))(zero)
        _check_at_identity(name, function, mode, got, u, covector)


# `make test` has the logarithm of half turns, below.
@pytest.mark.full
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", ["so3", "se3"])
def test_log_undoes_exp_at_the_identity(name, order):
    group = GROUPS[name]
    n = 3 if name == "so3" else 6
    u = np.random.default_rng(12).normal(size=(3, n))
    covector = np.linspace(-1.0, 1.0, n)

    @jax.jit
    def derivatives(x):
        def number(x):
            return jnp.vdot(covector, group.log(group.exp(x)))

        return {m: _nested(m, number, u)(x) for m in MODES[order]}

    for mode, got in derivatives(np.zeros(n)).items():
        expected = np.vdot(covector, u[0]) if len(mode) == 1 else 0.0
        golden.assert_close(got, expected, atol=EXACT_EPS * 2.3e-16, err_msg=mode)


@pytest.mark.parametrize("dtype", cases([jnp.float32, jnp.float64], [jnp.float64]))
@pytest.mark.parametrize("name", cases(["so3", "se3"], []))
def test_derivatives_of_a_retraction_next_to_every_rotation(name, dtype):
    """log(C⁻¹ C exp(d)) is d for every C: a Jacobian of ones, a Hessian of zeros."""
    group = GROUPS[name]
    x = samples(CASES["SO(3)" if name == "so3" else "SE(3)"]).astype(dtype)
    zero = jnp.zeros(x.shape[1], dtype)

    @jax.jit
    @jax.vmap
    def derivatives(x):
        c = group.exp(x)

        def between(d):
            return group.log(group.compose(group.inverse(c), group.compose(c, group.exp(d))))

        return jax.jacfwd(between)(zero), jax.jacfwd(jax.jacrev(between))(zero)

    jacobian, hessian = derivatives(x)
    tolerance = AGREEMENT_EPS * float(jnp.finfo(dtype).eps)
    golden.assert_close(
        jacobian, np.broadcast_to(np.eye(x.shape[1]), jacobian.shape), atol=tolerance
    )
    golden.assert_close(hessian, np.zeros_like(hessian), atol=tolerance)


@pytest.mark.parametrize("dtype", cases([jnp.float32, jnp.float64], [jnp.float64]))
def test_logarithms_of_half_turns_have_derivatives(dtype):
    """At exactly π the logarithm jumps, but is smooth on the side that it chooses."""
    q = jnp.asarray([[0, 1, 0, 0], [0, 0, 0, 1], [-0.0, 0.6, -0.8, 0]], dtype)
    zero = jnp.zeros(3, dtype)

    @jax.jit
    @jax.vmap
    def derivatives(q):
        got, expected = [], []
        for group, c in ((quaternion, q), (so3, quaternion.to_matrix(q))):

            def differ(d, group=group, c=c):
                return group.log(group.compose(c, group.exp(d)))

            got += [mode(differ)(zero) for mode in (jax.jacfwd, jax.jacrev)]
            # d ↦ log(C exp d) has the derivative dexp⁻¹(-log C).
            expected += 2 * [so3.dexp_inv(-group.log(c))]
        return got, expected

    tolerance = AGREEMENT_EPS * float(jnp.finfo(dtype).eps)
    for got, expected in zip(*derivatives(q), strict=True):
        golden.assert_close(got, expected, atol=tolerance)
