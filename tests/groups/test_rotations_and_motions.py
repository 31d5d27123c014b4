"""Relations of single groups: [S4]'s lemmas on SO(3), SE(3) and its adjoint representation."""

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lie_jax.groups import adjoint, closed_forms, quaternion, rn, se3, so3
from lie_jax.io import conversions
from tests import golden
from tests.groups.samples import ANGLES, CASES, EPS, ROUNDING_EPS, check, directions, samples

ROUNDING = ROUNDING_EPS * EPS


# `make test` holds the same maps to their definitions, in the battery of all groups, and to SciPy.
@pytest.mark.full
def test_relations_of_rotations():
    x = samples(CASES["SO(3)"])
    (y,) = directions(CASES["SO(3)"], 1)

    @jax.jit
    @jax.vmap
    def residuals(x, y, angle):
        n = y / jnp.linalg.norm(y)
        r = so3.exp(x)
        sigma = 2.0 / (1.0 + x @ x)
        q, p = quaternion.exp(x), quaternion.exp(y)
        c = quaternion.cay(x)
        # Past a half turn tan(φ/2) is negative and the quaternion the other one of the two.
        half_turn = jnp.where(angle < np.pi, 1.0, -1.0)
        gibbs = so3.cay(jnp.tan(angle / 2) * n) - so3.exp(angle * n)
        return {
            "transpose": so3.dexp(-x) - so3.dexp(x).T,
            "transpose of dexp⁻¹": (so3.dexp_inv(-x) - so3.dexp_inv(x).T),
            "transpose of dcay": so3.dcay(-x) - so3.dcay(x).T,
            "(2.10)": x @ x * so3.dexp(x) - (jnp.eye(3) - r) @ so3.hat(x) - jnp.outer(x, x),
            "(3.9)": jnp.where(jnp.abs(angle - np.pi) > 0.1, gibbs, 0.0),
            "(3.12)": so3.dcay_inv(x) - (jnp.eye(3) + so3.cay(-x)) / (2 * sigma),
            "cay2 is the square": so3.cay2(x) - so3.cay(x) @ so3.cay(x),
            "cay2 of a quarter": so3.cay2(jnp.tan(angle / 4) * n) - so3.exp(angle * n),
            "dcay2 is conformal": so3.dcay2(x) @ so3.dcay2(x).T - (2 * sigma) ** 2 * jnp.eye(3),
            "cover": quaternion.to_matrix(q) - r,
            "cover of cay": quaternion.to_matrix(c) - so3.cay(x),
            "cover of cay2": quaternion.to_matrix(quaternion.cay2(x)) - so3.cay2(x),
            "cay of a quaternion": jnp.where(jnp.abs(angle - np.pi) > 0.1, half_turn, 0.0)
            * (quaternion.cay(jnp.tan(angle / 2) * n) * half_turn - quaternion.exp(angle * n)),
            "product": quaternion.to_matrix(quaternion.multiply(q, p)) - r @ so3.exp(y),
            "rotate": quaternion.rotate(q, y) - r @ y,
            "both signs": quaternion.log(-q) - quaternion.log(q),
            "from matrix": quaternion.to_matrix(quaternion.from_matrix(r)) - r,
            "BCH": so3.exp(so3.bch(x, y)) - r @ so3.exp(y),
            "BCH is principal": jnp.maximum(jnp.linalg.norm(so3.bch(x, y)) - np.pi, 0.0),
        }

    check(residuals(x, y, jnp.asarray(ANGLES)), 5 * ROUNDING * (1 + ANGLES**2))


# `make test` compares the same maps with 30 digits and holds them to their definitions.
@pytest.mark.full
def test_relations_of_motions():
    case = CASES["SE(3)"]
    x = samples(case)

    @jax.jit
    @jax.vmap
    def residuals(x):
        ad, w, y, t = se3.ad(x), x[3:], x[:3], x[3:] @ x[3:]
        theta = jnp.sqrt(jnp.where(t > 1e-2, t, 1.0))
        s, c = jnp.sin(theta), jnp.cos(theta)
        # (2.43) divides by θ⁵: it can be evaluated away from zero only.
        by_powers = (
            jnp.eye(6)
            + (4 - theta * s - 4 * c) / (2 * theta**2) * ad
            + (4 * theta - 5 * s + theta * c) / (2 * theta**3) * ad @ ad
            + (2 - theta * s - 2 * c) / (2 * theta**4) * ad @ ad @ ad
            + (2 * theta - 3 * s + theta * c) / (2 * theta**5) * ad @ ad @ ad @ ad
        )
        alpha, beta = s / theta, 2 * (1 - c) / theta**2
        inverse_by_powers = (
            jnp.eye(6)
            - ad / 2
            + (2 - (1 + 3 * alpha) / (2 * beta)) / theta**2 * ad @ ad
            + (1 - (1 + alpha) / (2 * beta)) / theta**4 * ad @ ad @ ad @ ad
        )
        far = jnp.where(t > 1e-2, 1.0, 0.0)
        size = 1.0 + jnp.max(jnp.abs(se3.dexp_inv(x)))
        r = so3.cay(w)
        sigma = 2.0 / (1.0 + t)
        a = adjoint.cay(x)[:3, 3:]
        resolvent = jnp.linalg.inv(jnp.eye(3) - so3.hat(w))
        return {
            "(2.25)": se3.exp(x)[:3, 3] - so3.dexp(w) @ y,
            "characteristic equation of ad": jnp.linalg.matrix_power(ad, 6)
            + t**2 * ad @ ad
            + 2 * t * jnp.linalg.matrix_power(ad, 4),
            "(2.29)": se3.dexp(x)[:3, 3:] - jax.jvp(so3.dexp, (w,), (y,))[1],
            "(2.39)": (se3.dexp_inv(x)[:3, 3:] - jax.jvp(so3.dexp_inv, (w,), (y,))[1]) / size,
            "(2.43)": far * (by_powers - se3.dexp(x)),
            "(2.46)": far * (inverse_by_powers - se3.dexp_inv(x)) / size,
            "(3.15)": se3.cay(x)[:3, 3] - 2 * sigma * so3.dcay_inv(w).T @ y,
            "(3.26)": a - (jnp.eye(3) + r) @ so3.hat(y) @ (jnp.eye(3) + r) / 2,
            "(3.27)": a - 2 * resolvent @ so3.hat(y) @ resolvent,
            "(3.28)": a - jax.jvp(so3.cay, (w,), (y,))[1],
            "(3.29)": a - so3.hat(so3.dcay(w) @ y) @ r,
            "(3.30) corrected": a - so3.hat(y) @ so3.dcay(w) - sigma * so3.hat(w) @ so3.hat(y) @ r,
            "adjoint": adjoint.exp(x) - se3.Ad(se3.exp(x)),
        }

    # (2.43) and (2.46) lose a factor of θ⁻⁴ at the smallest angle that is compared, 0.7.
    check(residuals(x), 50 * ROUNDING * (1 + ANGLES**4))


def test_the_cayley_map_of_the_adjoint_representation_is_another_one():
    x = np.asarray([0.4, -0.3, 0.5, 0.2, 0.6, -0.1])

    @jax.jit
    def maps(x):
        twice = jnp.eye(3) + so3.cay(x[3:]) - so3.dcay(x[3:])
        return adjoint.to_pose(adjoint.cay(x)), se3.cay(x), twice @ x[:3]

    of_adjoint, of_motion, expected = maps(x)
    golden.assert_close(of_adjoint[:3, :3], of_motion[:3, :3], atol=ROUNDING)
    # They differ by (D cay)(x) applied twice: to second order in the rotation.
    difference = of_motion[:3, 3] - of_adjoint[:3, 3]
    golden.assert_close(difference, expected, atol=ROUNDING)
    assert float(jnp.linalg.norm(difference)) > 0.1


@pytest.mark.full
def test_closed_form_derivatives_and_autodiff_are_each_others_check():
    for name, group in (("SO(3)", so3), ("SE(3)", se3)):
        x = samples(CASES[name])
        (u,) = directions(CASES[name], 1)
        prefix = "so3" if group is so3 else "se3"
        for f in ("ddexp", "ddexp_inv", "ddcay", "ddcay_inv"):
            closed = jax.jit(jax.vmap(getattr(closed_forms, f"{prefix}_{f}")))(x, u)
            automatic = jax.jit(jax.vmap(getattr(group, f)))(x, u)
            error = golden.distance_in_eps(closed, np.asarray(automatic), EPS)
            assert np.all(error < 16.0), (name, f, error)


def test_rotations_against_scipy_and_jaxlie():
    x = samples(CASES["SO(3)"])
    r, q = (jax.jit(jax.vmap(group.exp))(x) for group in (so3, quaternion))
    oracle = Rotation.from_rotvec(np.array(x))
    golden.assert_close(r, oracle.as_matrix(), atol=ROUNDING)
    golden.assert_close(jax.jit(jax.vmap(so3.log))(r), oracle.as_rotvec(), atol=ROUNDING)
    for rotation in (
        conversions.to_scipy(q).as_matrix(),
        conversions.to_jaxlie(q).as_matrix(),
        oracle.as_matrix(),
    ):
        golden.assert_close(rotation, r, atol=ROUNDING)
    for back in (
        conversions.from_scipy(conversions.to_scipy(q)),
        conversions.from_jaxlie(conversions.to_jaxlie(q)),
    ):
        golden.assert_close(jnp.abs(jnp.sum(back * q, axis=1)), 1.0, atol=ROUNDING)


@pytest.mark.full
def test_poses_against_jaxlie():
    # jaxlie loses digits near the identity and near π: away from both it is an oracle to 1e-12.
    x = samples(CASES["SE(3)"])[4:6]
    c = jax.jit(jax.vmap(se3.exp))(x)

    @jax.jit
    def ours_and_theirs(x, c, theirs):
        pairs = [
            (c, conversions.pose_from_jaxlie(jax.vmap(jaxlie.SE3.exp)(x))),
            (c, conversions.pose_from_jaxlie(theirs)),
        ]
        for ours, method in ((se3.log, "log"), (se3.Ad, "adjoint"), (se3.inverse, "inverse")):
            result = jax.vmap(lambda pose, method=method: getattr(pose, method)())(theirs)
            expected = result.as_matrix() if method == "inverse" else result
            pairs.append((jax.vmap(ours)(c), expected))
        return pairs

    with jax.numpy_dtype_promotion("standard"):
        for ours, theirs in ours_and_theirs(x, c, conversions.pose_to_jaxlie(c)):
            golden.assert_close(ours, theirs, atol=1e-12)


def test_maps_take_lists_and_integers():
    golden.assert_close(so3.hat([0, 0, 1]), so3.hat(jnp.asarray([0.0, 0.0, 1.0])))
    assert so3.hat(np.zeros(3, np.float32)).dtype == jnp.float32


def test_maps_are_total_under_tracing():
    """No exception for any finite input; where a chart ends, infinities or NaN come back."""
    huge, tiny = 1e200, 1e-300

    @jax.jit
    @jax.vmap
    def all_maps(x):
        r = so3.hat(x)
        vectors = ("exp", "dexp", "dexp_inv", "cay", "dcay", "dcay_inv", "cay2", "dcay2")
        matrices = ("log", "cay_inv", "cay2_inv")
        return [getattr(so3, f)(x) for f in vectors], [getattr(so3, f)(r) for f in matrices]

    all_maps(np.asarray([[0.0, 0.0, 0.0], [huge, 0.0, -huge], [tiny, tiny, 0.0]]))

    @jax.jit
    def ends(half_turn, turn):
        r = so3.exp(half_turn)
        no_rotation = quaternion.from_matrix(jnp.zeros((3, 3)))
        return so3.cay_inv(r), so3.cay2_inv(r), so3.dexp_inv(turn), no_rotation

    cay, cay2, dexp, _ = ends(np.asarray([0.0, 0.0, np.pi]), np.asarray([0.0, 2 * np.pi, 0.0]))
    assert np.max(np.abs(cay)) > 1e15
    golden.assert_close(np.linalg.norm(cay2), 1.0, atol=ROUNDING)
    assert not np.all(np.abs(dexp) < 1e15)


def test_units():
    golden.assert_close(so3.identity(), np.eye(3))
    golden.assert_close(rn.identity(4), np.zeros(4))
    three, six = np.zeros(3), np.zeros(6)
    units = jax.jit(lambda: (se3.exp(six), adjoint.exp(six), quaternion.exp(three)))()
    for group, unit in zip((se3, adjoint, quaternion), units, strict=True):
        golden.assert_close(group.identity(), unit)
    assert so3.identity(jnp.float32).dtype == jnp.float32


def test_quaternion_norm_stays_one_over_many_products():
    # Without renormalisation single precision drifts by 1e-2 in 1e6 products.
    step = quaternion.exp(jnp.asarray([0.01, -0.02, 0.03], jnp.float32))

    def turn(q, _):
        return quaternion.renormalize(quaternion.multiply(q, step)), None

    q, _ = jax.lax.scan(turn, quaternion.identity(jnp.float32), length=1_000_000)
    assert abs(float(jnp.linalg.norm(q)) - 1.0) < 1e-6
