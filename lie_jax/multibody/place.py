"""Places of bodies from the coordinates of joints, and the closure of loops."""

import dataclasses
from collections.abc import Mapping
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.groups import quaternion, se3
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.motions import COUNTS, Motion
from lie_jax.mechanics.mechanism import Label, Mechanism, attach_elements, labels
from lie_jax.multibody.minimal import assembly
from lie_jax.multibody.minimal import joints as tree_joints
from lie_jax.multibody.minimal.formulation import split_joints
from lie_jax.multibody.minimal.system import TreeSystem
from lie_jax.numerics import rules, waits
from lie_jax.numerics.conversion import as_float, in_precision
from lie_jax.systems import projection
from lie_jax.systems.system import State
from lie_jax.user_functions import snapshots

# Gauss-Newton steps. Each squares the gap where poses nearly fit; from rough ones the first steps
# go astray.
_ITERATIONS = 40


@waits.announce("the placement")
def place(
    mechanism: Mechanism, coordinates: Mapping[Label, Any] | None = None, *, close: bool = True
) -> Mechanism:
    """The mechanism with its bodies at rest where coordinates of joints put them.

    **Arguments:** `coordinates`: values by the labels of joints, their name or `(parent, child)` or
    `(parent, child, 2)` as in `joint_coordinates`: angles (rad) and distances (m) in the joint's
    order, one number or (k,). Three free rotations of a joint, as those of a ball joint, are the
    unit quaternion (4,) that rotates the child's components into the parent's. `close`: whether
    loops are closed, and other constraints met, as they are at time zero.

    Bodies hang on the ground, or on the first body of a tree that is no joint's child, which stays
    where it is. Joints that are not named start from the coordinates for which the present poses
    fit best. Then they and floating bodies move until the loops are closed, by the least change in
    the kinetic-energy norm; joints that are named keep their coordinates. From a rough pose,
    therefore, `place(place(mechanism, guesses, close=False), exact)`. Where loops do not close from
    there, random starts around it are tried, always the same ones. Flexible bodies stay bent by
    their initial amplitudes.

    Returns a new `Mechanism` with position and orientation of its bodies, without velocities;
    differentiable. Raises `ValueError` for labels and values that are no coordinates of a joint,
    for named joints that close a loop, and, with the joint and its gap, where a constraint cannot
    be met or is met turned over (not inside JAX transformations).
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(
            f"place(mechanism=) is a {type(mechanism).__name__}; it must be a mechanism: make it "
            "with lie_jax.Mechanism(bodies, joints, forces)."
        )
    checks.one_of("place(close=)", close, (True, False))
    mechanism = jax.tree.map(lambda x: in_precision(x, None), mechanism)
    values = _by_number(mechanism, {} if coordinates is None else coordinates)
    motions, cuts = split_joints(mechanism, (), values)
    for number, value in values.items():
        if number in cuts:
            raise ValueError(
                f"place(coordinates=) names {element_name(mechanism.joints[number])}, which closes "
                "a loop of joints that are all named; one coordinate of a loop follows from the "
                "others: leave it out."
            )
        motions[number] = (_weld(motions[number], value),)
    system, state = assembly.from_motions(
        attach_elements(eqx.tree_at(lambda m: m.forces, mechanism, ())), motions, cuts, rough=True
    )
    system = snapshots.freeze(system)
    q = _close(system, state) if close and cuts else state.q
    rotation, position = eqx.filter_jit(TreeSystem.poses)(system, q)
    orientation = jax.vmap(quaternion.from_rotation)(rotation)
    none = np.zeros(3, position.dtype)
    bodies = [
        dataclasses.replace(
            body, position=position[k], orientation=orientation[k], velocity=none, omega_body=none
        )
        for k, body in enumerate(mechanism.bodies)
    ]
    return dataclasses.replace(mechanism, bodies=bodies)


def _by_number(mechanism: Mechanism, coordinates: Any) -> dict[int, Array]:
    """Checked values by the numbers of their joints."""
    if not isinstance(coordinates, Mapping):
        raise ValueError(
            f"place(coordinates=) is a {type(coordinates).__name__}; it must be a dictionary with "
            "values by the labels of joints: write {('parent', 'child'): value}."
        )
    by_label = labels(mechanism.joints)
    values = {}
    for label, value in coordinates.items():
        if label not in by_label:
            known = ", ".join(map(repr, by_label)) or "none"
            raise ValueError(
                f"place(coordinates=) has {label!r}, which is the label of no joint; the labels "
                f"are {known}: correct it."
            )
        number = by_label.index(label)
        values[number] = _check(mechanism.joints[number], label, value)
    return values


def _check(joint: AbstractJoint, label: Label, value: Any) -> Array:
    where = f"place(coordinates=)[{label!r}]"
    motions = () if joint.velocity_rows else joint.motions() or ()
    counts = [COUNTS[motion.kind][0] for motion in motions]
    if not sum(counts):
        raise ValueError(
            f"{where} is given; {element_name(joint)} has no joint coordinates: leave it out."
        )
    array = as_float(value)
    checks.real(where, array)
    if jnp.ndim(array) == 0:
        array = jnp.reshape(array, 1)
    checks.shape(
        where, array, (sum(counts),), f"the coordinates of {element_name(joint)}, rad or m"
    )
    checks.finite(where, array)
    if counts[-1] == 4:
        checks.unit_quaternion(f"the quaternion in {where}", array[-4:])
    return array


def _weld(motions: tuple[Motion, ...], value: Float[Array, " coordinates"]) -> Motion:
    """The joint of these motions held at its coordinates."""
    joints = tree_joints.stack(motions, [False] * len(motions), value.dtype)
    rows, start = [], 0
    for count, _ in joints.counts:
        row = value[start : start + count]
        rows.append(jnp.pad(row, (0, joints.widest[0] - count)))
        start += count
    steps = joints.poses(jnp.stack(rows))
    poses = jax.vmap(se3.pose)(steps.rotation, joints.parent_point + steps.position)
    pose = reduce(se3.compose, poses)
    return Motion("weld", None, pose[:3, 3], None, quaternion.from_rotation(pose[:3, :3]))


def _close(system: TreeSystem, state: State) -> Float[Array, " nq"]:
    """Coordinates nearby at which the constraints hold; raises with the joint and its gap."""
    t = jnp.zeros((), state.q.dtype)
    still = State(state.q, jnp.zeros_like(state.v))
    closure = projection.close(system, t, still, _ITERATIONS)
    known = rules.stop_gradient(closure)
    if checks.has_tracers(known):
        return closure.state.q
    if known.worst is not None:
        number, gap = known.worst
        raise ValueError(
            f"place(close=True) leaves a gap of {gap:.3g} (m or rad) at "
            f"{system.owner(system.nv + number)}; constraints must be within reach: correct "
            "coordinates=, leave out those of joints that must give way, or give bodies poses "
            "that nearly fit, as lie_jax.place(mechanism, guesses, close=False) does."
        )
    if known.wrong_side_joint is not None:
        joint = system.validity.joint_name(known.wrong_side_joint)
        raise ValueError(
            f"place(close=True) ends with {joint} turned over, half a turn from where it belongs; "
            "its constraints hold there, but no motion leads there: give bodies poses that nearly "
            "fit, as lie_jax.place(mechanism, guesses, close=False) does."
        )
    return closure.state.q
