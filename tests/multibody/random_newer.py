"""Random tendons, bushings, beams, contacts, couplings and generic joints with their laws.

Written once more from the elements' documentation, in NumPy, in the world's frame.
"""

import itertools
from typing import Any

import numpy as np
from scipy.linalg import logm
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import contact
from tests.multibody import random_along
from tests.multibody.random_parts import (
    GROUND,
    HELD,
    LARGEST_ANGLE,
    Along,
    Element,
    Law,
    Space,
    Structure,
    about,
    name_of,
    quaternion,
)

FORCES = (
    lie_jax.RevoluteBushing,
    lie_jax.PathForce,
    lie_jax.PathForce,
    lie_jax.CouplingForce,
    lie_jax.beams.Beam,
    lie_jax.contact.Contact,
    lie_jax.contact.Contact,
    lie_jax.JointSpring,
    lie_jax.JointStop,
)
_ALONG = (lie_jax.CouplingForce, lie_jax.JointSpring, lie_jax.JointStop)
_WORDS = ("x", "y", "z")


def with_newer(rng, base: Structure, with_joint) -> Structure:
    """A structure with a generic joint, a coupling, and newer forces; none of them redundant."""
    n = base.bodies
    if rng.uniform() < 0.5:
        child = int(rng.integers(0, n))
        parent = int(rng.choice([k for k in range(GROUND, n) if k != child]))
        held = int(rng.integers(len(HELD)))
        base = with_joint(base, Element(lie_jax.GenericJoint, parent, child, held))
    moving = [k for k in random_along.moving(base) if base.joints[k].joint is None]
    if len(moving) > 1 and rng.uniform() < 0.6:
        follower, leader = (int(k) for k in rng.choice(moving, 2, replace=False))
        ends = base.joints[follower].parent, base.joints[follower].child
        base = with_joint(base, Element(lie_jax.CouplingJoint, *ends, leader, follower))
    forces = list(base.forces[:2])
    for _ in range(int(rng.integers(1, 4))):
        kind = FORCES[rng.integers(len(FORCES))]
        variant, joint = int(rng.integers(0, 8)), None
        child = int(rng.integers(0, n))
        parent = int(rng.choice([k for k in range(GROUND, n) if k != child]))
        if kind in _ALONG:
            if not moving:
                continue
            joint = int(rng.choice(moving))
            parent, child = base.joints[joint].parent, base.joints[joint].child
        forces.append(Element(kind, parent, child, variant, joint))
    return base._replace(forces=tuple(forces))


def draw_generic(
    rng, space: Space, element: Element, row, name: str
) -> tuple[Any, list[np.ndarray], list[Along]]:
    """A generic joint, the velocities that it forbids, and its coordinates."""
    parent, child, held = element.parent, element.child, HELD[element.variant]
    x = space.middle(rng, parent, child)
    axes = space.turn @ Rotation.random(rng=rng).as_matrix()
    angles = rng.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, 2)
    along = space.size.length * rng.normal(size=3)
    free = [word not in held for word in (*_WORDS, *(f"rotation_{w}" for w in _WORDS))]
    end = x + axes @ np.where(free[:3], along, 0.0)
    on_parent = space.rotations[parent].T @ axes
    home, turns = space.relative(parent, child), np.flatnonzero(free[3:])
    torques = [axes[:, k] for k in range(3) if not free[3 + k]]
    about_axes = []
    if len(turns) == 3:
        home, torques = Rotation.random(rng=rng).as_matrix(), []
    if len(turns) == 1:
        home = about(on_parent[:, turns[0]], -angles[0]) @ home
        about_axes = [axes[:, turns[0]]]
    if len(turns) == 2:
        # The second axis, that of the child, is across the first one, whatever the turns are.
        first, second = axes[:, turns[0]], axes @ about(np.eye(3)[turns[0]], angles[0])[:, turns[1]]
        on_child = space.rotations[child].T @ second
        home = about(on_parent[:, turns[0]], -angles[0]) @ home @ about(on_child, -angles[1])
        torques, about_axes = [np.cross(first, second)], [first, second]
    joint = lie_jax.GenericJoint(
        name_of(parent),
        name_of(child),
        held,
        space.point(parent, x),
        space.point(child, end),
        quaternion(on_parent),
        quaternion(home),
        name=name,
    )
    rows = [row(space, parent, child, axes[:, k], end) for k in range(3) if not free[k]]
    rows += [row(space, parent, child, torque=torque) for torque in torques]
    coordinates = [
        Along(along[k], row(space, parent, child, axes[:, k], end), False)
        for k in range(3)
        if free[k]
    ]
    coordinates += [
        Along(angle, row(space, parent, child, torque=axis), True)
        for angle, axis in zip(angles, about_axes, strict=False)
    ]
    return joint, rows, coordinates


def draw_force(rng, space: Space, element: Element, joints, inputs, damped: bool):
    """A newer force and its law."""
    return _DRAW[element.kind](rng, space, element, joints, inputs, damped)


def _combined(rng, space: Space, unit, damped, inputs, number, value, rate):
    """Options and law of a spring, damper and input along a length with this value and rate."""
    k, d = rng.uniform(0.5, 3.0) * unit, rng.uniform(0.1, 1.0) * damped * unit * space.size.time
    relaxed = np.sort(value + np.asarray([0.3, 1.1]) * rng.choice([-1.0, 1.0]) * abs(value))
    off = value - np.clip(value, *relaxed)
    options = {"stiffness": k, "damping": d, "relaxed": relaxed}
    if not damped or number is None:
        return options, Law(lambda v, w: -d * rate(v) * rate(w), 0.5 * k * off**2)
    inputs[number] = rng.normal() * unit * abs(value)

    def pushed(v, w):
        return (inputs[number] - k * off - d * rate(v)) * rate(w)

    return {**options, "input": number}, Law(pushed, 0.0)


def _path(rng, space, element, joints, inputs, damped):
    between = element.variant // 2 % (len(space.rotations) - 1)
    bodies = (element.parent, between, element.child)[:: 1 if element.variant % 2 else 2]
    places = [space.place(rng.normal(size=3) + 2.0 * k) for k in range(len(bodies))]

    def rate(w):
        total = 0.0
        for a, b, x, y in zip(bodies, bodies[1:], places, places[1:], strict=False):
            total += (w.at(b, y) - w.at(a, x)) @ (y - x) / np.linalg.norm(y - x)
        return total

    length = sum(np.linalg.norm(y - x) for x, y in itertools.pairwise(places))
    unit = space.size.mass / space.size.time**2
    number = 2 if element.variant // 4 else None
    options, law = _combined(rng, space, unit, damped, inputs, number, length, rate)
    points = [(name_of(b), space.point(b, x)) for b, x in zip(bodies, places, strict=True)]
    return lie_jax.PathForce(points, **options), law


def _along_joints(rng, space, element, joints, inputs, damped):
    def combined(unit, number, value, rate):
        return _combined(rng, space, unit, damped, inputs, number, value, rate)

    return random_along.draw_combination(rng, space.size, element, joints, combined)


def _axis_bushing(rng, space, element, joints, inputs, damped):
    parent, child, size = element.parent, element.child, space.size
    stiffness = size.mass / size.time**2
    root = rng.normal(size=(3, 3))
    pull = stiffness * (root @ root.T + 0.1 * np.eye(3))
    drag = stiffness * size.time * damped * np.diag(rng.uniform(0.1, 1.0, 3))
    if parent == GROUND:
        # The world's axes, which turn with the mechanism.
        pull, drag = (space.turn @ x @ space.turn.T for x in (pull, drag))
    c, d = stiffness * size.length**2 * rng.uniform(0.5, 2.0, 2)
    d *= size.time * damped
    x, a = space.middle(rng, parent, child), space.direction(rng)
    end = x + 0.3 * size.length * (space.turn @ rng.normal(size=3))
    b = space.turn @ about(_unit(rng), rng.uniform(0.1, 1.2)) @ space.turn.T @ a
    # A turn of the child that takes its axis to the parent's.
    across = np.cross(b, a)
    angle = np.arctan2(np.linalg.norm(across), a @ b)
    back = about(across / np.linalg.norm(across), angle)
    home = space.rotations[parent].T @ back @ space.rotations[child]
    own = lie_jax.RevoluteBushing(
        name_of(parent),
        name_of(child),
        space.axis(parent, a),
        pull,
        c,
        drag,
        d,
        space.point(parent, x),
        space.point(child, end),
        quaternion(home),
    )
    frame = space.rotations[parent]
    e = frame.T @ (end - x)

    def dissipated(v, w):
        one, two = (frame.T @ (u.at(child, end) - u.at(parent, end)) for u in (v, w))
        turns = (np.cross(u.omega[child] - u.omega[parent], b) for u in (v, w))
        first, second = turns
        return -one @ drag @ two - d * first @ second

    return own, Law(dissipated, 0.5 * e @ pull @ e + 0.5 * c * np.sum((b - a) ** 2))


def _beam(rng, space, element, joints, inputs, damped):
    parent, child, size = element.parent, element.child, space.size
    unit = size.mass * size.length / size.time**2
    units = unit * np.asarray([1.0] * 3 + [size.length**2] * 3)
    stiffness = units * rng.uniform(0.5, 3.0, 6)
    length = size.length * rng.uniform(0.8, 1.5)
    # Strains of order one between the nodes, in the section's axes.
    strain = rng.normal(size=6) * [0.2, 0.2, 0.2, 0.5, 0.5, 0.5] + [1, 0, 0, 0, 0, 0]
    strain[3:] /= size.length
    first = space.turn @ Rotation.random(rng=rng).as_matrix()
    x = space.middle(rng, parent, child)
    moved = _exp(length * strain)
    second, end = first @ moved[:3, :3], x + first @ moved[:3, 3]
    frames = (space.rotations[k].T @ r for k, r in ((parent, first), (child, second)))
    points = space.point(parent, x), space.point(child, end)
    begins, ends = (quaternion(frame) for frame in frames)
    own = lie_jax.beams.Beam(
        name_of(parent), name_of(child), stiffness, length, None, (1.0, 0, 0, 0, 0, 0), points[0],
        begins, points[1], ends,
    )  # fmt: skip
    relative = np.eye(4)
    relative[:3, :3], relative[:3, 3] = first.T @ second, first.T @ (end - x)
    twist = np.real(logm(relative)) / length
    found = np.asarray([*twist[:3, 3], twist[2, 1], twist[0, 2], twist[1, 0]])
    off = found - [1, 0, 0, 0, 0, 0]
    return own, Law(lambda v, w: 0.0, 0.5 * length * np.sum(stiffness * off**2))


def _exp(twist):
    """Pose (4, 4) of a screw, from the series of matrices."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = np.cross(np.eye(3), -twist[3:])
    matrix[:3, 3] = twist[:3]
    term = total = np.eye(4)
    for k in range(1, 40):
        term = term @ matrix / k
        total = total + term
    return total


def _touch(rng, space, element, joints, inputs, damped):
    """A sphere of the child that overlaps a plane of the parent, with friction if damped."""
    parent, child, size = element.parent, element.child, space.size
    x, normal = space.middle(rng, parent, child), space.direction(rng)
    radius, overlap = size.length * rng.uniform(0.5, 1.5), size.length * rng.uniform(0.1, 0.3)
    k = size.mass / size.time**2 / size.length * rng.uniform(1.0, 10.0)
    damping = size.time / size.length * rng.uniform(0.1, 0.5) * damped
    slip, factor = size.length / size.time * rng.uniform(0.1, 1.0), rng.uniform(0.2, 1.0)
    side = np.cross(normal, space.direction(rng)) * size.length
    surface = x - (radius - overlap) * normal + side
    ball = contact.Sphere(name_of(child), radius, space.point(child, x))
    plane = contact.Plane(name_of(parent), space.point(parent, surface), space.axis(parent, normal))
    rubs = bool(damped and element.variant % 2)
    own = lie_jax.contact.Contact(
        ball,
        plane,
        lie_jax.contact.HuntCrossley(k, 2.0, damping),
        lie_jax.contact.Coulomb(factor, slip) if rubs else None,
    )
    place = x - (radius - 0.5 * overlap) * normal

    def power(v, w):
        one, two = (u.at(child, place) - u.at(parent, place) for u in (v, w))
        closing = -normal @ one
        pressed = k * overlap**2 * random_along.not_pulling(1.0 + damping * closing)
        force = (pressed - k * overlap**2) * normal
        if rubs:
            sliding = one + closing * normal
            force = force - factor * pressed * sliding / np.sqrt(sliding @ sliding + slip**2)
        return force @ two

    return own, Law(power, k * overlap**3 / 3.0)


def _unit(rng):
    x = rng.normal(size=3)
    return x / np.linalg.norm(x)


_DRAW = {
    lie_jax.PathForce: _path,
    lie_jax.CouplingForce: _along_joints,
    lie_jax.RevoluteBushing: _axis_bushing,
    lie_jax.beams.Beam: _beam,
    lie_jax.contact.Contact: _touch,
}
