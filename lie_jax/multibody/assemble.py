"""From a mechanism and a formulation to a system and its initial state."""

from functools import partial
from typing import overload

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lie_jax.groups import quaternion
from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.mechanism import Mechanism, attach_elements, labels
from lie_jax.multibody import stacking
from lie_jax.multibody.absolute.system import RigidBodySystem
from lie_jax.multibody.coordinates.base import AbstractCoordinates, AbstractFormulation
from lie_jax.multibody.flexible import initial_amplitudes, stack_flexible
from lie_jax.multibody.minimal import assembly as minimal
from lie_jax.multibody.minimal.formulation import Minimal
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.numerics.conversion import in_precision
from lie_jax.systems.system import State


@overload
def assemble(
    mechanism: Mechanism, formulation: AbstractCoordinates
) -> tuple[RigidBodySystem, State]: ...


@overload
def assemble(mechanism: Mechanism, formulation: Minimal) -> tuple[TreeSystem, State]: ...


@overload
def assemble(
    mechanism: Mechanism, formulation: AbstractFormulation
) -> tuple[AbstractMultibodySystem, State]: ...


@waits.announce("the assembly in {formulation}")
def assemble(
    mechanism: Mechanism, formulation: AbstractFormulation
) -> tuple[AbstractMultibodySystem, State]:
    """The system of a mechanism in a formulation, and its initial state.

    `formulation` is `R3SO3(...)`, `SE3(...)`, `UnifiedVelocity(...)`, `TaitBryan()`,
    `EulerParameters()` or `Minimal()`. The state comes from the bodies' initial poses and
    velocities; whether it satisfies joints that are constraints, and whether shapes overlap, is
    checked when a simulation starts. Raises `ValueError` for anything else than a mechanism and a
    formulation, and for those mechanisms and initial motions that have no joint coordinates if
    these are asked for.
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(
            f"assemble(mechanism=) is a {type(mechanism).__name__}; it must be a mechanism: make "
            "it with lie_jax.Mechanism(bodies, joints, forces)."
        )
    # `equinox.tree_at` puts in what it is given: numbers of Python and NumPy's arrays, too.
    mechanism = attach_elements(jax.tree.map(lambda x: in_precision(x, None), mechanism))
    if isinstance(formulation, Minimal):
        return minimal.system_of(mechanism, formulation.cut)
    if not isinstance(formulation, AbstractCoordinates):
        raise ValueError(
            f"assemble(formulation=) is {formulation!r}; it must be a formulation, for example "
            "lie_jax.R3SO3() or lie_jax.SE3(coordinates='rotation_vector')."
        )
    carried = {name for inertia in mechanism.inertias for name in inertia.bodies}
    for body in mechanism.bodies:
        if body.is_massless and body.name not in carried:
            raise ValueError(
                f"assemble(formulation=): Body({body.name!r}) has no mass, and every body moves by "
                "its own mass where joints are constraints: use lie_jax.Minimal(), or give nodes "
                "of a line of order 4 its mass by Mechanism(inertias=line.inertias)."
            )
    for joint in mechanism.joints:
        if joint.armature is not None:
            raise ValueError(
                f"assemble(formulation=): {element_name(joint)} has an armature, which acts on the "
                "rate of its coordinate: use lie_jax.Minimal(), or leave it out."
            )
    flexibility, interfaces = stack_flexible(mechanism.bodies)
    slots = *mechanism.names, *interfaces
    if between := carried.intersection(interfaces):
        raise ValueError(
            f"Mechanism(inertias=) has an inertia at {sorted(between)[0]!r}, the interface of a "
            "flexible body; inertias are between rigid bodies: weld a lie_jax.Body to it."
        )
    masses = [MassProperties(b.mass, b.inertia, b.center_of_mass) for b in mechanism.bodies]
    massless = jax.tree.map(jnp.zeros_like, masses[0])
    system = RigidBodySystem(
        bodies=stacking.stack([*masses, *[massless] * len(interfaces)]),
        joints=stacking.stack_by_kind(mechanism.joints, slots),
        forces=stacking.stack_by_kind(mechanism.forces, slots),
        inertias=stacking.stack_by_kind(mechanism.inertias, mechanism.names),
        gravity=mechanism.gravity,
        formulation=formulation,
        flexibility=flexibility,
        labels=labels(mechanism.joints),
        names=mechanism.names,
        interfaces=interfaces,
    )
    q, v = _initial(formulation, stacking.initial_motion(mechanism.bodies))
    amplitudes, rates = initial_amplitudes(flexibility, mechanism.bodies)
    return system, State(
        jnp.concatenate([q.reshape(-1), *amplitudes]), jnp.concatenate([v.reshape(-1), *rates])
    )


# One program takes less time to compile than its operations one by one.
@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def _initial(formulation: AbstractCoordinates, motion: tuple[Array, ...]) -> tuple[Array, Array]:
    position, orientation, linear, omega = motion
    q = formulation.configuration(position, orientation)
    return q, formulation.velocity(quaternion.to_matrix(orientation), q, linear, omega)
