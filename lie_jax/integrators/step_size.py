"""Step sizes from an embedded estimate of the error, measured on the group."""

from operator import gt, lt

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.integrators.base import Difference
from lie_jax.numerics.conversion import as_float
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import State

# A rejected step shrinks by a factor of ten at most.
_LARGEST_DECREASE = 0.1
# Exponents of the proportional-integral controller in units of 1/(q + 1), those of Hairer's DOPRI5:
# a larger proportional part makes smaller steps than the tolerance asks for.
_INTEGRAL, _PROPORTIONAL = 0.85, 0.2
# Errors far below the tolerance, as in a motion without forces, do not predict the next error.
_SMALLEST_MEMORY = 1e-4


class Adaptive(eqx.Module):
    """Automatic step sizes of a simulation: `simulate(..., adaptive=Adaptive(), t_end=1.0)`.

    A step is accepted if the estimated errors of positions and velocities, each in units of
    `atol + rtol * size`, have a root mean square of at most 1. The error of a configuration is the
    increment from one solution to the other. Sizes are the larger ones at both ends of the step, of
    a configuration by `space.magnitude`. Steps end exactly at the times of `simulate(save=)`.

    **Arguments:**

    - `rtol`, `atol`: relative and absolute tolerance, positive; `atol` in the units of each
      coordinate and velocity.
    - `controller`: `"pi"`, which also uses the error of the previous step, or `"integral"`.
    - `dt_min`, `dt_max`: bounds on the step size (s), except for steps shortened to hit a stop; by
      default ten roundings of the end time, and none. A run whose smallest step is not accurate
      enough ends as `Result.minimum_step`.
    - `safety`: factor below 1 on the step size that would just meet the tolerance.
    - `max_increase`: largest factor from one step size to the next.

    Derivatives with respect to all of these, to the first step size and to the times of start and
    end are zero: step sizes are constants. By an end time the derivative is the velocity there.
    Raises `ValueError` for values that break these rules. Source: [S3] (B15)-(B21), with the
    exponent 1/(q + 1), q the lower of the two orders; `"pi"` of Hairer, Nørsett and Wanner's
    DOPRI5.
    """

    rtol: Float[Array, "..."] = eqx.field(converter=as_float, default=1e-8)
    atol: Float[Array, "..."] = eqx.field(converter=as_float, default=1e-8)
    controller: str = eqx.field(static=True, default="pi")
    dt_min: Float[Array, "..."] | None = eqx.field(converter=as_float, default=None)
    dt_max: Float[Array, "..."] | None = eqx.field(converter=as_float, default=None)
    safety: Float[Array, "..."] = eqx.field(converter=as_float, default=0.9)
    max_increase: Float[Array, "..."] = eqx.field(converter=as_float, default=4.0)

    def __check_init__(self):
        checks.one_of("Adaptive(controller=)", self.controller, ("pi", "integral"))
        for name in ("rtol", "atol", "safety", "max_increase"):
            checks.positive(f"Adaptive({name}=)", getattr(self, name), "without unit")
        for name in ("dt_min", "dt_max"):
            if getattr(self, name) is not None:
                checks.positive(f"Adaptive({name}=)", getattr(self, name), "s")
        least, most = self.dt_min, self.dt_max
        # As numbers of Python: inside `jax.jit` a comparison of constant arrays would be a tracer.
        if not (
            least is None
            or most is None
            or checks.has_tracers(least, most)
            or float(least) <= float(most)
        ):
            raise ValueError(
                f"Adaptive(dt_min=) is {float(least)!r}, above dt_max={float(most)!r}; it must be "
                "the smaller one: exchange them."
            )
        for name, rule, holds in (("safety", "below", lt), ("max_increase", "above", gt)):
            value = getattr(self, name)
            if not checks.has_tracers(value) and not holds(float(value), 1.0):
                raise ValueError(f"Adaptive({name}=) is {float(value)!r}; it must be {rule} 1.")


def error(
    adaptive: Adaptive, space: AbstractSpace, start: State, end: State, difference: Difference
) -> Float[Array, ""]:
    """Estimated error of a step in units of the tolerance. [S3] (B16)-(B18), on the group."""
    q = jnp.maximum(space.magnitude(start.q), space.magnitude(end.q))
    v = jnp.maximum(jnp.abs(start.v), jnp.abs(end.v))
    tolerance = adaptive.atol + adaptive.rtol * jnp.concatenate([q, v])
    return jnp.sqrt(jnp.mean((jnp.concatenate(difference) / tolerance) ** 2))


def factor(
    adaptive: Adaptive, order: int, error: Array, last_error: Array, after_rejection: Array
) -> Float[Array, ""]:
    """Ratio of the next step size to this one; `order` is the lower one of the pair."""
    # An error of zero would give an infinite step; one that is not finite gives the smallest ratio.
    tiny = jnp.finfo(error.dtype).tiny ** 0.5
    # Logarithms, for one power costs as much as all of them together.
    now = jnp.log(jnp.maximum(error, tiny))
    exponent = -now
    if adaptive.controller == "pi":
        last = jnp.log(jnp.maximum(last_error, _SMALLEST_MEMORY))
        smoothed = _PROPORTIONAL * last - _INTEGRAL * now
        exponent = jnp.where(error <= 1.0, smoothed, exponent)
    proposed = jnp.exp(exponent / (order + 1))
    proposed = jnp.where(jnp.isfinite(error), adaptive.safety * proposed, 0.0)
    upper = jnp.where(after_rejection | ~(error <= 1.0), 1.0, adaptive.max_increase)
    return jnp.clip(proposed, _LARGEST_DECREASE, upper)
