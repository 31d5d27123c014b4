"""Phases as the search of `solve` reads them: clocks, layouts of parameters, functions of steps."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lie_jax.control.nodes import Freedom, Node
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
    # Which inputs are free.
    free: tuple[int, ...] = eqx.field(static=True)
    # Rows of u whose rates have a lower limit, and an upper one.
    lower_rows: tuple[int, ...] = eqx.field(static=True)
    upper_rows: tuple[int, ...] = eqx.field(static=True)
    freedom: Freedom | None = eqx.field(static=True)
    # Whether the duration is the cost.
    by_time: bool = eqx.field(static=True)
    # What Hessians hold: the curvature of "all", of "costs" alone, or of "nothing".
    curvature: str = eqx.field(static=True)
    # Whether a step precedes the first one, whose inputs its node holds.
    has_past: bool = eqx.field(static=True)

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
            is_first = (k == 0) & (not self.has_past)
            # A limit that is traced may be infinite.
            is_none = is_first | (values == -jnp.inf)
            parts.append(jnp.where(is_none, -jnp.ones_like(values), values))
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
