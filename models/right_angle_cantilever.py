"""Simo's and Vu-Quoc's right-angle cantilever (1988): an elbow is pulled out of its plane.

Two legs of 10 m in the plane of x and y: from the clamped end along x to the elbow, from there
along y to the tip. EA = GA = 10⁶ N, EI = GJ = 10³ N m², 1 kg/m, rotary inertia 20 kg m about the
beam, 10 kg m across. The force along z at the elbow grows to 50 N until 1 s and falls to zero
until 2 s; then energy is constant.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import beams

LEG, FORCE, PEAK = 10.0, 50.0, 1.0
AXIAL, BENDING, MASS, ROTARY = 1e6, 1e3, 1.0, (20.0, 10.0, 10.0)


def pull(t: Array) -> Array:
    """Force at the elbow, N."""
    return FORCE * jnp.maximum(1.0 - jnp.abs(t / PEAK - 1.0), 0.0) * jnp.asarray([0.0, 0.0, 1.0])


def build(
    elements: int = 8, formulation: lie_jax.extend.AbstractFormulation | None = None
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """Both legs of so many elements, at rest."""
    section = beams.Section([AXIAL] * 3 + [BENDING] * 3, MASS, ROTARY)
    # Lines that are clamped to a body leave their half elements there to it.
    half = 0.5 * LEG / elements
    quarter = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    along, across = ROTARY[0], ROTARY[1]
    elbow = lie_jax.Body(
        "elbow",
        2.0 * half * MASS,
        half * jnp.diag(jnp.asarray([along + across, across + along, 2.0 * across])),
        position=(LEG, 0.0, 0.0),
    )
    first = beams.line("first", section, LEG, elements, start="ground", end=elbow)
    second = beams.line(
        "second", section, LEG, elements, position=elbow.position, orientation=quarter, start=elbow
    )
    mechanism = lie_jax.Mechanism(
        [*first.nodes, elbow, *second.nodes],
        forces=[*first.elements, *second.elements, lie_jax.PointForce("elbow", pull)],
        gravity=(0, 0, 0),
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def heights(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Displacements of the elbow and the tip out of the plane, m."""
    positions = system.poses(q)[1]
    return positions[system.names.index("elbow"), 2], positions[-1, 2]
