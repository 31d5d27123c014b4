"""Steps of a phase as functions of local coordinates, inputs and parameters, with derivatives.

Every node between steps is unknown. Steps come in chunks of one size, the last one filled up with
steps that do nothing, so that one compiled program serves phases of all lengths.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lie_jax.control.nodes import (
    Chart,
    Freedom,
    Node,
    chart,
    coordinates,
    move,
    point,
    pull_back,
)
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics.small import matvec
from lie_jax.systems.system import AbstractSystem, State


class Layout(eqx.Module):
    """Where the parameters of the user lie in the vector p, after the free durations.

    `structure`: that of their pytree in a tuple, which is empty without parameters: JAX compares
    the fields of two problems, and a structure does not compare with None.
    """

    first: int = eqx.field(static=True)
    structure: tuple[Any, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def read(self, p: Array) -> tuple[Any, ...]:
        """The parameters as arguments of a function: one pytree, or nothing where none are."""
        if not self.structure:
            return ()
        leaves, at = [], self.first
        for shape in self.shapes:
            size = math.prod(shape)
            leaves.append(p[at : at + size].reshape(shape))
            at += size
        return (jax.tree.unflatten(self.structure[0], leaves),)


class Clock(eqx.Module):
    """Start and duration of a phase (s), each a constant plus its row · p."""

    start: Float[Array, ""]
    start_row: Float[Array, " p"]
    duration: Float[Array, ""]
    duration_row: Float[Array, " p"]

    def start_at(self, p: Array) -> Float[Array, ""]:
        """Time at the start."""
        return self.start + jnp.sum(self.start_row * p)

    def duration_at(self, p: Array) -> Float[Array, ""]:
        """Duration."""
        return self.duration + jnp.sum(self.duration_row * p)


class Part(eqx.Module):
    """A phase with what its steps read: clock, layout of p, free inputs and their limits.

    All nu inputs are `fixed` + `placement` @ u with the m free ones u. `count` is the number of
    steps as an array: programs do not depend on it.
    """

    model: Any
    method: AbstractIntegrator
    running: Callable | None
    final: Callable | None
    end_values: Callable | None
    path_values: Callable | None
    clock: Clock
    count: Int[Array, ""]
    layout: Layout
    fixed: Float[Array, " nu"]
    placement: Float[Array, "nu m"]
    lower: Float[Array, " m"]
    upper: Float[Array, " m"]
    lower_rate: Float[Array, " slower"]
    upper_rate: Float[Array, " faster"]
    # Rows of u whose rates have a lower limit, and an upper one.
    lower_rows: tuple[int, ...] = eqx.field(static=True)
    upper_rows: tuple[int, ...] = eqx.field(static=True)
    freedom: Freedom | None = eqx.field(static=True)
    # Whether the duration is the cost.
    by_time: bool = eqx.field(static=True)

    def system(self, p: Array) -> AbstractSystem:
        """The system at parameters."""
        system = self.model
        if isinstance(system, AbstractSystem):
            return system
        return system(*self.layout.read(p))

    @property
    def of_steps(self) -> "Part":
        """The part without its end, so that phases that differ there share programs of steps."""
        return dataclasses.replace(self, final=None, end_values=None, by_time=False)

    @property
    def has_rates(self) -> bool:
        """Whether rates of inputs have limits, so that nodes hold inputs."""
        return bool(self.lower_rows or self.upper_rows)

    def moment(self, k: Array, p: Array) -> tuple[Array, Array]:
        """Time before step k, and the length of a step (s)."""
        dt = self.clock.duration_at(p) / self.count.astype(p.dtype)
        return self.clock.start_at(p) + k.astype(p.dtype) * dt, dt

    def inputs(self, u: Float[Array, " m"]) -> Float[Array, " nu"]:
        """All inputs."""
        return self.fixed + matvec(self.placement, u)

    def after(self, t: Array, dt: Array, node: Node, u: Array, p: Array) -> Node:
        """Node at the end of a step."""
        system, method, held = self.system(p), self.method, self.inputs(u)
        # The carry of a one-step method is at most a start value: each step makes a new one.
        carry = method.init(system, t, dt, node.state, held)
        state = method.step(system, t, dt, node.state, carry, held).state
        return Node(state, u if self.has_rates else node.held)

    def cost(self, t: Array, dt: Array, state: State, u: Array, p: Array) -> Float[Array, ""]:
        """Cost of a step."""
        if self.running is None:
            return jnp.zeros((), p.dtype)
        rate = self.running(t, state.q, state.v, self.inputs(u), *self.layout.read(p))
        return dt * rate

    def path(
        self, k: Array, t: Array, dt: Array, before: Node, after: Node, u: Array, p: Array
    ) -> Float[Array, " c"]:
        """Values that must not be positive after a step: those of the user, then of rates."""
        parts = []
        if self.path_values is not None:
            state, parameters = after.state, self.layout.read(p)
            values = self.path_values(t + dt, state.q, state.v, self.inputs(u), *parameters)
            parts.append(values.reshape(-1))
        if self.has_rates:
            rate = (u - before.held) / dt
            faster = jnp.stack([rate[i] for i in self.upper_rows]) if self.upper_rows else rate[:0]
            slower = jnp.stack([rate[i] for i in self.lower_rows]) if self.lower_rows else rate[:0]
            values = jnp.concatenate([faster - self.upper_rate, self.lower_rate - slower])
            # Nothing precedes the first step.
            parts.append(jnp.where(k > 0, values, -jnp.ones_like(values)))
        return jnp.concatenate(parts) if parts else jnp.zeros(0, p.dtype)

    def final_cost(self, state: State, p: Array) -> Float[Array, ""]:
        """Cost of the last state."""
        if self.final is None:
            return jnp.zeros((), p.dtype)
        return self.final(state.q, state.v, *self.layout.read(p))

    def end(self, state: State, p: Array) -> Float[Array, " ends"]:
        """Values of the end conditions."""
        if self.end_values is None:
            return jnp.zeros(0, p.dtype)
        return self.end_values(state.q, state.v, *self.layout.read(p)).reshape(-1)


class Chunk(NamedTuple):
    """Unknowns of C steps with numbers `k` of a phase; those that are not `real` do nothing.

    `first`: node before them; `after` (C, ...): nodes after each. `u` (C, m), `slacks` (C, c).
    Multipliers: `costates` (C, n) of the nodes after each step, `low`, `high` (C, m) of the limits,
    `pulls` (C, c) of the path.
    """

    k: Int[Array, " C"]
    real: Bool[Array, " C"]
    first: Node
    after: Node
    u: Float[Array, "C m"]
    slacks: Float[Array, "C c"]
    costates: Float[Array, "C n"]
    low: Float[Array, "C m"]
    high: Float[Array, "C m"]
    pulls: Float[Array, "C c"]

    def before(self) -> Node:
        """Nodes before each step."""
        return jax.tree.map(
            lambda one, rows: jnp.concatenate([one[None], rows[:-1]]), self.first, self.after
        )

    def last(self) -> Node:
        """Node after the last step."""
        return jax.tree.map(lambda rows: rows[-1], self.after)


class Expansion(NamedTuple):
    """Derivatives of C steps along z = (local coordinates of the node before, inputs, p).

    `steps` (C, r, z) and `gaps` (C, r): coordinates of the end of each step around the node after
    it. `cost` (C,), `slope` (C, z): of the costs. `hessian` (C, z, z): of the costs, and with
    multipliers of steps and path. `values` (C, c) of the path, `jacobian` (C, c, z). `charts`:
    around the nodes after the steps. `costates` (C, r): along these.
    """

    steps: Array
    gaps: Array
    cost: Array
    slope: Array
    hessian: Array
    values: Array
    jacobian: Array
    charts: Chart | None
    costates: Array


def charts(part: Part, nodes: Node, k: Array, p: Array) -> Chart | None:
    """Charts around nodes before steps k."""

    def one(k, node):
        return chart(part.system(p), part.moment(k, p)[0], node, part.freedom)

    return jax.vmap(one)(k, nodes)


@eqx.filter_jit
def expand(part: Part, chunk: Chunk, p: Array) -> Expansion:
    """Derivatives of a chunk."""
    nodes = jax.tree.map(
        lambda one, rows: jnp.concatenate([one[None], rows]), chunk.first, chunk.after
    )
    numbers = jnp.concatenate([chunk.k[:1], chunk.k + 1])
    around = charts(part, nodes, numbers, p)
    before, after = (jax.tree.map(lambda x, s=s: x[s], around) for s in (slice(-1), slice(1, None)))
    costates = jax.vmap(pull_back)(after, chunk.costates)
    r, m = costates.shape[1], chunk.u.shape[1]
    width = part.upper - part.lower
    largest = jnp.maximum(1.0, jnp.max(jnp.abs(chunk.u), axis=0, initial=0.0))
    input_sizes = jnp.where(jnp.isfinite(width), width, largest)
    moves_with_p = part.freedom is not None and p.shape[0] > 0

    def one(k, real, node, chart, end, end_chart, u, costate, pull):
        def functions(z):
            x, du, dp = z[:r], z[r : r + m], z[r + m :]
            moved = p + dp
            system, (t, dt) = part.system(moved), part.moment(k, moved)
            start = point(system, t, node, chart, x)
            arrived = part.after(t, dt, start, u + du, moved)
            apart = coordinates(system, end, end_chart, arrived)
            if moves_with_p:
                # Constraints that change with p take the node along.
                carried = point(system, t + dt, end, end_chart, jnp.zeros(r, z.dtype))
                apart = apart - coordinates(system, end, end_chart, carried)
            values = part.path(k, t, dt, start, arrived, u + du, moved)
            return part.cost(t, dt, start.state, u + du, moved), apart, values

        def both(z):
            return value_and_jacobian(functions, z)

        # Curvatures by differences of exact Jacobians: second derivatives of a step are five times
        # the code of first ones, and their last digits change the way to the optimum alone.
        origin = jnp.zeros(r + m + p.shape[0], p.dtype)
        sizes = jnp.concatenate([jnp.ones(r, p.dtype), input_sizes, 1.0 + jnp.abs(p)])
        changes = jnp.diag(jnp.finfo(p.dtype).eps ** (1 / 3) * sizes)
        at = jnp.concatenate([origin[None], changes, -changes])
        everywhere = jax.vmap(both)(at)
        found, slopes = jax.tree.map(lambda x: x[0], everywhere)
        slope, steps, jacobian = everywhere[1]
        gradients = slope + jnp.sum(steps * costate[None, :, None], axis=1)
        gradients = gradients + jnp.sum(jacobian * pull[None, :, None], axis=1)
        ahead, back = jnp.split(gradients[1:], 2)
        hessian = (ahead - back) / (2.0 * jnp.diagonal(changes))[:, None]
        hessian = 0.5 * (hessian + hessian.T)
        (value, apart, values), (slope, steps, jacobian) = found, slopes
        nothing = jnp.eye(r, origin.shape[0], dtype=p.dtype)
        idle = jnp.pad(jnp.eye(m, dtype=p.dtype), ((r, p.shape[0]), (r, p.shape[0])))

        def kept(x: Array, otherwise: Any = 0.0) -> Array:
            return jnp.where(real, x, otherwise)

        return (
            kept(steps, nothing), kept(apart), kept(value), kept(slope), kept(hessian, idle),
            kept(values, -1.0), kept(jacobian),
        )  # fmt: skip

    rows = (
        chunk.k, chunk.real, chunk.before(), before, chunk.after, after, chunk.u, costates,
        chunk.pulls,
    )  # fmt: skip
    return Expansion(*jax.vmap(one)(*rows), after, costates)


def value_and_jacobian(function: Callable, z: Array) -> tuple[Any, Any]:
    """Value of a function, and its Jacobian in forward mode."""

    def with_value(z):
        value = function(z)
        return value, value

    jacobian, value = jax.jacfwd(with_value, has_aux=True)(z)
    return value, jacobian


def distances(part: Part, chunk: Chunk) -> tuple[Float[Array, "C m"], Float[Array, "C m"]]:
    """From the lower and the upper limits; one where there is none."""

    def finite(x, limit):
        return jnp.where(jnp.isfinite(limit)[None] & chunk.real[:, None], x, 1.0)

    below = finite(chunk.u - part.lower[None], part.lower)
    return below, finite(part.upper[None] - chunk.u, part.upper)


@eqx.filter_jit
def roll_out(part: Part, chunk: Chunk, p: Array) -> Chunk:
    """Chunk with the nodes to which its inputs lead from its first one."""

    def step(node, row):
        k, real, u = row
        t, dt = part.moment(k, p)
        arrived = part.after(t, dt, node, u, p)
        end = jax.tree.map(lambda new, old: jnp.where(real, new, old), arrived, node)
        return end, end

    after = jax.lax.scan(step, chunk.first, (chunk.k, chunk.real, chunk.u))[1]
    return chunk._replace(after=after)


@eqx.filter_jit
def onto_constraints(part: Part, chunk: Chunk, p: Array) -> Chunk:
    """Chunk with its nodes after steps moved onto the constraints."""
    if part.freedom is None:
        return chunk
    around = charts(part, chunk.after, chunk.k + 1, p)

    def one(k, node, chart):
        x = jnp.zeros(chart.tangent.shape[1], p.dtype)
        return move(part.system(p), part.moment(k, p)[0], node, chart, x)

    return chunk._replace(after=jax.vmap(one)(chunk.k + 1, chunk.after, around))
