"""Which combinations of parameters recordings determine, in numbers and words."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lie_jax.identification import estimation

# A combination that is so many times less well determined than single numbers alone is called
# weak: the collinearity index of Brun, Reichert and Künsch (2001), who draw the line at 10 to 15.
_WEAK = 10.0
_HEADER = """\
Changes that together leave the prediction as it is, or nearly, the largest of them by 1 %:
singular value"""
# Numbers below this share of a direction are not printed.
_SMALL = 0.1


class Identifiability(eqx.Module):
    """Which combinations of parameters the recordings determine.

    The Jacobian of the residuals with respect to p numbers, its columns scaled to unit length, has
    singular values from about √p down to 0. A combination with the singular value σ is 1/σ times
    less well determined than a number alone whose fellows are known.

    - `names`: of the numbers, such as `"inertia[0, 1]"`; `values`: (p,), the estimates.
    - `singular_values`: (p,), falling.
    - `directions`: (p, p), in each row the change of the numbers, in their units, that belongs to a
      singular value. It is scaled so that the number with the largest part in it changes by its own
      value, or by 1 where that is 0.
    - `shares`: (p, p), the same in units in which each number alone is equally well determined, a
      unit vector in each row.
    - `determined`: (p,), which combinations stand above rounding.

    `print` shows them as a table, worst first.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    values: Float[Array, " p"]
    singular_values: Float[Array, " p"]
    directions: Float[Array, "p p"]
    shares: Float[Array, "p p"]
    determined: Bool[Array, " p"]

    def __str__(self):
        order = range(len(self.names) - 1, -1, -1)
        lines = [_HEADER]
        strong = 0
        for k in order:
            sigma = float(self.singular_values[k])
            if bool(self.determined[k]) and sigma * _WEAK > 1.0:
                strong += 1
                continue
            word = "weak" if bool(self.determined[k]) else "not determined"
            lines.append(f"{sigma:14.2e}  {word}: {self._changes(k)}")
        if strong == len(self.names):
            lines = []
        smallest = min((float(s) for s in self.singular_values if s * _WEAK > 1.0), default=0.0)
        lines.append(
            f"{strong} of {len(self.names)} combinations are well determined"
            + (f" (smallest singular value {smallest:.2g})." if strong else ".")
        )
        return "\n".join(lines)

    def _changes(self, k: int) -> str:
        shares = np.abs(np.asarray(self.shares[k]))
        change = 0.01 * np.asarray(self.directions[k])
        values = np.asarray(self.values)
        terms = [
            f"{self.names[i]} {values[i]:.5g} -> {values[i] + change[i]:.5g}"
            for i in np.argsort(-shares)
            if shares[i] > _SMALL * shares.max()
        ]
        return ", ".join(terms)


def identifiability(
    names: tuple[str, ...],
    numbers: Callable[[Array], Array],
    z: Float[Array, " p"],
    root: Float[Array, "n p"],
) -> Identifiability:
    """The report from RᵀR, the information on coordinates z, and the numbers that they mean."""

    @jax.jit
    def find(z, root):
        slope = jax.jacfwd(numbers)(z)
        jacobian = jnp.linalg.solve(slope.T, root.T).T
        # Fewer residuals than numbers leave some of them undetermined: rows of zeros say so.
        missing = max(len(names) - len(root), 0)
        jacobian = jnp.concatenate([jacobian, jnp.zeros((missing, len(names)), z.dtype)])
        scale, singular, right, determined = estimation.singular_directions(jacobian)
        values = numbers(z)
        changes = right / scale[None, :]
        most = jnp.argmax(jnp.abs(right), axis=1)
        size = jnp.where(values == 0.0, 1.0, values)[most]
        directions = changes * (size / changes[jnp.arange(len(names)), most])[:, None]
        return values, singular, directions, right, determined

    return Identifiability(names, *find(z, root))
