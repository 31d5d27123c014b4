"""Random mechanisms: structures by seed, drawn with numbers in any size, place and order of bodies.

The motion of a structure does not depend on size, place and order.
"""

import numpy as np

import lie_jax
from tests.mechanisms import inertia
from tests.multibody import random_along, random_newer
from tests.multibody.random_elements import draw_force, draw_joint
from tests.multibody.random_parts import (
    GROUND,
    LOADS,
    LOOP_JOINTS,
    PAIR_FORCES,
    TREE_JOINTS,
    Drawn,
    Element,
    Size,
    Space,
    Structure,
    name_of,
    quaternion,
)


def draw(
    structure: Structure,
    number: int,
    size: Size | None = None,
    turn: np.ndarray | None = None,
    shift=(0.0, 0.0, 0.0),
    order=None,
) -> Drawn:
    """The mechanism of a structure with the numbers of a seed.

    In another size than its own, turned and shifted in units of its length; bodies in any order.
    """
    rng = np.random.default_rng([structure.seed, 2, number])
    n, size = structure.bodies, structure.size if size is None else size
    turn = np.eye(3) if turn is None else turn
    order = np.arange(n) if order is None else np.asarray(order)
    length, mass, time = size
    space = Space(rng, n, size, turn, np.asarray(shift) * length)
    joints = []
    for element in structure.joints:
        joints.append(draw_joint(rng, space, element, joints))
    inputs = np.zeros(4)
    forces = [
        draw_force(rng, space, element, joints, inputs, structure.damped)
        for element in structure.forces
    ]
    rows = np.asarray([row for joint in joints for row in joint.rows]).reshape(-1, n, 6)
    rates = np.asarray([rate for joint in joints for rate in joint.rates])
    centers = 0.3 * length * rng.normal(size=(n, 3))
    inertias = [mass * length**2 * inertia(rng) for _ in range(n)]
    masses = mass * rng.uniform(1.0, 3.0, n)
    gravity = turn @ rng.normal(size=3) * length / time**2 * (0.0 if rng.uniform() < 0.2 else 2.0)
    wanted = rng.normal(size=(n, 2, 3)) @ turn.T * np.asarray([length, 1.0])[:, None] / time
    drawn = Drawn(
        None, order, space.rotations, space.positions, wanted.reshape(n, 6), rows, rates,
        tuple(law for _, law in forces), inputs, size,
    )  # fmt: skip
    velocities = drawn.admissible(drawn.velocities)
    if np.any(rates):
        scaled, scale = drawn.scaled()
        lengths = np.linalg.norm(rows.reshape(len(rows), -1) * scale, axis=1)
        asked = np.linalg.pinv(scaled) @ (rates / lengths) * scale
        velocities = velocities + asked.reshape(n, 6)
    bodies = [
        lie_jax.Body(
            name_of(k),
            masses[k],
            inertias[k],
            centers[k],
            space.positions[k],
            quaternion(space.rotations[k]),
            velocities[k, :3],
            space.rotations[k].T @ velocities[k, 3:],
        )
        for k in order
    ]
    mechanism = lie_jax.Mechanism(
        bodies, [own.joint for own in joints], [own for own, _ in forces], gravity
    )
    return drawn._replace(mechanism=mechanism, velocities=velocities)


def newer(seed: int) -> Structure:
    """The structure of a seed with newer elements besides."""
    base = structure(seed)
    return random_newer.with_newer(np.random.default_rng([seed, 5]), base, _with_joint)


def structure(seed: int) -> Structure:
    """The bodies and elements of a seed."""
    rng = np.random.default_rng([seed, 0])
    n = int(rng.choice([1, 2, 3, 4, 6], p=[0.15, 0.25, 0.25, 0.2, 0.15]))
    joints: list[Element] = []
    if geared := seed % 10 == 8:
        # Wheels on the ground are rare otherwise.
        n = max(n, 2)
        joints = [Element(lie_jax.RevoluteJoint, GROUND, child) for child in range(2)]
    for child in range(2 if geared else 0, n):
        if child == 0:
            parent = GROUND if rng.uniform() < 0.6 else None
        else:
            parent = int(rng.choice([GROUND, child - 1, rng.integers(0, child)], p=[0.2, 0.5, 0.3]))
            parent = None if rng.uniform() < 0.1 else parent
        if parent is not None:
            kind = TREE_JOINTS[rng.choice(7, p=[0.2, 0.25, 0.12, 0.13, 0.12, 0.12, 0.06])]
            ends = (parent, child) if rng.uniform() < 0.7 else (child, parent)
            joints.append(Element(kind, *ends))
    base = Structure(seed, n, tuple(joints), (), True, False, False)
    base = base if _mobility(base)[1] else base._replace(joints=())
    for _ in range(int(rng.choice([0, 1, 2], p=[0.5, 0.3, 0.2]))):
        base = _with_joint(base, _random_closer(rng, base))
    if geared or rng.uniform() < 0.4:
        base = _with_joint(base, _random_gear(rng, base))
    moving = random_along.moving(base)
    if moving and rng.uniform() < 0.15:
        driven = base.joints[k := int(rng.choice(moving))]
        more = _with_joint(
            base, Element(lie_jax.JointDriver, driven.parent, driven.child, seed % 3, k)
        )
        base = more._replace(rheonomic=more is not base)
    doors = [k for k in moving if base.joints[k].kind is lie_jax.RevoluteJoint]
    if doors and rng.uniform() < 0.12:
        door = base.joints[k := int(rng.choice(doors))]
        second = door._replace(joint=k)
        base = base._replace(joints=(*base.joints, second), is_tree=False, redundant=True)
    return base._replace(forces=tuple(_random_force(rng, base) for _ in range(rng.integers(1, 6))))


def _mobility(structure: Structure) -> tuple[bool, int]:
    """Whether no row depends on others, and how many velocities are left."""
    drawn = draw(structure, 0, Size())
    if not len(drawn.rows):
        return True, 6 * structure.bodies
    values = np.linalg.svd(drawn.scaled()[0], compute_uv=False)
    rank = int(np.sum(values > 1e-3))
    return rank == len(drawn.rows), 6 * structure.bodies - rank


def _with_joint(structure: Structure, element: Element | None) -> Structure:
    """With one joint more, if that leaves the others independent and something to move."""
    if element is None:
        return structure
    more = structure._replace(joints=(*structure.joints, element), is_tree=False)
    independent, left = _mobility(more)
    return more if independent and left else structure


def _random_pair(rng, n):
    child = int(rng.integers(0, n))
    others = [k for k in range(GROUND, n) if k != child]
    parent = int(rng.choice(others))
    return (parent, child) if rng.uniform() < 0.7 or parent == GROUND else (child, parent)


def _random_closer(rng, base):
    kind = LOOP_JOINTS[rng.integers(len(LOOP_JOINTS))]
    return Element(kind, *_random_pair(rng, base.bodies))


def _random_gear(rng, base):
    wheels = [
        max(own.parent, own.child)
        for own in base.joints
        if own.kind is lie_jax.RevoluteJoint and GROUND in (own.parent, own.child)
    ]
    if len(set(wheels)) < 2:
        return None
    return Element(lie_jax.GearJoint, *sorted(set(wheels), key=lambda _: rng.uniform())[:2])


def _random_force(rng, base):
    moving = random_along.moving(base)
    variant = int(rng.integers(0, 8))
    choice = rng.uniform()
    if choice < 0.25:
        kind = LOADS[rng.integers(2)]
        return Element(kind, GROUND, int(rng.integers(0, base.bodies)), variant)
    if moving and choice < 0.6:
        joint = int(rng.choice(moving))
        ends = base.joints[joint].parent, base.joints[joint].child
        kinds = random_along.FORCES
        return Element(kinds[rng.integers(len(kinds))], *ends, variant, joint)
    kind = PAIR_FORCES[rng.integers(len(PAIR_FORCES))]
    return Element(kind, *_random_pair(rng, base.bodies), variant)
