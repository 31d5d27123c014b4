"""From a mechanism to a system in joint coordinates and its initial state."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lie_jax.mechanics.body import MassProperties
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.mechanics.mechanism import Label, Mechanism, labels
from lie_jax.multibody import stacking
from lie_jax.multibody.flexible import initial_amplitudes, stack_flexible
from lie_jax.multibody.minimal import flexible_frames, own_coordinates, state, turn_places
from lie_jax.multibody.minimal import joints as tree_joints
from lie_jax.multibody.minimal.flexible_system import FlexibleLoopSystem, FlexibleTreeSystem
from lie_jax.multibody.minimal.formulation import refuse_armatures, split_joints
from lie_jax.multibody.minimal.loops import LoopSystem
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.multibody.minimal.tree import Tree, make_tree, names_by_slot
from lie_jax.systems.system import State


def system_of(mechanism: Mechanism, cut: tuple[Label, ...]) -> tuple[TreeSystem, State]:
    """The mechanism in joint coordinates, and the state of its bodies' initial motion.

    `cut`: labels of the joints that are constraints, empty for a choice. Raises `ValueError` for
    labels that are no such choice, for joints that leave nothing to move, for massless bodies that
    carry no mass, and for initial poses or velocities that do not fit the joints of the tree.
    """
    motions, cuts = split_joints(mechanism, cut)
    refuse_armatures([mechanism.joints[number] for number in cuts])
    return from_motions(mechanism, motions, cuts)


def from_motions(
    mechanism: Mechanism, motions: list[tuple[Motion, ...]], cuts: list[int], rough: bool = False
) -> tuple[TreeSystem, State]:
    """The mechanism with these motions of all joints, () for the cut ones with these numbers.

    `rough`: whether the bodies' poses need not fit the joints; the state has the coordinates for
    which they fit best. Joints may then leave nothing to move. Raises `ValueError` as `system_of`.
    """
    if mechanism.inertias:
        raise ValueError(
            "Mechanism(inertias=) has mass between bodies, which joint coordinates do not know: "
            "assemble the mechanism with lie_jax.SE3() or lie_jax.R3SO3(), or make lines of beams "
            "with order=2."
        )
    all_labels = labels(mechanism.joints)
    kept = [number for number, of_joint in enumerate(motions) if of_joint]
    remaining = tuple(mechanism.joints[k] for k in kept)
    skeleton = eqx.tree_at(lambda m: m.joints, mechanism, remaining)
    kept_motions = [motions[k] for k in kept]
    system, start = _tree_of(skeleton, kept_motions, tuple(all_labels[k] for k in kept), rough)
    if not cuts:
        return system, start
    parts = {field.name: getattr(system, field.name) for field in dataclasses.fields(system)}
    closing = [mechanism.joints[k] for k in cuts]
    closed = {TreeSystem: LoopSystem, FlexibleTreeSystem: FlexibleLoopSystem}
    places = turn_places.places_of(kept_motions, 7 * system.tree.bases)
    by_place = [turn_places.of_element(joint, skeleton.joints, places) for joint in closing]
    return closed[type(system)](
        **parts,
        cuts=tuple(
            turn_places.with_turn_places(group, by_place)
            for group in stacking.stack_by_kind(closing, system.names_by_slot)
        ),
        cut_labels=tuple(all_labels[k] for k in cuts),
        all_labels=all_labels,
    ), start


def _tree_of(
    mechanism: Mechanism,
    motions: list[tuple[Motion, ...]],
    by_number: tuple[Label, ...],
    rough: bool,
) -> tuple[TreeSystem, State]:
    """The system of a mechanism without loops; labels are those of its joints."""
    dtype = mechanism.gravity.dtype
    flexibility, interfaces = stack_flexible(mechanism.bodies)
    names = *mechanism.names, *interfaces
    frames = flexible_frames.connections(mechanism.joints, flexibility, names)
    steps = [motion for of_joint in motions for motion in of_joint]
    owners = [number for number, of_joint in enumerate(motions) for _ in of_joint]
    ends = *((joint.parent, joint.child) for joint in mechanism.joints), *frames
    welds = [Motion("weld")] * len(frames)
    tree = make_tree(names, ends, [*motions, *((weld,) for weld in welds)])
    held = not tree.bases and not frames
    if not rough and held and all(motion.kind == "weld" for motion in steps):
        raise ValueError(
            "the mechanism has no joint coordinates: rigid joints hold every body to the ground. "
            "Replace one by a joint that moves."
        )
    own_coordinates.check(mechanism.joints, motions)
    _refuse_idle_massless(mechanism, tree)
    steps += welds
    joints = tree_joints.stack([steps[k] for k in tree.motions], tree.reversed, dtype)
    bodies = [MassProperties(b.mass, b.inertia, b.center_of_mass) for b in mechanism.bodies]
    massless = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), bodies[0])
    places = turn_places.places_of(motions, 7 * tree.bases)
    by_place = [
        turn_places.of_element(force, mechanism.joints, places) for force in mechanism.forces
    ]
    forces = stacking.stack_by_kind(
        mechanism.forces, names_by_slot(tree, names), [at is None for at in by_place]
    )
    motion = stacking.initial_motion(mechanism.bodies)
    amplitudes = initial_amplitudes(flexibility, mechanism.bodies)
    if frames:
        motion = flexible_frames.initial_motion(flexibility, motion, *amplitudes)
    parts: dict[str, Any] = dict(
        bodies=stacking.stack([bodies[i] if i < len(bodies) else massless for i in tree.bodies]),
        forces=tuple(turn_places.with_turn_places(group, by_place) for group in forces),
        gravity=mechanism.gravity,
        tree=tree,
        owners=tuple(owners),
        titles=tuple(element_name(joint) for joint in mechanism.joints),
        labels=by_number,
    )
    start = state.initial(mechanism, tree, joints, motions, motion, rough)
    if not frames or rough:
        if frames:
            # Places are sought for bodies that stay bent as they are.
            bent = flexible_frames.ModalFrames(flexibility, tree)
            joints = bent.joints(joints, jnp.concatenate(amplitudes[0]))
        system = TreeSystem(**parts, joints=joints, names=names)
        return system, system.initial_state(start)
    deforming: dict[str, Any] = {
        "flexibility": flexibility,
        "interfaces": interfaces,
        "names": mechanism.names,
    }
    system = FlexibleTreeSystem(**parts, **deforming, joints=joints)
    return system, system.start(start, *amplitudes)


def _refuse_idle_massless(mechanism: Mechanism, tree: Tree) -> None:
    """Raise for a body without mass that is a base or carries no body with mass."""
    massless = {i for i, body in enumerate(mechanism.bodies) if body.is_massless}
    heavy = set(range(len(mechanism.bodies))) - massless
    carrying = {place for place, i in enumerate(tree.bodies) if i in heavy}
    # Links come after those that they hang from.
    for link, nearer in reversed(list(enumerate(tree.nearer, tree.bases))):
        if link in carrying:
            carrying.add(nearer)
    for place, i in enumerate(tree.bodies):
        floats = place < tree.bases
        if i in massless and (floats or place not in carrying):
            raise ValueError(
                f"Body({mechanism.bodies[i].name!r}) has no mass, and "
                f"{'no joint holds it' if floats else 'carries no body with mass'}; a massless "
                "body must stand between a "
                "joint that holds it and one that carries a body with mass: give it mass and "
                "inertia, or leave it out."
            )
