"""Free flight of a flexible beam, pushed and turned at one end (Simo and Vu-Quoc, 1986 and 1988).

Length 10 m, EA = GA = 10⁴ N, EI = GJ = 500 N m², 1 kg/m, 10 kg m of rotary inertia, from (6, 0) to
(0, 8) at rest. In the plane the force (8, 0, 0) N and the moment (0, 0, -80) N m act at the lower
end for 2.5 s. In space they are (1/10, 0, 0) and (0, -1/2, -1) times a factor that grows to 200
until 2.5 s and falls to zero until 5 s.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

import lie_jax
from lie_jax import beams

LENGTH, AXIAL, BENDING = 10.0, 1e4, 500.0
MASS, ROTARY = 1.0, 10.0
START, END = (6.0, 0.0, 0.0), (0.0, 8.0, 0.0)
# s; the loads end, or begin to fall.
PUSH = 2.5


def in_plane(t: Array) -> tuple[Array, Array]:
    """Force (N) and moment (N m) of the flight in the plane, until 2.5 s."""
    on = jnp.where(t <= PUSH, 1.0, 0.0)
    return on * jnp.asarray([8.0, 0.0, 0.0]), on * jnp.asarray([0.0, 0.0, -80.0])


def in_space(t: Array) -> tuple[Array, Array]:
    """Force (N) and moment (N m) of the flight in space, until 5 s."""
    factor = 200.0 * jnp.maximum(1.0 - jnp.abs(t / PUSH - 1.0), 0.0)
    return factor * jnp.asarray([0.1, 0.0, 0.0]), factor * jnp.asarray([0.0, -0.5, -1.0])


def build(
    elements: int = 32,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    spatial: bool = False,
    bending: ArrayLike = BENDING,
    damping_time: ArrayLike | None = None,
    order: int = 2,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The beam at rest; `bending` is EI = GJ (N m²), with a `damping_time` (s) it has damping;
    `order`: of the line.
    """
    bend = jnp.asarray(bending, float)
    stiffness = jnp.stack([AXIAL + 0.0 * bend] * 3 + [bend] * 3)
    damping = None if damping_time is None else damping_time * stiffness
    section = beams.Section(stiffness, MASS, (ROTARY, ROTARY, ROTARY), damping)
    half = 0.5 * np.arctan2(END[1] - START[1], END[0] - START[0])
    orientation = (np.cos(half), 0.0, 0.0, np.sin(half))
    line = beams.line(
        "beam", section, LENGTH, elements, position=START, orientation=orientation, order=order
    )
    loads = in_space if spatial else in_plane
    lower = line.nodes[0].name
    force = lie_jax.PointForce(lower, lambda t: loads(t)[0])
    moment = lie_jax.Torque(lower, lambda t: loads(t)[1])
    mechanism = lie_jax.Mechanism(
        line.nodes,
        forces=[*line.elements, force, moment],
        gravity=(0, 0, 0),
        inertias=line.inertias,
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)
