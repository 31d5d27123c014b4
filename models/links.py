"""Links on joints, each hanging on the one before, the first on the world origin.

The common ground of the double pendulum and the chain. Body frames lie at the centres of mass;
points of a link are given from the joint above it.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax.numerics import small


def build(
    formulation: lie_jax.extend.AbstractFormulation | None,
    *,
    mass: Float[Array, " n"],
    inertia: Float[Array, "n 3 3"],
    center_of_mass: Float[Array, "n 3"],
    next_joint: Float[Array, "n 3"],
    orientation: Float[Array, "n 4"],
    omega_body: Float[Array, "n 3"],
    gravity: Float[Array, "3"],
    axes: Float[Array, "n 3"] | None = None,
    forces: Sequence[lie_jax.extend.AbstractForce] = (),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The links as a system and its initial state, which satisfies the joints.

    `center_of_mass` and `next_joint` count from the joint above, body components, m; `inertia` is
    about the centre of mass, kg m²; `orientation` holds unit quaternions, `omega_body` absolute
    angular velocities, body components, rad/s. The joints are ball joints, or with `axes` hinges
    about these directions of the link above; a hinge's angle is zero when its links are parallel.
    `forces` act on the links besides gravity.
    """
    bodies, joints = [], []
    place, velocity = jnp.zeros(3), jnp.zeros(3)
    parent, hook = "ground", jnp.zeros(3)
    for i, center in enumerate(center_of_mass):
        name, turn, omega = f"link {i}", orientation[i], omega_body[i]
        bodies.append(
            lie_jax.Body(
                name,
                mass[i],
                inertia[i],
                position=place + _turned(turn, center),
                orientation=turn,
                velocity=velocity + _turned(turn, small.cross(omega, center)),
                omega_body=omega,
            )
        )
        joints.append(
            lie_jax.SphericalJoint(parent, name, hook, -center)
            if axes is None
            else lie_jax.RevoluteJoint(parent, name, axes[i], hook, -center)
        )
        parent, hook = name, next_joint[i] - center
        velocity = velocity + _turned(turn, small.cross(omega, next_joint[i]))
        place = place + _turned(turn, next_joint[i])
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _turned(quaternion: Array, vector: Array) -> Array:
    return lie_jax.groups.quaternion.rotate(quaternion, vector)
