"""The return map of a motion, g(φ(x₀)) = x₀, and its linearization in tangent coordinates.

φ is the flow over a whole number of steps, or up to an event, and g a symmetry.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.numerics import lapack, rules
from lie_jax.orbits.tangents import Rows, Tangents, difference, displace, tangents
from lie_jax.simulation.events import Event
from lie_jax.simulation.simulate import simulate
from lie_jax.simulation.trajectory import Result, Trajectory, succeeded
from lie_jax.systems.system import AbstractSystem, State

# Events on the way that a motion may have.
MOST_EVENTS = 64


class Point(NamedTuple):
    """Start of a motion, and its period (s)."""

    state: State
    period: Float[Array, ""]


class Image(NamedTuple):
    """End of a motion after its symmetry, and the period (s) that it took; `complete`: whether the
    run reached its end and, where an event ends the motion, the event.
    """

    state: State
    period: Array
    complete: Bool[Array, ""]
    result: Result


class Linear(NamedTuple):
    """Closing of a motion (rows,) and its derivatives at a point; see `ReturnMap.closing`.

    `by_start` (rows, n): by the coordinates of the start; `by_period` (rows,): by the logarithm of
    the period, zero where that is no unknown; `monodromy` (n, n): derivative of the end's
    coordinates by those of the start; `frequency`: 2π over the period, 1/s; `defect` (2nv + k,):
    difference of end and start in all components, of which velocities count over the frequency,
    then the values of the condition.
    """

    closing: Array
    by_start: Array
    by_period: Array
    monodromy: Array
    frequency: Array
    defect: Array
    image: Image


class ReturnMap(NamedTuple):
    """Arguments of a search for a periodic motion, checked.

    `period`: known, or a first guess, or the longest time to the event `until`; s.
    """

    system: AbstractSystem
    integrator: AbstractIntegrator
    t0: Float[Array, ""]
    period: Float[Array, ""]
    steps: int
    free_period: bool
    rows: Rows
    events: tuple[Event, ...] = ()
    until: Event | None = None
    symmetry: Callable | None = None
    condition: Callable | None = None

    def run(self, point: Point, save: int = 1) -> Trajectory:
        """Motion from a point; an event that ends it is the last of the trajectory's events."""
        events = self.events
        if self.until is not None:
            events = (*events, Event(self.until.function, "stop", self.until.direction))
        return simulate(
            self.system,
            self.integrator,
            point.state,
            dt=point.period / self.steps,
            steps=self.steps,
            t0=self.t0,
            save=save,
            events=events,
            max_events=MOST_EVENTS if self.events else 1,
            throw=False,
        )

    def image_of(self, run: Trajectory, point: Point) -> Image:
        """End of a motion that was simulated from a point."""
        q, v, period, complete = run.q[-1], run.v[-1], point.period, succeeded(run.result)
        if self.until is not None:
            assert run.events is not None
            complete = complete & jnp.any(run.events.index == len(self.events))
            period = run.t[-1] - self.t0
            if callable(self.until.action):
                q, v = self.until.action(run.t[-1], q, v)
        if self.symmetry is not None:
            q, v = self.symmetry(q, v)
        q, v = (jnp.asarray(x, period.dtype) for x in (q, v))
        return Image(State(q, v), period, complete, run.result)

    def values(self, state: State) -> Float[Array, " k"]:
        """Values of the user's condition (k,) at a start."""
        if self.condition is None:
            return jnp.zeros(0, state.q.dtype)
        return jnp.asarray(self.condition(state.q, state.v), state.q.dtype).reshape(-1)

    def tangents(self, state: State) -> Tangents:
        """Tangents at a start."""
        return tangents(self.system, self.t0, state, self.rows)

    def unknowns(self, around: Tangents) -> Array:
        """Zeros: coordinates of the start, and the logarithm of a free period."""
        return jnp.zeros(sum(around.sizes) + self.free_period, around.state.q.dtype)

    def move(self, base: Point, change: Array, log: Array) -> Point:
        """Point after a change (2nv,) of the start and one of the logarithm of a free period."""
        state = displace(self.system, self.t0, base.state, change)
        return Point(state, base.period * jnp.exp(log) if self.free_period else self.period)

    def at(self, base: Point, around: Tangents, y: Array) -> Point:
        """Point at unknowns y around another one."""
        n = sum(around.sizes)
        log = y[n] if self.free_period else jnp.zeros((), y.dtype)
        return self.move(base, around.ambient(y[:n]), log)

    def _ends(self, base: Point, around: Tangents, y: Array) -> tuple[Array, Array, Point, Image]:
        """Closing and coordinates of the end (n,) at unknowns y."""
        point = self.at(base, around, y)
        image = self.image_of(self.run(point, self.steps), point)
        end, start = (around.coordinates(self.system, x) for x in (image.state, point.state))
        closing = jnp.concatenate([end - start, self.values(point.state)])
        return closing, end, point, image

    def closing(self, base: Point, around: Tangents, y: Array) -> Float[Array, " rows"]:
        """Differences of coordinates of end and start (n,), and values of the condition (k,)."""
        return self._ends(base, around, y)[0]

    def linearize(self, base: Point, around: Tangents, y: Array) -> Linear:
        """`Linear` at unknowns y around a point, by forward-mode derivatives of the run."""
        n, nv = sum(around.sizes), self.system.nv

        def closing(y: Array) -> Any:
            closing, end, point, image = self._ends(base, around, y)
            return (closing, end), (closing, point, image)

        (slopes, ends), (value, point, image) = jax.jacfwd(closing, has_aux=True)(y)
        frequency = 2.0 * jnp.pi / image.period
        change = difference(self.system, point.state, image.state)
        defect = jnp.concatenate([change[:nv], change[nv:] / frequency, value[n:]])
        by_period = slopes[:, n] if self.free_period else jnp.zeros_like(value)
        return Linear(value, slopes[:, :n], by_period, ends[:, :n], frequency, defect, image)


class Correction(NamedTuple):
    """Least change of the start with the change of the period by which a linearization closes.

    Velocities count over the frequency, and a change of the period counts nothing: of periodic
    motions that lie side by side the one is taken whose start is nearest, and where time is free,
    the start moves across the flow. `rank`: number of directions of the start that closing
    determines; `resting`: whether the motion ends at rest, where time moves nothing; `free`:
    whether the period is an unknown.
    """

    inverse: Array
    left: Array
    direction: Array
    speed: Array
    weights: Array
    scale: Array
    rank: Array
    resting: Bool[Array, ""]
    free: bool

    def solve(self, closing: Float[Array, " rows"]) -> Float[Array, " unknowns"]:
        """Changes of the unknowns of `ReturnMap.closing` that change it by this much."""
        right = self.scale * closing
        x = self.inverse @ (right - self.direction * (self.direction @ right))
        time = self.direction @ (right - self.left @ x) / self.speed
        x = x / self.weights
        return jnp.concatenate([x, time[None]]) if self.free else x

    def time(self, closing: Float[Array, " rows"]) -> Float[Array, ""]:
        """Logarithm of the period alone that comes nearest to this closing."""
        return self.direction @ (self.scale * closing) / self.speed


def correction(linear: Linear, positions: int, free: bool) -> Correction:
    """`Correction` of a linearization whose first coordinates are those of `positions`, with a
    `free` period or not.

    Singular values below the cube root of rounding, of a monodromy that is one in size, are zero:
    an integrator conserves energy to less than that.
    """
    n, dtype = linear.monodromy.shape[0], linear.monodromy.dtype
    is_position = jnp.arange(n, dtype=jnp.int32) < positions
    weights = jnp.where(is_position, 1.0, 1.0 / linear.frequency)
    left = linear.by_start / weights[None]
    # Conditions have any units: a row of length one has those of the start.
    lengths = jnp.sqrt(jnp.sum(left[n:] ** 2, axis=1))
    lengths = jnp.where(lengths > 0.0, lengths, 1.0)
    scale = jnp.concatenate([weights, 1.0 / lengths])
    left = scale[:, None] * left
    time = scale * linear.by_period
    speed = jnp.sqrt(jnp.sum(time * time, initial=jnp.finfo(dtype).tiny))
    eps = float(jnp.finfo(dtype).eps)
    resting = speed <= eps**0.5
    speed = jnp.where(resting, 1.0, speed)
    direction = jnp.where(resting, 0.0, time / speed)
    across = left - direction[:, None] * (direction @ left)[None]
    inverse = lapack.pseudoinverse(across, 1e2 * eps, eps ** (1.0 / 3.0))
    held = rules.stop_gradient((inverse, across))
    rank = jnp.round(jnp.sum(held[0] * held[1].T)).astype(jnp.int32)
    return Correction(inverse, left, direction, speed, weights, scale, rank, resting, free)
