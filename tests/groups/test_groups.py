"""One battery of relations, run for every group and chart; numbers are those of [S4]."""

from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from lie_jax.groups import adjoint, se3
from tests import golden
from tests.groups.samples import (
    ANGLES,
    CASES,
    EPS,
    ROUNDING_EPS,
    check,
    difference,
    directions,
    samples,
)
from tests.suites import cases

# Bernoulli numbers of the series (2.3).
BERNOULLI = {
    **{0: 1.0, 1: -1 / 2, 2: 1 / 6, 4: -1 / 30, 6: 1 / 42, 8: -1 / 30, 10: 5 / 66},
    **{12: -691 / 2730, 14: 7 / 6, 16: -3617 / 510, 18: 43867 / 798, 20: -174611 / 330},
}
DEXP_SERIES = {k: 1 / factorial(k + 1) for k in range(25)}
DEXP_INV_SERIES = {k: b / factorial(k) for k, b in BERNOULLI.items()}


def _chart(group, name):
    """The map, its inverse, dψ, dψ⁻¹ and their derivatives, under one chart's names."""
    inverse = {"exp": "log", "cay": "cay_inv", "cay2": "cay2_inv"}[name]
    names = (name, inverse, f"d{name}", f"d{name}_inv", f"dd{name}", f"dd{name}_inv")
    return [getattr(group, n) for n in names]


def _velocity_at_unit(group, curve, x, u):
    """Velocity of curve(x) along u where the curve passes the unit element."""
    if not hasattr(group, "vee"):
        return jax.jvp(lambda x: group.log(curve(x)), (x,), (u,))[1]
    # On matrices and quaternions the velocity is the derivative itself.
    return group.vee(jax.jvp(curve, (x,), (u,))[1])


CHARTS = [(n, c) for n, case in CASES.items() for c in case.charts]
# Products of groups whose own charts are tested, quaternions, which are compared with rotations,
# and the chart of the largest matrices, whose values and derivatives have 30 digits.
DEAR = [(name, "exp") for name in ("R3 x SO(3)", "SO(3)^2", "Ad(SE(3))", "SE(3)", "S3")]
DEAR += [("SO(3)^2", "cay"), ("Ad(SE(3))", "cay"), ("R3 x SO(3)", "cay")]
MATRICES = [name for name, case in CASES.items() if case.has_matrices]


@pytest.mark.parametrize(("name", "chart"), cases(CHARTS, [c for c in CHARTS if c not in DEAR]))
def test_relations_of_every_chart(name, chart):
    case = CASES[name]
    group = case.group
    psi, psi_inv, d, d_inv, dd, dd_inv = _chart(group, chart)
    x = samples(case)
    if chart == "cay2":
        # Its local coordinates are bounded by one for rotations up to π.
        x = 0.3 * x
    u, w = directions(case, 2)
    eye = jnp.eye(case.dimension)

    def trivialised(x, u, *, right):
        def relative(y):
            ends = (psi(y), group.inverse(psi(x)))
            return group.compose(*(ends if right else ends[::-1]))

        return _velocity_at_unit(group, relative, x, u)

    @jax.jit
    @jax.vmap
    def residuals(x, u, w):
        c = psi(x)
        forward, inverse, backward = d(x), d_inv(x), d(-x)
        scale = 1.0 + jnp.max(jnp.abs(inverse))
        change_u, change_w = dd(x, u), dd(x, w)
        rules = {
            "ψ(-x) is the inverse": difference(psi(-x), group.inverse(c)),
            "dψ(x) is right-trivialised, (1.3), (3.13)": forward @ u
            - trivialised(x, u, right=True),
            "dψ(-x) is left-trivialised, (1.4)": backward @ u - trivialised(x, u, right=False),
            "(2.60), (2.19)": group.Ad(c) @ backward - forward,
            "ddψ differentiates dψ": change_u - jax.jvp(d, (x,), (u,))[1],
            "Maurer-Cartan": change_u @ w - change_w @ u - group.ad(forward @ u) @ forward @ w,
        }
        conditioned = {
            "dψ⁻¹ inverts": forward @ inverse - eye,
            "(2.61), (2.20)": forward @ d_inv(-x) - group.Ad(c),
            "ddψ⁻¹ inverts": change_u @ inverse + forward @ dd_inv(x, u),
        }
        rules |= {rule: value / scale for rule, value in conditioned.items()}
        if hasattr(group, f"d{chart}_apply"):
            apply, apply_inv = (getattr(group, f"d{chart}{s}_apply") for s in ("", "_inv"))
            rules["dψ applied"] = apply(x, u) - forward @ u
            rules["dψ⁻¹ applied"] = (apply_inv(x, u) - inverse @ u) / scale
        return rules, difference(psi_inv(c), x)

    rules, back = residuals(x, u, w)
    size = 10 + np.max(np.abs(x), axis=1) ** 2
    check(rules, ROUNDING_EPS * EPS * size)
    inside = (np.pi > ANGLES) | (chart == "cay")
    check({"ψ⁻¹ inverts": back[inside]}, (ROUNDING_EPS * EPS * size)[inside])


# Quaternions are compared with rotations, matrices of motions with matrix functions, too; products
# have their charts above.
@pytest.mark.parametrize("name", cases(CASES, ["SO(3)", "R4"]))
def test_relations_of_every_group(name):
    case = CASES[name]
    group = case.group
    x = samples(case)
    y, u, w = directions(case, 3)
    nearby = jnp.minimum(1.0, 1.0 / jnp.maximum(ANGLES, 1e-300))[:, None] * x

    def along(function, u):
        return jax.jvp(lambda s: function(group.exp(s * u)), (0.0,), (1.0,))[1]

    def series(a, coefficients):
        result, power_ = 0.0, np.eye(case.dimension)
        for k in range(max(coefficients) + 1):
            result = result + coefficients.get(k, 0.0) * power_
            power_ = power_ @ a
        return result

    @jax.jit
    @jax.vmap
    def residuals(x, near, y, u, w):
        c, e = group.exp(x), group.exp(y)
        one = group.exp(jnp.zeros_like(x))
        adx = group.ad(x)

        def conjugate(s):
            return group.compose(c, group.compose(group.exp(s * u), group.inverse(c)))

        conjugated = _velocity_at_unit(group, conjugate, 0.0, 1.0)
        rules = {
            "unit": difference(group.compose(c, one), c),
            "inverse": difference(group.compose(c, group.inverse(c)), one),
            "associative": difference(
                group.compose(group.compose(c, e), c), group.compose(c, group.compose(e, c))
            ),
            "lift": difference(group.lift(c, u), along(lambda z: group.compose(c, z), u)),
            "Ad is conjugation": group.Ad(c) @ u - conjugated,
            "Ad is a homomorphism": group.Ad(group.compose(c, e)) - group.Ad(c) @ group.Ad(e),
            "ad is the rate of Ad": group.ad(u) @ w - along(group.Ad, u) @ w,
            "Jacobi": group.ad(adx @ u) - adx @ group.ad(u) + group.ad(u) @ adx,
        }  # fmt: skip
        maps = (adx, group.Ad(c), group.dexp(x), group.dexp_inv(x), group.dexp_inv(-x))
        return rules, maps, (group.ad(near), group.dexp(near), group.dexp_inv(near))

    rules, maps, maps_nearby = jax.tree.map(np.asarray, residuals(x, nearby, y, u, w))
    adx, adjoint_, dexp, inverse, inverse_back = maps
    ad_near, dexp_near, inverse_near = maps_nearby
    # Matrix functions and power series are NumPy's: another code, and nothing to compile.
    rules |= {
        "(2.59)": expm(adx) - adjoint_,
        "(2.62), (2.21)": adjoint_ - np.eye(case.dimension) - adx @ dexp,
        "(2.63), (2.22)": adjoint_ - np.eye(case.dimension) - dexp @ adx,
        "ad from dexp⁻¹": (inverse_back - inverse - adx)
        / (1.0 + np.max(np.abs(inverse), axis=(1, 2), keepdims=True)),
        "series (2.2)": dexp_near - series(ad_near, DEXP_SERIES),
        "series (2.3)": inverse_near - series(ad_near, DEXP_INV_SERIES),
    }
    size = 10 + np.max(np.abs(x), axis=1) ** 2
    check(rules, ROUNDING_EPS * EPS * size)


@pytest.mark.parametrize("name", cases(MATRICES, ["SO(3)", "SE(3)"]))
def test_relations_of_matrix_groups(name):
    """The maps from their definitions as matrix functions."""
    case = CASES[name]
    group = case.group
    x = samples(case)
    u, w = directions(case, 2)

    @jax.jit
    @jax.vmap
    def maps(x, u, w):
        c = group.exp(x)
        return {
            "a": group.hat(x),
            "b": group.hat(u),
            "hat w": group.hat(w),
            "vee a": group.vee(group.hat(x)),
            "[u, w]": group.hat(group.ad(u) @ w),
            "c": c,
            "c⁻¹": group.inverse(c),
            "lift": group.lift(c, u),
            "Ad u": group.hat(group.Ad(c) @ u),
            "cay": group.cay(x),
            "slope of cay": jax.jvp(group.cay, (x,), (u,))[1],
            "dcay u": group.hat(group.dcay(x) @ u),
            "dcay⁻¹ u": group.hat(group.dcay_inv(x) @ u),
        }

    got = jax.tree.map(np.asarray, maps(x, u, w))
    a, b, c, cay = got["a"], got["b"], got["c"], got["cay"]
    eye = np.eye(a.shape[-1])
    resolvent = np.linalg.inv(eye - a)
    residuals = {
        "vee inverts hat": got["vee a"] - x,
        "bracket": got["[u, w]"] - b @ got["hat w"] + got["hat w"] @ b,
        "Ad": got["Ad u"] - c @ b @ got["c⁻¹"],
        "(2.1)": c - expm(a),
        "(3.1)": cay - resolvent @ (eye + a),
        "(3.2)": cay - (eye + a) @ resolvent,
        "(3.4)": got["slope of cay"] - 2 * resolvent @ b @ resolvent,
        "(3.5)": got["dcay u"] - 2 * resolvent @ b @ np.linalg.inv(eye + a),
        "(3.6)": got["dcay⁻¹ u"] - (eye - a) @ b @ (eye + a) / 2,
        "(1.1) lift": got["lift"] - c @ b,
    }
    size = 10 + np.max(np.abs(x), axis=1) ** 3
    check(residuals, ROUNDING_EPS * EPS * size)


@pytest.mark.parametrize("name", ["SO(3)", "S3", "SE(3)", "Ad(SE(3))"])
def test_the_action_composes(name):
    group = CASES[name].group

    @jax.jit
    def both_ways(x1, x2, y):
        c, e = group.exp(x1), group.exp(x2)
        return group.act(group.compose(c, e), y), group.act(c, group.act(e, y))

    y = np.asarray([0.3, -0.5, 0.8] * (2 if group is adjoint else 1))
    at_once, in_turn = both_ways(*samples(CASES[name])[4:6], y)
    golden.assert_close(at_once, in_turn, atol=100 * ROUNDING_EPS * EPS)


def test_logarithms_beyond_pi_are_principal():
    x = samples(CASES["SE(3)"])[-2:]
    principal = x[:, 3:] * (1.0 - 2 * np.pi / np.linalg.norm(x[:, 3:], axis=1))[:, None]

    @jax.jit
    @jax.vmap
    def logarithms(x):
        both = jnp.stack([group.log(group.exp(x)) for group in (se3, adjoint)])
        return both, jax.vmap(se3.exp)(jnp.concatenate([x[None], both]))

    logs, poses = logarithms(x)
    for i in range(2):
        golden.assert_close(logs[:, i, 3:], principal, atol=ROUNDING_EPS * EPS)
        golden.assert_close(poses[:, 1 + i], poses[:, 0], atol=10 * ROUNDING_EPS * EPS)
