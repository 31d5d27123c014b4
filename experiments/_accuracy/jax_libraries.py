"""The maps of lie_jax and jaxlie as functions of a tangent vector, and their derivatives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np

import lie_jax
from experiments._accuracy.inputs import Inputs
from lie_jax.groups import quaternion, se3, so3

# A function of the tangent vector x (or d) and of the pose (matrix, quaternion, position).
Function = Callable[..., jax.Array]

_SPACE = lie_jax.SE3()


def _parts(pose: jax.Array) -> jax.Array:
    return jnp.concatenate([pose[:3, :3].ravel(), pose[:3, 3]])


def _space_log(d, matrix, q, p):
    origin = _SPACE.configuration(jnp.zeros_like(p), quaternion.identity(p.dtype))
    return _SPACE.inverse_retract(origin, _SPACE.retract(jnp.concatenate([p, q]), d))


OURS: dict[str, Function] = {
    "SO(3) exp": lambda x, *pose: so3.exp(x).ravel(),
    "SO(3) log, matrix": lambda d, r, q, p: so3.log(so3.compose(r, so3.exp(d))),
    "SO(3) log, quaternion": lambda d, r, q, p: quaternion.log(
        quaternion.multiply(q, quaternion.exp(d))
    ),
    "SO(3) dexp": lambda x, *pose: so3.dexp(x).ravel(),
    "SO(3) dexp⁻¹": lambda x, *pose: so3.dexp_inv(x).ravel(),
    "SE(3) exp": lambda x, *pose: _parts(se3.exp(x)),
    "SE(3) log, matrix": lambda d, r, q, p: se3.log(se3.compose(se3.pose(r, p), se3.exp(d))),
    "SE(3) log, quaternion": _space_log,
    "SE(3) dexp": lambda x, *pose: se3.dexp(x).ravel(),
    "SE(3) dexp⁻¹": lambda x, *pose: se3.dexp_inv(x).ravel(),
    "SE(3) Ad exp": lambda x, *pose: se3.Ad(se3.exp(x)).ravel(),
}


def _jaxlie_pose(rotation: Any, p: jax.Array) -> Any:
    return jaxlie.SE3.from_rotation_and_translation(rotation, p)


# jaxlie's `jlog` of exp(x) is the left-trivialised dexp⁻¹(x), which is ours at -x.
JAXLIE: dict[str, Function] = {
    "SO(3) exp": lambda x, *pose: jaxlie.SO3.exp(x).as_matrix().ravel(),
    "SO(3) log, matrix": lambda d, r, q, p: (jaxlie.SO3.from_matrix(r) @ jaxlie.SO3.exp(d)).log(),
    "SO(3) log, quaternion": lambda d, r, q, p: (jaxlie.SO3(q) @ jaxlie.SO3.exp(d)).log(),
    "SO(3) dexp⁻¹": lambda x, *pose: jaxlie.SO3.exp(-x).jlog().ravel(),
    "SE(3) exp": lambda x, *pose: _parts(jaxlie.SE3.exp(x).as_matrix()),
    "SE(3) log, matrix": lambda d, r, q, p: (
        _jaxlie_pose(jaxlie.SO3.from_matrix(r), p) @ jaxlie.SE3.exp(d)
    ).log(),
    "SE(3) log, quaternion": lambda d, r, q, p: (
        _jaxlie_pose(jaxlie.SO3(q), p) @ jaxlie.SE3.exp(d)
    ).log(),
    "SE(3) dexp⁻¹": lambda x, *pose: jaxlie.SE3.exp(-x).jlog().ravel(),
    "SE(3) Ad exp": lambda x, *pose: jaxlie.SE3.exp(x).adjoint().ravel(),
}

LIBRARIES = {"lie_jax": OURS, "jaxlie": JAXLIE}


def evaluate(name: str, function: Function, inputs: Inputs) -> list[list[np.ndarray]]:
    """Value, Jacobian (forward and reverse mode) and Hessian (forward over reverse) of all rows."""
    x = inputs.twist * 0 if "log" in name else inputs.twist
    x = x[:, 3:] if name.startswith("SO(3)") else x

    @jax.jit
    @jax.vmap
    def run(x, *pose):
        reverse = jax.jacrev(function)
        forward = jax.jacfwd(function)(x, *pose)
        return function(x, *pose), forward, reverse(x, *pose), jax.jacfwd(reverse)(x, *pose)

    results = run(*map(jnp.asarray, (x, inputs.matrix, inputs.quaternion, inputs.position)))
    value, forward, reverse, second = (np.asarray(r) for r in results)
    assert value.dtype == x.dtype, (name, value.dtype)
    return [[value], [forward, reverse], [second]]
