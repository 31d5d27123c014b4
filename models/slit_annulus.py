"""The slit annular plate: a thin ring, cut along a radius, one edge of the cut lifted.

Numbers of Sze, Liu, Lo, "Popular benchmark problems for geometric nonlinear analysis of shells"
(2004): radii 6 and 10, thickness 0.03, E = 21e6, ν = 0, one edge of the cut clamped, a dead line
load along z on the other one, 0.8 per length at most. The cut lies along x.
"""

import numpy as np
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax import shells

INNER, OUTER, THICKNESS = 6.0, 10.0, 0.03
YOUNG, POISSON, DENSITY = 21e6, 0.0, 1.0
# N/m.
LARGEST = 0.8

# Deflections (m) of the inner and the outer corner by the part of the largest load, with 10 × 80
# elements S4R of Abaqus, from the paper.
REFERENCE = {
    0.025: (1.305, 1.789),
    0.1: (4.277, 5.876),
    0.2: (6.725, 9.160),
    0.5: (10.468, 13.768),
    1.0: (13.891, 17.528),
}


def build(
    radial: int = 6,
    around: int = 30,
    load: ArrayLike = 1.0,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The flat ring of so many elements along a radius and around, under a part of 0.8 N/m."""
    radii = np.linspace(INNER, OUTER, radial + 1)
    angles = np.linspace(0.0, 2.0 * np.pi, around + 1)
    nodes = np.asarray([[r * np.cos(a), r * np.sin(a), 0.0] for a in angles for r in radii])
    row = radial + 1
    first = np.asarray([i * row + j for i in range(around) for j in range(radial)])
    quads = np.stack([first, first + 1, first + row + 1, first + row], axis=1)
    loaded = np.arange(around * row, len(nodes))
    ring = shells.surface(
        "ring",
        (nodes, quads),
        THICKNESS,
        YOUNG,
        POISSON,
        DENSITY,
        clamped=np.arange(row),
        slit=loaded,
    )
    shares = np.full(row, (OUTER - INNER) / radial)
    shares[[0, -1]] *= 0.5
    forces = [
        lie_jax.PointForce(f"ring {node}", load * LARGEST * share * np.asarray([0.0, 0.0, 1.0]))
        for node, share in zip(loaded, shares, strict=True)
    ]
    mechanism = lie_jax.Mechanism(ring.nodes, forces=[*ring.elements, *forces], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def corners(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Deflections (m) along z of the loaded edge's inner and outer corner, w_A and w_B."""
    # The clamped edge has no bodies: the first one has the number of nodes along a radius.
    row = int(system.names[0].split()[-1])
    heights = system.poses(q)[1][:, 2]
    return heights[-row], heights[-1]
