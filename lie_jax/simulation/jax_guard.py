"""Small computations with known results, for releases of JAX that lie_jax was not tested with."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.groups import quaternion
from lie_jax.numerics import rules
from lie_jax.user_functions import libraries

TESTED = ("0.10.1", "0.12.0.1")
_NEWEST_NEEDS = (3, 12)
# Sums of three products in single precision.
_ROUNDING = 1e-5
_checked = False


def warn_of_untested_jax() -> None:
    """Warn once in a process if an untested release of JAX computes known results wrong.

    Takes a second for an untested release, and no time for a tested one.
    """
    global _checked
    if _checked:
        return
    _checked = True
    if jax.__version__ in TESTED:
        return
    for what, computation in _COMPUTATIONS.items():
        try:
            # The first run of a process may be under way inside of a transformation.
            with jax.ensure_compile_time_eval():
                computed, known = computation()
            error = float(np.max(np.abs(np.asarray(computed) - known)))
            if error < _ROUNDING:
                continue
            reason = f"is off by {error:.1g}"
        except Exception as problem:  # An unknown release may raise anything.
            reason = f"raises {type(problem).__name__}: {problem}"
        libraries.warn(
            f"JAX {jax.__version__} was not tested with this release of lie_jax, and {what} "
            f"{reason}: expect wrong results or errors; install one that was, for example "
            f"pip install jax=={TESTED[sys.version_info >= _NEWEST_NEEDS]}.",
        )


def _products():
    # JAX 0.10.2 returns wrong numbers here on CPU.
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(20_000, 3, 3)), rng.normal(size=(20_000, 3))
    product = jax.jit(jax.vmap(lambda a, x: jnp.sum(a * x[None, :], axis=1)))
    computed = product(jnp.asarray(a, jnp.float32), jnp.asarray(x, jnp.float32))
    return computed, np.einsum("nij,nj->ni", a, x)


def _rotations():
    angles = np.asarray([0.0, 0.5, 3.0], np.float32)
    vectors = angles[:, None] * np.asarray([0.0, 0.0, 1.0], np.float32)
    half = 0.5 * angles
    known = np.stack([np.cos(half), 0 * half, 0 * half, np.sin(half)], axis=1)
    return jax.vmap(quaternion.exp)(jnp.asarray(vectors)), known


def _roots():
    # The derivative 1 / (2 √x) by a rule, in a loop, in a batch, by reverse mode.
    def root(x):
        def rule(y, x, change):
            return 0.5 * change / y

        y = rules.value_with_rule(jnp.sqrt(rules.stop_gradient(x)), rule, x)
        return jax.lax.scan(lambda total, _: (total + y, None), 0.0 * y, length=3)[0]

    x = jnp.asarray([1.0, 4.0], jnp.float32)
    return jax.vmap(jax.grad(root))(x), np.asarray([1.5, 0.75])


_COMPUTATIONS = {
    "a batch of matrix products": _products,
    "a batch of rotations": _rotations,
    "a derivative by a rule": _roots,
}
