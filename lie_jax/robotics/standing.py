"""Placement of free mechanisms on a plane of the ground."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.mechanics.contact import geometry
from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.contact.shapes import Plane
from lie_jax.mechanics.joints.base import GROUND, BodyPose
from lie_jax.multibody import stacking
from lie_jax.multibody.arguments import check_system
from lie_jax.multibody.stacking import Connected
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import waits
from lie_jax.numerics.forest import DisjointSets
from lie_jax.systems.system import State


@waits.announce("the standing pose")
def stand(system: AbstractMultibodySystem, state: State, ground: Plane | None = None) -> State:
    """The state with every free mechanism moved until its lowest shape touches the ground.

    Bodies that joints connect move as one along the normal of a plane, down or up, and do not turn.
    Shapes are those of the system's contacts with planes of the ground. Velocities stay. In all
    formulations; differentiable.

    **Arguments:** `ground`: the plane to stand on, a `lie_jax.contact.Plane` of `"ground"`; needed
    where contacts have several planes.

    Raises `ValueError` if there is no contact with a plane of the ground, if there are several
    planes and none is given, and, with their names, if joints hold all bodies that could stand.
    """
    check_system("stand(system=)", system)
    checks.instant("stand(state=): q", state.q, system.nq)
    plane = _plane(system) if ground is None else ground
    if not isinstance(plane, Plane) or plane.body not in ("", GROUND):
        raise ValueError(
            f"stand(ground=) is {plane!r}; it must be a plane of the ground: write "
            "lie_jax.contact.Plane('ground', point, normal)."
        )
    bodies = len(system.names_by_slot)
    sets = DisjointSets(bodies + 1)
    for first, *others in system.connections:
        for other in others:
            # The ground, -1, is the last vertex.
            sets.join(first % (bodies + 1), other % (bodies + 1))
    heights = _heights(system, state, plane)
    lowest: dict[int, list[Array]] = {}
    for slot, height in heights:
        if sets.leader(slot) != sets.leader(bodies):
            lowest.setdefault(sets.leader(slot), []).append(height)
    if not lowest:
        names = ", ".join(dict.fromkeys(repr(system.names_by_slot[slot]) for slot, _ in heights))
        raise ValueError(
            f"stand(system=): joints hold {names} to the ground; only free mechanisms can be "
            "moved: leave out the joint to the ground, as "
            "lie_jax.io.import_model(file, floating_base=True) does, or move the "
            "bodies by coordinates of the joints, lie_jax.place(mechanism, coordinates)."
        )
    none = jnp.zeros((), state.q.dtype)
    moves = [jnp.min(jnp.stack(lowest.get(sets.leader(slot), [none]))) for slot in range(bodies)]
    return State(
        system.translate(state.q, -jnp.stack(moves)[:, None] * plane.normal[None]), state.v
    )


def _on_planes(group: Connected) -> list[int]:
    """Numbers of a group's elements that are contacts with planes of the ground."""
    if not isinstance(group.element, Contact) or not isinstance(group.element.shapes[1], Plane):
        return []
    return [k for k, slot in enumerate(group.bodies[1]) if slot < 0]


def _plane(system: AbstractMultibodySystem) -> Plane:
    """The one plane of the ground with which there are contacts."""

    def entry(x: Array, k: int) -> Any:
        # Numbers that are known stay so in functions that JAX traces.
        return x[k] if checks.has_tracers(x) else np.asarray(x)[k]

    planes = [
        jax.tree.map(lambda x, k=k: entry(x, k), group.element.shapes[1])
        for group in system.forces
        for k in _on_planes(group)
    ]
    if not planes:
        raise ValueError(
            "stand(system=) has no contact with a plane of the ground, on which a shape could "
            "stand: add lie_jax.contact.Contact(shape, lie_jax.contact.Plane('ground'), law) to "
            "the forces of the mechanism, or those of ImportedModel.contacts(law, ground=)."
        )
    first = planes[0]
    if len(planes) > 1 and (checks.has_tracers(planes) or not all(_same(first, p) for p in planes)):
        raise ValueError(
            "stand(system=) has contacts with several planes of the ground, or with planes that "
            "JAX traces; bodies stand on one: give ground=lie_jax.contact.Plane('ground', point, "
            "normal)."
        )
    return jax.tree.map(jnp.asarray, first)


def _same(one: Plane, other: Plane) -> bool:
    apart = np.asarray(other.point) - np.asarray(one.point)
    along = np.array_equal(np.asarray(one.normal), np.asarray(other.normal))
    return along and float(np.dot(apart, np.asarray(one.normal))) == 0.0


def _heights(
    system: AbstractMultibodySystem, state: State, plane: Plane
) -> list[tuple[int, Array]]:
    """Slots of the bodies of shapes, and heights (m) of the shapes over the plane."""

    def height(element, poses):
        still = BodyPose(jnp.eye(3, dtype=state.q.dtype), jnp.zeros_like(poses[0].position))
        return jnp.min(geometry.touching((element.shapes[0], plane), (poses[0], still)).gap)

    pose, heights = system.poses_by_slot(state.q), []
    for group in system.forces:
        numbers = _on_planes(group)
        if numbers:
            values = stacking.each(height, group, pose)
            heights += [(group.bodies[0][k], values[k]) for k in numbers]
    return heights
