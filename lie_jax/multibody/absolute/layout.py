"""Nodes of the velocities of a system: one for each body, and some for amplitudes.

Blocks of bodies and of amplitudes have one size, that of a body's velocities: amplitudes of a
flexible body fill several nodes, the last one with places that no velocity has.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.multibody.coordinates.base import AbstractCoordinates
from lie_jax.numerics import gather
from lie_jax.spaces.base import AbstractSpace, Rn
from lie_jax.spaces.products import Power, Product


class Layout(eqx.Module):
    """Numbers of velocities at nodes: those of `bodies`, then of each flexible body's `modes`."""

    formulation: AbstractCoordinates
    bodies: int = eqx.field(static=True)
    modes: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        """Number of places of a node."""
        return self.formulation.nv

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the velocities of each node, -1 for places without."""
        size, first = self.size, self.bodies * self.size
        nodes = [tuple(range(k * size, (k + 1) * size)) for k in range(self.bodies)]
        for modes in self.modes:
            own = [*range(first, first + modes), *[-1] * (-modes % size)]
            nodes += [tuple(own[k : k + size]) for k in range(0, len(own), size)]
            first += modes
        return tuple(nodes)

    def nodes_of(self, flexible: int) -> range:
        """Nodes of the amplitudes of a flexible body."""
        ends = np.cumsum([0, *(-(-modes // self.size) for modes in self.modes)]) + self.bodies
        return range(int(ends[flexible]), int(ends[flexible + 1]))

    @property
    def space(self) -> AbstractSpace:
        """The configuration space: coordinates of all bodies, then all amplitudes."""
        space, count = Power(self.formulation, self.bodies), sum(self.modes)
        if not count:
            return space
        orders = (tuple(range(n + count)) for n in (space.nq, space.nv))
        return Product((space, Rn(count)), *orders)

    def velocities(self, values: Float[Array, "places ..."]) -> Float[Array, "nv ..."]:
        """Rows that velocities have among those of all places."""
        if not self.modes:
            return values
        flat = [number for numbers in self.numbers for number in numbers]
        places = sorted((number, place) for place, number in enumerate(flat) if number >= 0)
        return gather.pick(tuple(place for _, place in places), values)

    def at_nodes(self, v: Float[Array, " nv"]) -> Float[Array, "size nodes"]:
        """Velocities at the places of nodes, zeros where there are none."""
        flat = tuple(number for numbers in self.numbers for number in numbers)
        return gather.pick(flat, v).reshape(-1, self.size).T

    def with_amplitudes(
        self, values: Float[Array, "rows columns bodies"]
    ) -> Float[Array, "rows columns nodes"]:
        """Values of bodies, with zeros for the nodes of amplitudes."""
        more = len(self.numbers) - self.bodies
        return jnp.pad(values, ((0, 0), (0, 0), (0, more))) if more else values
