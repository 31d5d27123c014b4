"""How far a point is from the conditions of an optimum, and what the line search compares."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control import nodes, points
from lie_jax.control.elimination import Map, has_limits
from lie_jax.control.parts import Part
from lie_jax.control.points import (
    Derivatives,
    Limits,
    Parameters,
    Point,
    Problem,
    first_multipliers,
    last_multipliers,
)
from lie_jax.control.transcription import Chunk, Expansion, distances
from lie_jax.numerics.small import matvec


class Errors(NamedTuple):
    """Of a part of a point, added up chunk by chunk.

    `norm`: largest entry of the Lagrangian's gradient, `size`: the largest sum of the sizes of its
    terms; `by_p`, `sizes_by_p` (p,): the same along the parameters, all terms so far. `violation`,
    `gap`: largest of gaps, conditions and path, and their sum. `product`, `least`, `products`:
    largest and least product of a distance from a limit and its multiplier, and the sum of all
    `limits` of them; `logarithms`: sum of those of the distances. `cost`. `unit` (m,): largest
    diagonal of the Hessian along the inputs of the phase. `excess`, `strain`: of a path that has a
    price, largest value and largest multiplier in parts of the price, zero without one. `blur`:
    largest change of an entry of the gradient by the rounding of path values of size one.
    """

    norm: Array
    size: Array
    by_p: Array
    sizes_by_p: Array
    violation: Array
    gap: Array
    product: Array
    least: Array
    products: Array
    limits: Array
    logarithms: Array
    cost: Array
    unit: Array
    excess: Array
    strain: Array
    blur: Array


@eqx.filter_jit
def _none(at: Parameters) -> Errors:
    zero = jnp.zeros((), at.p.dtype)
    return Errors(
        norm=zero, size=zero, by_p=at.high - at.low, sizes_by_p=at.high + at.low, violation=zero,
        gap=zero, product=zero, least=jnp.full((), jnp.inf, zero.dtype), products=zero,
        limits=zero, logarithms=zero, cost=zero, unit=zero[None][:0], excess=zero, strain=zero,
        blur=zero,
    )  # fmt: skip


def _largest(values: Array, mask: Any = True) -> Array:
    return jnp.max(jnp.where(mask, jnp.abs(values), 0.0), initial=0.0)


@eqx.filter_jit
def _of_chunk(
    so_far: Errors, part: Part, chunk: Chunk, expansion: Expansion, before: Float[Array, " r"]
) -> tuple[Errors, Float[Array, " r"]]:
    """Errors with those of a chunk, and the costate after it; `before`: at its first node."""
    r, m = expansion.gaps.shape[1], chunk.u.shape[1]
    costates = jnp.concatenate([before[None], expansion.costates[:-1]])
    pushed = expansion.steps * expansion.costates[:, :, None]
    pulled = expansion.jacobian * chunk.pulls[:, :, None]
    own = jnp.concatenate([-costates, chunk.high - chunk.low], axis=1)
    own = jnp.pad(own, ((0, 0), (0, so_far.by_p.shape[0])))
    real = chunk.real[:, None]
    total = expansion.slope + jnp.sum(pushed, axis=1) + jnp.sum(pulled, axis=1) + own
    sizes = jnp.abs(expansion.slope) + jnp.abs(own)
    sizes = sizes + jnp.sum(jnp.abs(pushed), axis=1) + jnp.sum(jnp.abs(pulled), axis=1)
    total, sizes = (jnp.where(real, x, 0.0) for x in (total, sizes))
    below, above = distances(part, chunk)
    has_low, has_high = has_limits(part, chunk)
    pairs = [
        (below * chunk.low, has_low),
        (above * chunk.high, has_high),
        (chunk.slacks * chunk.pulls, jnp.broadcast_to(real, chunk.slacks.shape)),
    ]
    left = jnp.where(real & (chunk.ease == 0.0), expansion.values + chunk.slacks, 0.0)
    is_excess = real & (chunk.ease > 0.0) & (expansion.values > 0.0)
    slacks = jnp.where(real, chunk.slacks, 1.0)
    # A multiplier is known as well as its slack, whose rounding is that of the path's value.
    blur = jnp.abs(pulled) / jnp.where(chunk.slacks > 0.0, chunk.slacks, 1.0)[:, :, None]
    blur = jnp.where(real, jnp.finfo(left.dtype).eps * jnp.sum(blur, axis=1), 0.0)
    unit = jnp.diagonal(expansion.hessian, axis1=1, axis2=2)[:, r : r + m]
    unit = jnp.max(jnp.where(real, jnp.abs(unit), 0.0), axis=0)
    found = Errors(
        norm=jnp.maximum(so_far.norm, _largest(total[:, : r + m])),
        size=jnp.maximum(so_far.size, _largest(sizes[:, : r + m])),
        by_p=so_far.by_p + jnp.sum(total[:, r + m :], axis=0),
        sizes_by_p=so_far.sizes_by_p + jnp.sum(sizes[:, r + m :], axis=0),
        violation=jnp.maximum(
            so_far.violation, jnp.maximum(_largest(expansion.gaps), _largest(left))
        ),
        gap=so_far.gap + jnp.sum(jnp.abs(expansion.gaps)) + jnp.sum(jnp.abs(left)),
        product=jnp.max(jnp.stack([so_far.product, *(_largest(x, mask) for x, mask in pairs)])),
        least=jnp.min(
            jnp.stack([so_far.least, *(_least(x, mask) for x, mask in pairs)]),
        ),
        products=so_far.products + sum(jnp.sum(jnp.where(mask, x, 0.0)) for x, mask in pairs),
        limits=so_far.limits + sum(jnp.sum(mask).astype(so_far.limits.dtype) for _, mask in pairs),
        logarithms=so_far.logarithms + sum(jnp.sum(jnp.log(x)) for x in (below, above, slacks)),
        cost=so_far.cost + jnp.sum(expansion.cost),
        unit=jnp.maximum(unit, so_far.unit) if so_far.unit.shape == unit.shape else unit,
        excess=jnp.maximum(so_far.excess, _largest(expansion.values, is_excess)),
        blur=jnp.maximum(so_far.blur, _largest(blur)),
        strain=jnp.maximum(so_far.strain, _largest(chunk.ease * chunk.pulls, real)),
    )
    return found, expansion.costates[-1]


def _least(values: Array, mask: Array) -> Array:
    return jnp.min(jnp.where(mask, values, jnp.inf), initial=jnp.inf)


@eqx.filter_jit
def _of_end(
    so_far: Errors, terms: list[Array], own: Float[Array, " r"], values: Array, cost: Any
) -> Errors:
    """Errors with those of a node at an end: terms (z,) of its gradient, its own costate (r,)."""
    r = own.shape[0]
    total = sum(terms[1:], terms[0])
    size = sum(map(jnp.abs, terms[1:]), jnp.abs(terms[0]))
    return so_far._replace(
        norm=jnp.maximum(so_far.norm, _largest(total[:r] + own)),
        size=jnp.maximum(so_far.size, _largest(size[:r] + jnp.abs(own))),
        by_p=so_far.by_p + total[r:],
        sizes_by_p=so_far.sizes_by_p + size[r:],
        violation=jnp.maximum(so_far.violation, _largest(values)),
        gap=so_far.gap + jnp.sum(jnp.abs(values)),
        cost=so_far.cost + cost,
    )


def errors(problem: Problem, at: Point, derived: Derivatives) -> tuple[Errors, tuple[Array, ...]]:
    """Errors at a point, and the units of the inputs of each phase."""
    found, units = _none(at.parameters), []
    first = nodes.pull_back(derived.firsts[0], at.stretches[0].costate)
    for j, (part, stretch) in enumerate(zip(problem.parts, at.stretches, strict=True)):
        costate = nodes.pull_back(derived.firsts[j], stretch.costate)
        found = found._replace(unit=jnp.zeros_like(part.lower))
        for chunk, expansion in zip(stretch.chunks, derived.expansions[j], strict=True):
            found, costate = _of_chunk(found, part.of_steps, chunk, expansion, costate)
        units.append(found.unit)
        ending = derived.endings[j]
        terms = [ending.slope, _pull(ending.jacobian, last_multipliers(problem, at, derived, j))]
        if j < len(problem.links):
            link = derived.links[j]
            ahead = nodes.pull_back(derived.firsts[j + 1], at.stretches[j + 1].costate)
            terms.append(_pull(link.steps, ahead))
            found = _of_gap(found, link.gap)
        found = _of_end(found, terms, -costate, ending.values, ending.cost)
    if isinstance(derived.start, Map):
        terms = [_pull(derived.start.steps, first)]
        found = _of_end(found, terms, first[:0], derived.start.gap, 0.0)
    else:
        pulls = first_multipliers(problem, at, derived)
        terms = [_pull(derived.start.jacobian, pulls)]
        found = _of_end(found, terms, first, derived.start.values, 0.0)
    return _of_parameters(found, problem.limits, at.parameters), tuple(units)


@eqx.filter_jit
def _pull(jacobian: Array, multipliers: Array) -> Array:
    return matvec(jacobian.T, multipliers)


@eqx.filter_jit
def _of_gap(so_far: Errors, gap: Array) -> Errors:
    return so_far._replace(
        violation=jnp.maximum(so_far.violation, _largest(gap)),
        gap=so_far.gap + jnp.sum(jnp.abs(gap)),
    )


@eqx.filter_jit
def _of_parameters(so_far: Errors, limits: Limits, at: Parameters) -> Errors:
    """All errors, with those by p."""
    below, above, has_low, has_high = points.distances(limits, at.p)
    pairs = [(below * at.low, has_low), (above * at.high, has_high)]
    return so_far._replace(
        norm=jnp.maximum(so_far.norm, _largest(so_far.by_p)),
        size=jnp.maximum(so_far.size, _largest(so_far.sizes_by_p)),
        product=jnp.max(jnp.stack([so_far.product, *(_largest(x, mask) for x, mask in pairs)])),
        least=jnp.min(jnp.stack([so_far.least, *(_least(x, mask) for x, mask in pairs)])),
        products=so_far.products + sum(jnp.sum(jnp.where(mask, x, 0.0)) for x, mask in pairs),
        limits=so_far.limits + sum(jnp.sum(mask).astype(so_far.limits.dtype) for _, mask in pairs),
        logarithms=so_far.logarithms + jnp.sum(jnp.log(below)) + jnp.sum(jnp.log(above)),
    )
