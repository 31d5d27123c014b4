"""Unknowns of an optimal control problem of several phases, and all derivatives at a point."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.control import ends, nodes
from lie_jax.control.elimination import Map
from lie_jax.control.ends import Ending
from lie_jax.control.nodes import Chart, Node
from lie_jax.control.parts import Part
from lie_jax.control.transcription import Chunk, Expansion, expand


class Problem(eqx.Module):
    """Phases, maps between them, start (None where it is free), and limits of p."""

    parts: tuple[Part, ...]
    links: tuple[Callable | None, ...]
    given: Any
    begin: Callable | None
    symmetry: Callable | None
    periodic: bool = eqx.field(static=True)
    limits: "Limits"


class Limits(NamedTuple):
    """Lower and upper limits of the parameters (p,), infinite for none."""

    lower: Array
    upper: Array


class Parameters(NamedTuple):
    """Parameters (p,) and multipliers of their lower and upper limits, zero for none."""

    p: Array
    low: Array
    high: Array


class Stretch(NamedTuple):
    """Unknowns of a phase: its chunks, the costate (n,) of its first node, and the multipliers (e,)
    of its end conditions.
    """

    chunks: tuple[Chunk, ...]
    costate: Array
    ends: Array

    def last(self) -> Node:
        """Last node."""
        return self.chunks[-1].last()


class Point(NamedTuple):
    """All unknowns: those of the phases, parameters p with multipliers of their limits, and
    multipliers of conditions at the start, and of the period (n,) if there is one.
    """

    stretches: tuple[Stretch, ...]
    parameters: Parameters
    begin: Array
    period: Array | None

    @property
    def p(self) -> Array:
        """Free durations and parameters."""
        return self.parameters.p


class Derivatives(NamedTuple):
    """Derivatives at a point: of all steps, last nodes and links, and of the start.

    `firsts`, `lasts`: charts around the first and last nodes of the phases.
    """

    expansions: tuple[tuple[Expansion, ...], ...]
    firsts: tuple[Chart | None, ...]
    lasts: tuple[Chart | None, ...]
    endings: tuple[Ending, ...]
    links: tuple[Map, ...]
    start: Map | Ending


def derive(problem: Problem, at: Point) -> Derivatives:
    """Derivatives at a point."""
    p, parts = at.p, problem.parts
    expansions = tuple(
        tuple(expand(part.of_steps, chunk, p) for chunk in stretch.chunks)
        for part, stretch in zip(parts, at.stretches, strict=True)
    )
    firsts = tuple(
        ends.chart_at(part, False, stretch.chunks[0].first, p)
        for part, stretch in zip(parts, at.stretches, strict=True)
    )
    lasts = tuple(jax.tree.map(lambda x: x[-1], rows[-1].charts) for rows in expansions)
    return Derivatives(expansions, firsts, lasts, *derive_ends(problem, at, firsts, lasts))


def derive_ends(
    problem: Problem, at: Point, firsts: tuple[Chart | None, ...], lasts: tuple[Chart | None, ...]
) -> tuple[tuple[Ending, ...], tuple[Map, ...], Map | Ending]:
    """Derivatives of the ends of phases, of links and of the start, around charts."""
    p, parts = at.p, problem.parts
    final, start_node = len(parts) - 1, at.stretches[0].chunks[0].first
    cycle = None
    if at.period is not None:
        cycle = ends.Cycle(parts[0].of_steps, start_node, firsts[0], problem.symmetry, at.period)
    endings = tuple(
        ends.at_last(part, stretch.last(), lasts[j], p, stretch.ends, cycle if j == final else None)
        for j, (part, stretch) in enumerate(zip(parts, at.stretches, strict=True))
    )
    links = tuple(
        ends.link(
            parts[j], lasts[j], at.stretches[j].last(), parts[j + 1], firsts[j + 1],
            at.stretches[j + 1].chunks[0].first, change, p,
            nodes.pull_back(firsts[j + 1], at.stretches[j + 1].costate),
        )
        for j, change in enumerate(problem.links)
    )  # fmt: skip
    first = at.stretches[0]
    if problem.given is None:
        start = ends.at_first(parts[0], start_node, firsts[0], problem.begin, p, at.begin, cycle)
    else:
        costate = nodes.pull_back(firsts[0], first.costate)
        start = ends.start(parts[0], problem.given, first.chunks[0].first, firsts[0], p, costate)
    return endings, links, start


def distances(limits: Limits, p: Array) -> tuple[Array, Array, Array, Array]:
    """Of p from its limits, one where there is none, and where there are some."""
    has_low, has_high = jnp.isfinite(limits.lower), jnp.isfinite(limits.upper)
    below = jnp.where(has_low, p - limits.lower, 1.0)
    return below, jnp.where(has_high, limits.upper - p, 1.0), has_low, has_high


def last_multipliers(problem: Problem, at: Point, derived: Derivatives, j: int) -> Array:
    """Multipliers of the conditions of `Ending`: those of the user, and of the period."""
    stretch = at.stretches[j]
    if at.period is None or j < len(problem.parts) - 1:
        return stretch.ends
    return jnp.concatenate([stretch.ends, _along_period(problem, at, derived)])


def first_multipliers(problem: Problem, at: Point, derived: Derivatives) -> Array:
    """Multipliers of the conditions of a first node that is free."""
    if at.period is None:
        return at.begin
    return jnp.concatenate([at.begin, _along_period(problem, at, derived)])


def _along_period(problem: Problem, at: Point, derived: Derivatives) -> Array:
    assert at.period is not None
    along = nodes.pull_back(derived.firsts[0], at.period)
    return along[: along.shape[0] - at.stretches[0].chunks[0].first.held.shape[0]]
