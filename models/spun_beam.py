"""A beam that a motor spins up to 6 rad/s in 15 s, as a flexible body from a mesh.

10 m long, EA = 2.8e7 N, EI = 1.4e4 N m², 1.2 kg/m. The angle is that of Simo and Vu-Quoc, "On the
dynamics of flexible beams under large overall motions" (1986). Deflections of the tip across the
turning axis are those of a geometrically exact beam, extrapolated in its number of elements.
"""

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from jaxtyping import Array, Float

import lie_jax

LENGTH, AXIAL, BENDING, MASS, POISSON = 10.0, 2.8e7, 1.4e4, 1.2, 1 / 6
RATE, RISE = 6.0, 15.0
# m, at the times in s.
DEFLECTION = {3.0: -0.217267, 6.0: -0.543596, 7.5: -0.559083, 9.0: -0.460271, 15.0: 0.001304}


def angle(t: Array) -> Array:
    """Angle (rad) of the hub."""
    turn = 2.0 * jnp.pi / RISE
    rising = RATE / RISE * (0.5 * t**2 + (jnp.cos(turn * t) - 1.0) / turn**2)
    return jnp.where(t < RISE, rising, RATE * (t - 0.5 * RISE))


def build(
    bodies: int = 1, *, spin_stiffness: bool = True, modes: int = 12, elements: int = 20
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The beam as a chain of so many bodies, at rest along x; it turns about z."""
    side, length = np.sqrt(12 * BENDING / AXIAL), LENGTH / bodies
    across = 0.5 * side * np.array([-1.0, 1.0])
    mesh = skfem.MeshHex.init_tensor(
        np.linspace(0.0, length, elements // bodies + 1), across, across
    )
    parts = [
        lie_jax.FlexibleBody.from_mesh(
            f"part {k}",
            mesh,
            density=MASS / side**2,
            young=AXIAL / side**2,
            poisson=POISSON,
            interfaces={
                "root": lambda x: x[:, 0] < 1e-9,
                "tip": lambda x: x[:, 0] > length - 1e-9,
            },
            modes=modes,
            spin_stiffness=spin_stiffness,
            position=(length * k, 0.0, 0.0),
        )
        for k in range(bodies)
    ]
    hub = lie_jax.RevoluteJoint("ground", "part 0.root", axis=(0, 0, 1))
    joints = [hub, lie_jax.JointDriver(hub, value=angle)]
    joints += [lie_jax.RigidJoint(f"part {k}.tip", f"part {k + 1}.root") for k in range(bodies - 1)]
    mechanism = lie_jax.Mechanism(parts, joints, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


def deflection(
    system: lie_jax.extend.AbstractMultibodySystem,
    q: Float[Array, "instants nq"],
    t: Float[Array, " instants"],
) -> tuple[Array, Array]:
    """Displacements (m) of the tip along the hub's axis of the beam, and across it."""
    tip = system.names_by_slot.index(f"{system.names[-1]}.tip")
    place = jax.vmap(system.poses_by_slot)(q)[1][:, tip]
    c, s = jnp.cos(angle(t)), jnp.sin(angle(t))
    return c * place[:, 0] + s * place[:, 1] - LENGTH, c * place[:, 1] - s * place[:, 0]
