"""Flexible bodies in a scene: the edges of their meshes, deformed."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lie_jax.mechanics.flexible.body import FlexibleBody
from lie_jax.multibody.system import AbstractMultibodySystem


class Deformed(NamedTuple):
    """The outer edges of a flexible body, deformed, in place of the box with its inertia.

    **Arguments:** `flexible`: the `lie_jax.FlexibleBody` of `from_mesh` that is in the mechanism;
    `magnification`: factor of the displacements that are drawn.
    """

    flexible: FlexibleBody
    magnification: float = 1.0

    @property
    def body(self) -> str:
        """Name of the body."""
        return self.flexible.name


def check(where: str, shape: Deformed) -> None:
    """Raise unless there are edges to draw."""
    if not isinstance(shape.flexible, FlexibleBody) or shape.flexible.edges is None:
        raise ValueError(
            f"{where} holds a viz.Deformed of {type(shape.flexible).__name__}, which has no edges; "
            "it must be a lie_jax.FlexibleBody of from_mesh."
        )


def lines(
    system: AbstractMultibodySystem, q: ArrayLike, shapes: Sequence[Any]
) -> Iterator[tuple[str, NDArray]]:
    """Names and edges (instants, edges, 2, 3) of flexible bodies of the system, inertial, m."""
    chosen = [x for x in shapes if isinstance(x, Deformed) and x.body in system.names]
    if not chosen:
        return
    q = jnp.asarray(q)
    by_body = getattr(system, "amplitudes", lambda q: {})(q)
    rotation, position = jax.jit(jax.vmap(system.poses))(q)
    for shape in chosen:
        if shape.body not in by_body:
            raise ValueError(
                f"viz.Deformed names the body {shape.body!r}, which is rigid in this mechanism; it "
                "must be one of its flexible bodies: leave it out for this run."
            )
        k, body = system.names.index(shape.body), shape.flexible
        still = np.asarray(body.nodes)
        moved = np.asarray(body.node_positions(by_body[shape.body])) - still
        places = still + shape.magnification * moved
        turned = np.einsum("tij,tnj->tni", np.asarray(rotation)[:, k], places)
        points = np.asarray(position)[:, None, k] + turned
        yield shape.body, points[:, np.asarray(body.edges)]
