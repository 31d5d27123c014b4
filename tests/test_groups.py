"""One battery for SO(3), SE(3) and the unit quaternions."""

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from lie_jax import quaternion, se3, so3
from tests import golden

# Normwise bounds in machine epsilons against 30-digit values, up to an angle of 4.5 rad; beyond,
# the inverse maps are as ill-conditioned as 1 / (1 - θ/2π), and logarithms of rounded rotations.
VALUE_EPS, DERIVATIVE_EPS = 4, 8
# Rounding of a product of a few O(1) matrices.
ROUNDING = 2e-14

GROUPS = {"so3": so3, "se3": se3}
ARGUMENT = {"so3": ("x", "u"), "se3": ("X", "U")}
MAPS = ["exp", "ad", "dexp", "dexp_inv", "cay", "dcay", "dcay_inv"]
DIRECTIONAL = {
    "so3": {"ddexp": "D_dexp_u", "ddexp_inv": "D_dexp_inv_u", "ddcay": "D_dcay_u",
            "ddcay_inv": "D_dcay_inv_u"},
    "se3": {"ddexp": "D_dexp_U", "ddexp_inv": "D_dexp_inv_U", "ddcay": "D_dcay_U",
            "ddcay_inv": "D_dcay_inv_U"},
}  # fmt: skip
SECOND = {"exp": "D2_exp_uu", "dexp": "D2_dexp_uu", "dexp_inv": "D2_dexp_inv_uu"}


def _bounds(base):
    condition = 1.0 / (1.0 - golden.angles() / (2 * np.pi))
    return base * np.where(golden.angles() > 4.6, condition, 1.0)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", ["so3", "se3"])
def test_golden_values(name, dtype):
    group, (key_x, key_u) = GROUPS[name], ARGUMENT[name]
    x = jnp.asarray(golden.stack(name, key_x), dtype)
    u = jnp.asarray(golden.stack(name, key_u), dtype)

    @jax.jit
    @jax.vmap
    def evaluate(x, u):
        values = {key: getattr(group, key)(x) for key in MAPS}
        values["log_of_exp"] = group.log(group.exp(x))
        derivatives = {key: getattr(group, f)(x, u) for f, key in DIRECTIONAL[name].items()}
        if name == "so3":
            values["quat"] = quaternion.exp(x)
            for f, key in SECOND.items():

                def along(y, f=f):
                    return jax.jvp(getattr(so3, f), (y,), (u,))[1]

                derivatives[key] = jax.jvp(along, (x,), (u,))[1]
        else:
            values["Ad_of_exp"] = se3.Ad(se3.exp(x))
        return values, derivatives

    values, derivatives = evaluate(x, u)
    eps = float(jnp.finfo(dtype).eps)
    factor = 2 if dtype == jnp.float32 else 1
    for results, base in ((values, VALUE_EPS), (derivatives, DERIVATIVE_EPS)):
        for key, got in results.items():
            assert got.dtype == dtype, key
            error = golden.distance_in_eps(got, golden.stack(name, key), eps)
            assert np.all(error <= _bounds(base * factor)), (key, error)


def _samples(dimension):
    """Identity, tiny and small rotations with O(1) translations, random ones, and near π."""
    rng = np.random.default_rng(7)
    axes = rng.normal(size=(9, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles = [0.0, 1e-9, 1e-4, 1e-2, 0.7, 1.9, 2.6, np.pi - 1e-3, np.pi - 1e-7]
    rotation = axes * np.asarray(angles)[:, None]
    if dimension == 3:
        return jnp.asarray(rotation)
    return jnp.asarray(np.concatenate([rng.normal(size=(9, 3)), rotation], axis=1))


@pytest.mark.parametrize("name", ["so3", "se3"])
def test_identities(name):
    group = GROUPS[name]
    dimension = 3 if name == "so3" else 6
    x = _samples(dimension)
    rng = np.random.default_rng(8)
    u, w = (jnp.asarray(rng.normal(size=x.shape)) for _ in range(2))
    point = jnp.asarray([0.3, -0.5, 0.8])

    def right_trivialised(map_, x, u):
        value, change = jax.jvp(map_, (x,), (u,))
        return group.vee(change @ group.inverse(value))

    @jax.jit
    @jax.vmap
    def residuals(x, u, w):
        c, d = group.exp(x), group.exp(u)
        eye = jnp.eye(dimension)
        bracket = group.hat(u) @ group.hat(w) - group.hat(w) @ group.hat(u)
        # Far from the identity the Cayley vector is large; its inverse is checked where it is not.
        half = 0.4 * x
        return {
            "vee inverts hat": group.vee(group.hat(x)) - x,
            "log inverts exp": group.log(c) - x,
            "cay_inv inverts cay": group.cay_inv(group.cay(half)) - half,
            "inverse": group.compose(c, group.inverse(c)) - group.identity(),
            "exp(-x) is the inverse": group.exp(-x) - group.inverse(c),
            "act composes": group.act(group.compose(c, d), point)
            - group.act(c, group.act(d, point)),
            "dexp differentiates exp": group.dexp(x) @ u - right_trivialised(group.exp, x, u),
            "dcay differentiates cay": group.dcay(half) @ u - right_trivialised(group.cay, half, u),
            "dexp_inv inverts": group.dexp(x) @ group.dexp_inv(x) - eye,
            "dcay_inv inverts": group.dcay(half) @ group.dcay_inv(half) - eye,
            "dexp_apply": group.dexp_apply(x, u) - group.dexp(x) @ u,
            "dexp_inv_apply": group.dexp_inv_apply(x, u) - group.dexp_inv(x) @ u,
            "[S4] (2.21): dexp(x) = Ad(exp x) dexp(-x)": group.dexp(x)
            - group.Ad(c) @ group.dexp(-x),
            "Ad is conjugation": group.hat(group.Ad(c) @ u) - c @ group.hat(u) @ group.inverse(c),
            "Ad is a homomorphism": group.Ad(group.compose(c, d)) - group.Ad(c) @ group.Ad(d),
            "ad is the bracket": group.hat(group.ad(u) @ w) - bracket,
        }

    for rule, value in residuals(x, u, w).items():
        # Next to π the logarithm amplifies nothing (it is read from the quaternion), so that one
        # bound serves all samples.
        assert float(jnp.max(jnp.abs(value))) < 10 * ROUNDING, rule


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", ["so3", "se3"])
def test_first_and_second_derivatives_agree_in_all_modes(name, dtype):
    """Along random directions and a random covector, purely forward and purely reverse."""
    group = GROUPS[name]
    x = _samples(3 if name == "so3" else 6).astype(dtype)
    rng = np.random.default_rng(9)
    u, w = (jnp.asarray(rng.normal(size=x.shape), dtype) for _ in range(2))

    functions = {
        "exp": group.exp,
        "dexp": group.dexp,
        "dexp_inv": group.dexp_inv,
        "log exp": lambda x: group.log(group.exp(x)),
        "cay": lambda x: group.cay(jnp.asarray(0.4, dtype) * x),
    }
    eps = float(jnp.finfo(dtype).eps)
    for label, function in functions.items():
        # Golden values hold the differentials in single precision; here the maps will do.
        if dtype == jnp.float32 and label not in ("exp", "log exp"):
            continue
        covector = jnp.asarray(rng.normal(size=function(x[0]).shape), dtype)

        def number(x, function=function, covector=covector):
            return jnp.vdot(covector, function(x))

        def slope(x, u, number=number):
            return jax.jvp(number, (x,), (u,))[1]

        def reverse_slope(x, u, number=number):
            return jnp.vdot(jax.grad(number)(x), u)

        def derivatives(x, u, w, slope=slope, reverse_slope=reverse_slope):
            first = (slope(x, u), reverse_slope(x, u))
            second = (
                jax.jvp(lambda x: slope(x, u), (x,), (w,))[1],
                jnp.vdot(jax.grad(lambda x: reverse_slope(x, u))(x), w),
            )
            return first, second

        for nestings in jax.jit(jax.vmap(derivatives))(x, u, w):
            # Rounding of different orders of summation over some hundred terms of order one; the
            # second derivative of log exp is zero.
            scale = max(1.0, float(jnp.max(jnp.abs(nestings[0]))))
            for other in nestings[1:]:
                assert_allclose(other, nestings[0], atol=200 * eps * scale, err_msg=label)

    # log undoes exp: its derivative is the identity, also at zero and next to π.
    jacobian = jax.jit(jax.vmap(jax.jacfwd(functions["log exp"])))(x)
    assert_allclose(jacobian, np.broadcast_to(np.eye(x.shape[1]), jacobian.shape), atol=100 * eps)


def test_quaternion_against_rotation_matrices_and_scipy():
    x = _samples(3)
    y = jnp.asarray([0.4, -1.0, 2.0])

    @jax.jit
    @jax.vmap
    def evaluate(x):
        q, p = quaternion.exp(x), quaternion.exp(jnp.asarray([0.5, 0.2, -0.3]) + 0.1 * x)
        r = quaternion.to_matrix(q)
        return {
            "matrix": r - so3.exp(x),
            "product": quaternion.to_matrix(quaternion.multiply(q, p))
            - r @ quaternion.to_matrix(p),
            "rotate": quaternion.rotate(q, y) - r @ y,
            "log": quaternion.log(q) - x,
            "principal log": quaternion.log(-q) - x,
            "conjugate": quaternion.multiply(q, quaternion.conjugate(q)) - quaternion.identity(),
            "from matrix": jnp.minimum(
                jnp.linalg.norm(quaternion.from_matrix(r) - q),
                jnp.linalg.norm(quaternion.from_matrix(r) + q),
            ),
        }, (q, r)

    rules, (q, r) = evaluate(x)
    for rule, value in rules.items():
        assert float(jnp.max(jnp.abs(value))) < ROUNDING, rule
    oracle = Rotation.from_rotvec(np.array(x))
    assert_allclose(r, oracle.as_matrix(), atol=ROUNDING)
    assert_allclose(q, oracle.as_quat(scalar_first=True), atol=ROUNDING)


def test_se3_against_jaxlie():
    # jaxlie loses digits near the identity and near π: away from both it is an oracle to 1e-12.
    x = _samples(6)[4:7]
    theirs = jax.vmap(lambda x: jaxlie.SE3.exp(x).as_matrix())(x)
    assert_allclose(jax.vmap(se3.exp)(x), theirs, atol=1e-12)
    back = jax.vmap(lambda c: jaxlie.SE3.from_matrix(c).log())(theirs)
    assert_allclose(jax.vmap(se3.log)(theirs), back, atol=1e-12)


def test_bch_golden_values():
    entries = golden.MAPS["bch_so3"]
    x1, x2, expected = (
        jnp.asarray(np.stack([golden.array(e[key]) for e in entries]))
        for key in ("x1", "x2", "bch_principal")
    )
    got = jax.jit(jax.vmap(so3.bch))(x1, x2)
    # The result's absolute error is that of a unit quaternion.
    assert_allclose(got, expected, atol=ROUNDING)


def test_quaternion_norm_stays_one_over_many_products():
    # Without renormalisation single precision drifts by 1e-2 in 1e6 products.
    step = quaternion.exp(jnp.asarray([0.01, -0.02, 0.03], jnp.float32))

    def turn(q, _):
        return quaternion.renormalize(quaternion.multiply(q, step)), None

    q, _ = jax.lax.scan(turn, quaternion.identity(jnp.float32), length=1_000_000)
    assert abs(float(jnp.linalg.norm(q)) - 1.0) < 1e-6
