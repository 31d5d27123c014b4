"""Points from which searches start: unknowns of all phases from guesses."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.control import arguments, ends
from lie_jax.control import guess as guesses
from lie_jax.control.guess import Guess
from lie_jax.control.nodes import Node
from lie_jax.control.parts import Part
from lie_jax.control.phase import Phase
from lie_jax.control.points import Point, Problem, Stretch
from lie_jax.control.transcription import evaluate
from lie_jax.systems.system import State
from lie_jax.user_functions import snapshots

# Barrier of a search that starts cold: products of distances from limits and their multipliers;
# and of one that starts with multipliers.
_BARRIER, _WARM = 0.1, 1e-6


def stretches(
    phases: list[Phase],
    parts: list[Part],
    changes: tuple[Any, ...],
    given: list[Guess],
    start: State,
    p: Array,
    size: int | None = None,
) -> tuple[list[Part], list[Stretch], list[Guess]]:
    """Parts with the freedom of their constraints, and unknowns, one phase after the other: each
    starts where the one before ends, unless its states are guessed. Guesses are without multipliers
    where those of a phase belong to another problem. `size`: number of steps of a chunk.
    """
    barrier, first = _barrier(given), start
    found, unknowns = [], []
    for j, (phase, part, one) in enumerate(zip(phases, parts, given, strict=True)):
        if one.states is not None:
            first = guesses.state_at(one.states, 0, p.dtype)
        arguments.check_functions(phase, part, first, p)
        part = dataclasses.replace(part, freedom=guesses.freedom_of(part, first, p))
        part = snapshots.freeze(part)
        node = Node(first, part.lower * 0.0 if part.has_rates else part.lower[:0])
        number = jnp.zeros((), p.dtype)
        arrays = part.count, number, number, node, node, part.lower, p
        paths = jax.eval_shape(part.path, *arrays).shape[0]
        if not guesses.fits(part, one.multipliers, first, p, paths):
            cold = [Guess(x.inputs, x.states, x.duration) for x in given]
            return stretches(phases, parts, changes, cold, start, p, size)
        # One program for all lengths, or where JAX traces the steps as one.
        count = guesses.CHUNK if not checks.has_tracers(part, first, one, p) else phase.steps
        unknowns.append(
            guesses.stretch(part, phase.steps, one, first, p, paths, barrier, size or count)
        )
        found.append(part)
        if j < len(changes):
            last = unknowns[-1].last().state
            if changes[j] is not None:
                arguments.check_map("solve(links=)", changes[j], last, parts[j + 1], p)
            first = ends.mirror(changes[j], last, part.layout.read(p))
    return found, unknowns, given


def first_point(
    problem: Problem, unknowns: list[Stretch], state: State, p: Array, given: list[Guess]
) -> Point:
    """Point of the unknowns of all phases, and multipliers of zero at the start."""
    begin = jnp.zeros(0, p.dtype)
    if problem.begin is not None:
        read = problem.parts[0].layout.read(p)
        shape = jax.eval_shape(problem.begin, state.q, state.v, *read)
        begin = jnp.zeros(int(np.prod(shape.shape)), p.dtype)
    period = jnp.zeros_like(unknowns[0].costate) if problem.periodic else None
    known = guesses.parameters(p, problem.limits, _barrier(given))
    return Point(tuple(unknowns), known, begin, period)


def _barrier(given: list[Guess]) -> float:
    """Barrier at the start: that of the multipliers where all phases have some."""
    return _BARRIER if any(one.multipliers is None for one in given) else _WARM


def with_slacks(
    problem: Problem, at: Point, given: list[Guess], has_price: bool = False
) -> tuple[Point, Array]:
    """A point with slacks and multipliers of the path, and the barrier to start with.

    With a price the path of a search that starts cold may be exceeded at first.
    """
    known, cost, unknowns = _barrier(given), jnp.zeros((), at.p.dtype), []
    barrier = jnp.asarray(known, at.p.dtype)
    for part, one, guess in zip(problem.parts, at.stretches, given, strict=True):
        values = [evaluate(part.of_steps, chunk, at.p, barrier) for chunk in one.chunks]
        cost, is_warm = sum((x.sums[0] for x in values), cost), guess.multipliers is not None
        paths = [x.path for x in values]
        unknowns.append(guesses.with_slacks(one, paths, known, is_warm))
    if not has_price or known == _WARM:
        return at._replace(stretches=tuple(unknowns)), barrier
    ease, priced = 1.0 / jnp.maximum(1.0, jnp.abs(cost)), []
    for part, one in zip(problem.parts, unknowns, strict=True):
        chunks = []
        for chunk in one.chunks:
            values = evaluate(part.of_steps, chunk._replace(ease=ease), at.p, barrier)
            chunks.append(chunk._replace(ease=ease, slacks=values.slacks, pulls=values.pulls))
        priced.append(one._replace(chunks=tuple(chunks)))
    return at._replace(stretches=tuple(priced)), barrier
