"""What the equations of motion with constraints are solved for."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks


class Demand(NamedTuple):
    """What x (nv,) and λ (nc,) have to meet: M x + Bᵀλ = c f and B x + c d + a Φ̇ + b Φ = 0.

    d is what Φ̈, of velocity constraints Ψ̇, is without accelerations. The `share` c is one for
    accelerations, with the feedback of `rates` a and `positions` b (scalars or (nc,)), and zero for
    the smallest change of velocities by Φ̇ or of positions by Φ. Of velocity constraints Φ is zero,
    and Φ̇ stands for Ψ.
    """

    share: Any = 1.0
    rates: Any = 0.0
    positions: Any = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether the share is known to be one."""
        return _is(self.share, 1.0)

    def share_of(self, x: Array) -> Array:
        """The share of forces or of a residual."""
        # A selection: what does not count may be infinite.
        return x if self.is_whole else jnp.where(self.share != 0.0, x, 0.0)

    def conditions(self, system: Any, t: Array, q: Array, v: Array, x: Array) -> Array:
        """B x + c d + a Φ̇ + b Φ (nc,)."""
        rates, result = system.constraint_rates(t, q, v, x, self.share)
        if not _is(self.rates, 0.0):
            result = result + self.rates * rates
        if not _is(self.positions, 0.0):
            none = jnp.zeros(system.velocity_rows, q.dtype)
            result = result + self.positions * jnp.concatenate([system.constraint(t, q), none])
        return result


ACCELERATIONS = Demand()


def _is(x: Any, number: float) -> bool:
    """Whether x is a number that is known without running a program."""
    return not checks.has_tracers(x) and bool(np.all(np.asarray(x) == number))
