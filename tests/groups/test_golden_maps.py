"""Values and derivatives of the maps against 30 digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax.groups import adjoint, closed_forms, quaternion, se3, so3
from tests import golden
from tests.suites import cases

# Normwise bounds in machine epsilons up to an angle of 4.5 rad, in double and single precision;
# beyond, the inverse maps are as ill-conditioned as 1 / (1 - θ/2π), and logarithms of rounded
# rotations.
VALUE_EPS = {jnp.float64: 4, jnp.float32: 8}
DERIVATIVE_EPS = 8
# Rounding of a unit quaternion, which a rotation vector inherits as an absolute error.
ROUNDING = 2e-14

GROUPS = {"so3": so3, "se3": se3}
ARGUMENT = {"so3": ("x", "u"), "se3": ("X", "U")}
MAPS = ["exp", "ad", "dexp", "dexp_inv", "cay", "dcay", "dcay_inv"]
DIRECTIONAL = ["ddexp", "ddexp_inv", "ddcay", "ddcay_inv"]
SECOND = {"exp": "D2_exp_uu", "dexp": "D2_dexp_uu", "dexp_inv": "D2_dexp_inv_uu"}


def _bounds(base):
    condition = 1.0 / (1.0 - golden.angles() / (2 * np.pi))
    return base * np.where(golden.angles() > 4.6, condition, 1.0)


def _evaluate(name, x, u):
    group = GROUPS[name]
    values = {key: getattr(group, key)(x) for key in MAPS}
    values["log_of_exp"] = group.log(group.exp(x))
    derivatives = {}
    for f in DIRECTIONAL:
        key = f"D_{f[1:]}_{ARGUMENT[name][1]}"
        derivatives[key] = getattr(group, f)(x, u)
        derivatives[f"{key}, closed form"] = getattr(closed_forms, f"{name}_{f}")(x, u)
    if name == "so3":
        values["quat"] = quaternion.exp(x)
        values["quat, log"] = quaternion.log(quaternion.exp(x))
        values["Ad"] = so3.Ad(so3.exp(x))
        derivatives["D_exp_u"] = jax.jvp(so3.exp, (x,), (u,))[1]
        derivatives["D2_dexp_uu, closed form"] = closed_forms.so3_d2dexp(x, u, u)
        derivatives["D2_dexp_inv_uu, closed form"] = closed_forms.so3_d2dexp_inv(x, u, u)
        for f, key in SECOND.items():

            def along(y, f=f):
                return jax.jvp(getattr(so3, f), (y,), (u,))[1]

            derivatives[key] = jax.jvp(along, (x,), (u,))[1]
    else:
        values["Ad_of_exp"] = se3.Ad(se3.exp(x))
        values["Ad_of_exp, of the adjoint representation"] = adjoint.exp(x)
    return values, derivatives


@pytest.mark.parametrize("dtype", cases([jnp.float32, jnp.float64], [jnp.float64]))
@pytest.mark.parametrize("name", cases(["so3", "se3"], ["se3"]))
def test_golden_values(name, dtype):
    x, u = (jnp.asarray(golden.stack(name, key), dtype) for key in ARGUMENT[name])
    values, derivatives = jax.jit(jax.vmap(lambda x, u: _evaluate(name, x, u)))(x, u)
    eps = float(jnp.finfo(dtype).eps)
    for results, base in ((values, VALUE_EPS[dtype]), (derivatives, DERIVATIVE_EPS)):
        for label, got in results.items():
            assert got.dtype == dtype, label
            key = "log_of_exp" if label == "quat, log" else label.split(",")[0]
            error = golden.distance_in_eps(got, golden.stack(name, key), eps)
            assert np.all(error <= _bounds(base)), (label, error)


def test_bch_golden_values():
    entries = golden.MAPS["bch_so3"]
    x1, x2, expected = (
        jnp.asarray(np.stack([golden.array(e[key]) for e in entries]))
        for key in ("x1", "x2", "bch_principal")
    )
    golden.assert_close(jax.jit(jax.vmap(so3.bch))(x1, x2), expected, atol=ROUNDING)


def test_products_of_poses_have_their_golden_logarithm():
    x1, x2, expected = (
        np.stack([golden.array(entry[key]) for entry in golden.MAPS["bch_se3"]])
        for key in ("X1", "X2", "log_exp_exp")
    )
    x1, x2, expected = (jnp.asarray(np.roll(x, 3, axis=1)) for x in (x1, x2, expected))

    @jax.jit
    @jax.vmap
    def logarithm(x1, x2):
        return se3.log(se3.compose(se3.exp(x1), se3.exp(x2)))

    golden.assert_close(logarithm(x1, x2), expected, atol=ROUNDING)
