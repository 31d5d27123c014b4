"""Places of the numbers of bases and links in q and v."""

from itertools import accumulate
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.numerics import gather
from lie_jax.spaces.base import AbstractSpace, Rn
from lie_jax.spaces.products import Power, Product
from lie_jax.spaces.rotations import UnitQuaternions


class Layout(NamedTuple):
    """Order of coordinates, or of velocities: those of the bases, then of the joints in their
    order.

    base: numbers of all bases together; motions: number of the motion of each link, those of all
    joints counted in order; counts: numbers of each link.
    """

    base: int
    motions: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def by_motion(self) -> tuple[int, ...]:
        """Numbers of each motion, in the order of the joints."""
        pairs = sorted(zip(self.motions, self.counts, strict=True))
        return tuple(count for _, count in pairs)

    def links(self, flat: Float[Array, " all"], widest: int) -> Float[Array, "links widest"]:
        """Numbers of the links, zeros where a link has fewer than the widest."""
        starts = list(accumulate(self.by_motion, initial=0))
        places = tuple(
            starts[motion] + i if i < count else -1
            for motion, count in zip(self.motions, self.counts, strict=True)
            for i in range(widest)
        )
        return gather.pick(places, flat[self.base :]).reshape(-1, widest)

    def flat(
        self, bases: Float[Array, "bases size ..."], links: Float[Array, "links widest ..."]
    ) -> Float[Array, "all ..."]:
        """Numbers in order; both may have further axes. The inverse of `links`."""
        widest = links.shape[1]
        order = sorted(range(len(self.motions)), key=self.motions.__getitem__)
        places = tuple(link * widest + i for link in order for i in range(self.counts[link]))
        joints = gather.pick(places, links.reshape(-1, *links.shape[2:]))
        return jnp.concatenate([bases.reshape(-1, *joints.shape[1:]), joints])


def make_space(bases: int, coordinates: Layout, velocities: Layout) -> AbstractSpace:
    """Space of the poses of the bases, of numbers, and of unit quaternions of spherical joints."""
    counts = coordinates.by_motion
    numbers, free = counts.count(1), counts.count(4)
    factors = (
        *((Power(SE3(), bases),) if bases else ()),
        *((Rn(numbers),) if numbers else ()),
        *((Power(UnitQuaternions(), free, "spherical joint"),) if free else ()),
    )
    if len(factors) == 1:
        return factors[0]
    return Product(factors, _order(coordinates), _order(velocities))


def _order(layout: Layout) -> tuple[int, ...]:
    """Places of numbers in their order where single ones come before larger groups."""
    counts = np.asarray(layout.by_motion, int)
    places = np.argsort(np.argsort(np.repeat(counts > 1, counts), kind="stable"))
    return (*range(layout.base), *(layout.base + places).tolist())
