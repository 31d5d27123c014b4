"""States of an imported model as MuJoCo has them, for its viewer."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax.groups import quaternion
from lie_jax.io import by_name
from lie_jax.io.imported import ImportedModel
from lie_jax.multibody import arguments
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits


@waits.announce("the states for MuJoCo")
def mujoco_states(
    imported: ImportedModel,
    system: AbstractMultibodySystem,
    q: Float[Array, "instants nq"],
    v: Float[Array, "instants nv"],
) -> tuple[Float[Array, "instants qpos"], Float[Array, "instants qvel"]]:
    """Coordinates `qpos` and velocities `qvel` of MuJoCo at instants of a motion.

    `imported`: the model of a URDF or MJCF file; `system`: its mechanism in any formulation; `q`,
    `v`: those of a trajectory. MuJoCo reads the root of a URDF file as fixed: the first seven
    coordinates and six velocities of a model with `floating_base=True` are those of a free joint
    that is to be added there. Raises `ValueError` if the system has other bodies, and for other
    shapes.
    """
    names = imported.mechanism.names
    if system.names != names:
        raise ValueError(
            f"lie_jax.io.mujoco_states(system=) has the bodies {', '.join(system.names)}; it must "
            f"have those of the imported model, {', '.join(names)}: assemble imported.mechanism."
        )
    rows = len(q) if np.ndim(q) else 1
    q, v = arguments.arrays("lie_jax.io.mujoco_states", system, rows, q=q, v=v)
    joints = {joint.child: joint for joint in imported.joints}
    orientations = {body.name: body.orientation for body in imported.mechanism.bodies}
    number = {name: k for k, name in enumerate(names)}

    def positions(q: Array) -> Array:
        rotation, position = system.poses(q)
        # The ground comes last.
        rotation = jnp.concatenate([rotation, jnp.eye(3, dtype=q.dtype)[None]])
        angles, parts = system.joint_coordinates(q), []
        for k, name in enumerate(names):
            joint = joints.get(name)
            if joint is None:
                parts += [position[k], quaternion.from_matrix(rotation[k])]
            elif joint.name in angles:
                parts.append(angles[joint.name] + joint.zero)
            else:
                parent = number.get(joint.parent, -1)
                home = quaternion.to_matrix(by_name.at_zero(joint, orientations))
                turned = home.T.astype(q.dtype) @ rotation[parent].T @ rotation[k]
                parts.append(quaternion.from_matrix(turned))
        return jnp.concatenate(parts)

    def velocities(q: Array, v: Array) -> Array:
        rotation, _ = system.poses(q)
        twist = system.twists(q, v)
        _, rates = jax.jvp(system.joint_coordinates, (q,), (system.space.lift(q, v),))
        parts = []
        for k, name in enumerate(names):
            joint = joints.get(name)
            if joint is None:
                parts += [rotation[k] @ twist[k, :3], twist[k, 3:]]
            elif joint.name in rates:
                parts.append(rates[joint.name])
            else:
                parent = number.get(joint.parent)
                spin = twist[k, 3:]
                if parent is not None:
                    spin = spin - rotation[k].T @ rotation[parent] @ twist[parent, 3:]
                parts.append(spin)
        return jnp.concatenate(parts)

    return jax.jit(jax.vmap(positions))(q), jax.jit(jax.vmap(velocities))(q, v)
