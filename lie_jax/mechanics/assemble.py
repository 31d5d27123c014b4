"""From a mechanism and a formulation to a system and its initial state."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.body_spaces import AbstractBodySpace
from lie_jax.groups import quaternion
from lie_jax.mechanics.body import Body, MassProperties
from lie_jax.mechanics.forces import AbstractForce
from lie_jax.mechanics.formulations.absolute import Connected, RigidBodySystem
from lie_jax.mechanics.joints import GROUND, AbstractJoint
from lie_jax.mechanics.mechanism import Mechanism, connected
from lie_jax.system import State


def assemble(mechanism: Mechanism, formulation: AbstractBodySpace) -> tuple[RigidBodySystem, State]:
    """The system of a mechanism in a formulation, and its initial state.

    `formulation` is `R3SO3(...)`, `SE3(...)`, `UnifiedVelocity(...)`, `TaitBryan()` or
    `EulerParameters()`. The state comes from the bodies' initial poses and velocities; whether it
    satisfies the joints is checked when a simulation starts. Raises `ValueError` for anything else
    than a formulation.
    """
    if not isinstance(formulation, AbstractBodySpace):
        raise ValueError(
            f"assemble(formulation=) is {formulation!r}; it must be a formulation, for example "
            "lie_jax.R3SO3() or lie_jax.SE3(coordinates='rotation_vector')."
        )
    system = RigidBodySystem(
        bodies=_stack(
            [MassProperties(b.mass, b.inertia, b.center_of_mass) for b in mechanism.bodies]
        ),
        joints=_by_kind(mechanism.joints, mechanism.names),
        forces=_by_kind(mechanism.forces, mechanism.names),
        gravity=mechanism.gravity,
        formulation=formulation,
        names=mechanism.names,
    )
    each = [_initial(body, formulation) for body in mechanism.bodies]
    return system, State(
        jnp.concatenate([q for q, _ in each]), jnp.concatenate([v for _, v in each])
    )


def _initial(body: Body, formulation: AbstractBodySpace):
    rotation = quaternion.to_matrix(body.orientation)
    q = formulation.configuration(body.position, body.orientation)
    return q, formulation.velocity(rotation, q, body.velocity, body.omega_body)


def _stack(members):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def _by_kind(
    elements: tuple[AbstractJoint, ...] | tuple[AbstractForce, ...], names: tuple[str, ...]
) -> tuple[Connected, ...]:
    """Stack the elements that differ in numbers only, in the order of first appearance."""
    number = {name: i for i, name in enumerate(names)} | {GROUND: -1}
    kinds: dict = {}
    for element in elements:
        anonymous = _without_names(element)
        leaves, structure = jax.tree.flatten(anonymous)
        key = (structure, tuple((np.shape(leaf), leaf.dtype) for leaf in leaves))
        kinds.setdefault(key, []).append((anonymous, [number[n] for n in connected(element)]))
    return tuple(
        Connected(
            _stack([element for element, _ in members]),
            tuple(zip(*[indices for _, indices in members], strict=True)),
        )
        for members in kinds.values()
    )


def _without_names(element):
    blank = {
        field.name: ""
        for field in dataclasses.fields(element)
        if field.name in ("parent", "child", "body")
    }
    return dataclasses.replace(element, **blank)
