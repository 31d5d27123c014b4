"""Errors of lie_jax against the golden values of the test suite, in machine epsilons."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.groups import quaternion, se3, so3
from tests import golden

# Key of the golden value of each function.
_VALUES = {
    "exp": "exp", "log exp": "log_of_exp", "dexp": "dexp", "dexp⁻¹": "dexp_inv", "ad": "ad",
    "cay": "cay", "dcay": "dcay", "dcay⁻¹": "dcay_inv",
}  # fmt: skip
_FUNCTIONS = {"dexp⁻¹": "dexp_inv", "dcay⁻¹": "dcay_inv"}
_DIRECTIONAL = ("dexp", "dexp⁻¹", "dcay", "dcay⁻¹")
_SECOND = ("exp", "dexp", "dexp⁻¹")
GROUPS = {"SO(3)": ("so3", so3, "x", "u"), "SE(3)": ("se3", se3, "X", "U")}
# The golden angles up to 4.5 rad are away from the singularity of dexp⁻¹ at 2π.
LIMIT = 4.6

# Error for angles up to the limit and beyond it.
Row = list[float]


def _named(label: str) -> str:
    return _FUNCTIONS.get(label, label)


def largest_angle() -> float:
    """The golden angle beyond the limit (rad)."""
    return float(golden.angles().max())


def condition_number() -> float:
    """1 / (1 - θ/2π) at the largest golden angle."""
    return 1.0 / (1.0 - largest_angle() / (2.0 * np.pi))


def _evaluate(group: Any, x: jax.Array, u: jax.Array, is_rotation: bool) -> dict[str, jax.Array]:
    results = {
        label: group.log(group.exp(x)) if label == "log exp" else getattr(group, _named(label))(x)
        for label in _VALUES
    }
    results["Ad exp"] = group.Ad(group.exp(x))
    for label in _DIRECTIONAL:
        results[f"D {label}"] = getattr(group, f"d{_named(label)}")(x, u)
    if is_rotation:
        results["quaternion exp"] = quaternion.exp(x)
        for label in _SECOND:
            function = getattr(group, _named(label))

            def first(y, function=function):
                return jax.jvp(function, (y,), (u,))[1]

            results[f"D² {label}"] = jax.jvp(first, (x,), (u,))[1]
    return results


def _keys(is_rotation: bool, u: str) -> dict[str, str]:
    keys = dict(_VALUES)
    keys |= {"Ad exp": "Ad" if is_rotation else "Ad_of_exp", "quaternion exp": "quat"}
    keys |= {f"D {label}": f"D_{_named(label)}_{u}" for label in _DIRECTIONAL}
    return keys | {f"D² {label}": f"D2_{_named(label)}_{u}{u}" for label in _SECOND}


def measure(dtype: type) -> dict[str, dict[str, Row]]:
    """Largest normwise relative errors in eps by group and function."""
    eps = float(jnp.finfo(dtype).eps)
    near = golden.angles() < LIMIT
    errors: dict[str, dict[str, Row]] = {}
    for title, (name, group, x_key, u_key) in GROUPS.items():
        x, u = (jnp.asarray(golden.stack(name, key), dtype) for key in (x_key, u_key))
        is_rotation = name == "so3"
        run = jax.jit(jax.vmap(lambda x, u, g=group, r=is_rotation: _evaluate(g, x, u, r)))
        results = run(x, u)
        errors[title] = {}
        for label, key in _keys(is_rotation, u_key).items():
            if label not in results:
                continue
            error = golden.distance_in_eps(results[label], golden.stack(name, key), eps)
            errors[title][label] = [float(error[near].max()), float(error[~near].max())]
    errors["SO(3)"]["bch"] = _bch(dtype, eps)
    return errors


def _bch(dtype: type, eps: float) -> Row:
    x1, x2, expected = (
        np.stack([golden.array(e[key]) for e in golden.MAPS["bch_so3"]])
        for key in ("x1", "x2", "bch_principal")
    )
    got = jax.jit(jax.vmap(so3.bch))(jnp.asarray(x1, dtype), jnp.asarray(x2, dtype))
    # Two rotations that nearly cancel leave the rounding error of a product of unit quaternions.
    absolute = np.linalg.norm(np.asarray(got, float) - expected, axis=1) / eps
    return [float(np.max(absolute / np.maximum(np.linalg.norm(expected, axis=1), 1.0)))]
