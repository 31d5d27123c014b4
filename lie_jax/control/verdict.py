"""Whether a search of `solve` has ended at a minimum, and what it says otherwise."""

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax import checks
from lie_jax.control.elimination import Map
from lie_jax.control.newton import Sweep, first_change, sweep
from lie_jax.control.points import Problem
from lie_jax.control.search import Search
from lie_jax.user_functions import libraries


def check(problem: Problem, found: Search) -> tuple[Search, Sweep, bool]:
    """Search that has not converged where its end is no minimum, the elimination of all steps at
    the end, and whether that may be a minimum.

    Conditions of first order hold at maxima and saddles, too; there the Hessian along all ways that
    the conditions leave has a negative curvature. It may have none in directions without a cost,
    and is right to the errors of its differences: damping by a few times these counts, too.
    """
    look, zero = found.look, jnp.zeros_like(found.barrier)
    small = jnp.asarray(jnp.finfo(zero.dtype).eps ** (1 / 3), zero.dtype)

    def eliminate(damping):
        swept = sweep(problem, look.at, look.derived, look.units, found.barrier, damping)
        first = first_change(problem, look.at, look.derived, swept, found.barrier, damping)
        return swept, first.right

    if checks.has_tracers(found):
        # A loop has the code of an elimination once.
        swept, right = jax.lax.map(eliminate, jnp.stack([zero, small]))
        converged = found.converged & jnp.any(right)
        return found._replace(converged=converged), jax.tree.map(lambda x: x[0], swept), True
    swept, right = eliminate(zero)
    if bool(right) or not bool(found.converged):
        return found, swept, True
    right = eliminate(small)[1]
    return found._replace(converged=right), swept, bool(right)


def warn_unless_converged(
    problem: Problem, found: Search, tolerance: float, max_iterations: int, is_least: bool
) -> None:
    """Warn with what is left and what to try, unless the search has converged; nothing where JAX
    traces it, whose result says so in `converged`.
    """
    if checks.has_tracers(found) or bool(found.converged):
        return
    iterations = int(found.iterations)
    cost, norm, violation = (float(x) for x in np.asarray(found.history)[iterations])
    if not is_least:
        missed = "the cost falls from here in some direction: a saddle or a maximum"
        remedies = ["start from another guess, of inputs that lead away from it"]
    elif not np.isfinite([cost, norm, violation]).all():
        missed = "a cost, a condition or a derivative of them is not finite"
        remedies = [
            "avoid roots, logarithms and quotients of zero in your functions",
            "start from states= in the guess, or take smaller steps",
        ]
    elif violation > tolerance:
        missed = f"the violation is {violation:.2g}, largest {_place(problem, found)}"
        remedies = [
            "loosen conditions that exclude each other or cannot be met within the duration",
            "give the search states= on the way in control.Guess",
        ]
    elif norm > tolerance:
        missed = f"the gradient norm is {norm:.2g}"
        remedies = [
            "give a cost to what no cost and no condition decides",
            "start from another guess",
        ]
    else:
        missed = "barriers still push on the limits"
        remedies = ["give limits that differ by more than rounding"]
    if iterations >= max_iterations:
        remedies.insert(0, f"raise max_iterations={max_iterations}")
    libraries.warn(
        f"control.solve: not converged, iterations: {iterations}; {missed} "
        f"(tolerance={tolerance:.2g}): {', or '.join(remedies)}. States and inputs are the best "
        "that were computed."
    )


def _place(problem: Problem, found: Search) -> str:
    """Where the largest violation is."""
    at, derived = found.look.at, found.look.derived
    worst, place = -1.0, ""

    def see(values, words) -> None:
        nonlocal worst, place
        values = np.abs(np.asarray(values))
        if values.size and float(np.max(values)) > worst:
            worst, place = (
                float(np.max(values)),
                words(np.unravel_index(values.argmax(), values.shape)),
            )

    several = len(problem.parts) > 1
    for j, stretch in enumerate(at.stretches):
        of = f" of phase {j}" if several else ""
        for chunk, expansion in zip(stretch.chunks, derived.expansions[j], strict=True):
            k = np.asarray(chunk.k)
            real = np.asarray(chunk.real)[:, None]
            see(expansion.gaps, lambda i, k=k, of=of: f"as a gap after step {k[i[0]]}{of}")
            left = np.where(real, np.asarray(expansion.values + chunk.slacks), 0.0)
            see(left, lambda i, k=k, of=of: f"of path value {i[1]} after step {k[i[0]]}{of}")
        count = stretch.ends.shape[0]
        see(derived.endings[j].values[:count], lambda i, of=of: f"of end value {i[0]}{of}")
        if j < len(derived.links):
            see(derived.links[j].gap, lambda i, j=j: f"as a gap of the link after phase {j}")
    if isinstance(derived.start, Map):
        see(derived.start.gap, lambda i: "as a gap at the start")
    else:
        count = at.begin.shape[0]
        see(derived.start.values[:count], lambda i: f"of begin value {i[0]}")
        see(derived.start.values[count:], lambda i: "of the period")
    return place
