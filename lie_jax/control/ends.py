"""Derivatives at the ends of phases: starts, last states, links from phase to phase, periods."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.control.elimination import Map
from lie_jax.control.nodes import (
    Chart,
    Node,
    chart,
    coordinates,
    point,
    pull_back,
)
from lie_jax.control.parts import Part
from lie_jax.control.transcription import value_and_jacobian
from lie_jax.systems.system import State


class Ending(NamedTuple):
    """At the first or last node of a phase, along (local coordinates, p): cost with its slope (z,),
    Hessian (z, z) of the cost and of the conditions with their multipliers, `values` (e,) of these
    and their `jacobian` (e, z).
    """

    cost: Array
    slope: Array
    hessian: Array
    values: Array
    jacobian: Array


def time_at(part: Part, is_last: bool, p: Array) -> Float[Array, ""]:
    """Time (s) at the first or last node of a phase."""
    start = part.clock.start_at(p)
    return start + part.clock.duration_at(p) if is_last else start


@eqx.filter_jit
def chart_at(part: Part, is_last: bool, node: Node, p: Array) -> Chart | None:
    """Chart around the first or last node of a phase."""
    return chart(part.system(p), time_at(part, is_last, p), node, part.freedom)


def end_cost(part: Part, state: State, p: Array) -> Float[Array, ""]:
    """Cost of the last state of a phase, and that of a duration without any other."""
    duration = part.clock.duration_at(p) if part.by_time else 0.0
    return part.final_cost(state, p) + duration


def mirror(symmetry: Callable | None, state: State, parameters: tuple[Any, ...]) -> State:
    """State after a link or a symmetry, None for one that changes nothing."""
    if symmetry is None:
        return state
    return State(*symmetry(state.q, state.v, *parameters))


@eqx.filter_jit
def at_last(
    part: Part,
    node: Node,
    around: Chart | None,
    p: Array,
    multipliers: Float[Array, " e"],
    cycle: "Cycle | None",
) -> Ending:
    """Cost and conditions of the last node of a phase, with multipliers.

    With a `cycle` the coordinates of its image around the first node are conditions, too.
    """
    r = _size(part, node)

    def end_at(z):
        q = p + z[r:]
        return point(part.system(q), time_at(part, True, q), node, around, z[:r]), q

    def cost(z):
        end, q = end_at(z)
        return end_cost(part, end.state, q)

    def conditions(z):
        end, q = end_at(z)
        values = part.end(end.state, q)
        if cycle is None:
            return values
        image = mirror(cycle.symmetry, end.state, part.layout.read(q))
        return jnp.concatenate([values, cycle.coordinates(Node(image, cycle.first.held), q)])

    pulls = multipliers if cycle is None else jnp.concatenate([multipliers, cycle.along()])
    pulls = pulls if part.curvature == "all" else None
    return _expand(conditions, cost, jnp.zeros(r + p.shape[0], p.dtype), pulls)


@eqx.filter_jit
def at_first(
    part: Part,
    node: Node,
    around: Chart | None,
    begin: Callable | None,
    p: Array,
    multipliers: Float[Array, " e"],
    cycle: "Cycle | None",
) -> Ending:
    """Conditions of a first node that is free: those of the user, and its place in a cycle, zero
    here, which the image of the last node must meet.
    """
    r = _size(part, node)

    def conditions(z):
        q = p + z[r:]
        start = point(part.system(q), time_at(part, False, q), node, around, z[:r])
        values = jnp.zeros(0, p.dtype)
        if begin is not None:
            values = begin(start.state.q, start.state.v, *part.layout.read(q)).reshape(-1)
        if cycle is None:
            return values
        return jnp.concatenate([values, -cycle.coordinates(start, q)])

    pulls = multipliers
    if cycle is not None:
        pulls = jnp.concatenate([multipliers, cycle.along()])
    origin = jnp.zeros(r + p.shape[0], p.dtype)
    return _expand(conditions, lambda z: jnp.zeros((), z.dtype), origin, pulls)


class Cycle(NamedTuple):
    """A period: phase, first node and its chart, which the image of the last one under a symmetry
    must be, and the pull (n,) of that condition along all coordinates of the first node.
    """

    part: Part
    first: Node
    around: Chart | None
    symmetry: Callable | None
    pull: Array

    def coordinates(self, node: Node, p: Array) -> Array:
        """Coordinates of a node around the first one, without inputs held."""
        apart = coordinates(self.part.system(p), self.first, self.around, node)
        return apart[: apart.shape[0] - self.first.held.shape[0]]

    def along(self) -> Array:
        """Pull along the coordinates of the condition."""
        along = pull_back(self.around, self.pull)
        return along[: along.shape[0] - self.first.held.shape[0]]


@eqx.filter_jit
def link(
    part: Part,
    around: Chart | None,
    node: Node,
    following: Part,
    ahead: Chart | None,
    first: Node,
    change: Callable | None,
    p: Array,
    costate: Float[Array, " r"],
) -> Map:
    """Map from the last node of a phase to the first one of the next."""
    r = _size(part, node)

    def arrive(z):
        q = p + z[r:]
        end = point(part.system(q), time_at(part, True, q), node, around, z[:r])
        there = mirror(change, end.state, part.layout.read(q))
        return coordinates(following.system(q), first, ahead, Node(there, 0.0 * first.held))

    return _map(arrive, jnp.zeros(r + p.shape[0], p.dtype), costate)


@eqx.filter_jit
def start(
    part: Part,
    given: Any,
    first: Node,
    ahead: Chart | None,
    p: Array,
    costate: Float[Array, " r"],
) -> Map:
    """Map from the parameters to the first node of all, where its state is given."""

    def arrive(z):
        there = Node(start_state(part, given, p + z), 0.0 * first.held)
        return coordinates(part.system(p + z), first, ahead, there)

    return _map(arrive, jnp.zeros_like(p), costate)


def start_state(part: Part, given: Any, p: Array) -> State:
    """The first state: given, or a function of the parameters."""
    return given if isinstance(given, State) else given(*part.layout.read(p))


def _size(part: Part, node: Node) -> int:
    """Number of local coordinates of a node."""
    free = 2 * node.state.v.shape[0] if part.freedom is None else sum(part.freedom)
    return free + node.held.shape[0]


def _expand(conditions: Callable, cost: Callable, z: Array, multipliers: Array | None) -> Ending:
    """Derivatives, without the curvature of the conditions where there are no multipliers."""
    value, slope = value_and_jacobian(cost, z)
    hessian = jax.jacfwd(jax.jacfwd(cost))(z)
    if multipliers is None:
        return Ending(value, slope, hessian, *value_and_jacobian(conditions, z))
    pulls = multipliers[:, None]

    def gradient(z):
        values, jacobian = value_and_jacobian(conditions, z)
        return jnp.sum(jacobian * pulls, axis=0), (values, jacobian)

    curvature, (values, jacobian) = jax.jacfwd(gradient, has_aux=True)(z)
    return Ending(value, slope, hessian + curvature, values, jacobian)


def _map(function: Callable, z: Array, costate: Array) -> Map:
    ending = _expand(function, lambda z: jnp.zeros((), z.dtype), z, costate)
    return Map(ending.jacobian, ending.values, ending.slope, ending.hessian)
