"""Random joints and forces with their laws, written once more from the elements' documentation.

Of joints these are the velocities that they forbid; of forces the power along any velocities, and
potential energies. All is NumPy, in the world's frame.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

import lie_jax
from tests.multibody import random_along, random_newer
from tests.multibody.random_parts import (
    GROUND,
    LARGEST_ANGLE,
    Along,
    Element,
    Law,
    Signal,
    Space,
    about,
    name_of,
    quaternion,
)


class _Joint(NamedTuple):
    joint: Any
    rows: list[np.ndarray]
    rates: list[float]
    axis: np.ndarray | None
    place: np.ndarray
    # None for a coordinate along which nothing is to act.
    coordinates: tuple[Along | None, ...] = ()


def _row(space, parent, child, force=None, place=None, torque=None):
    """Power of a unit force on the child at a place and a unit torque, and of their opposites."""
    row = np.zeros((len(space.positions), 6))
    for body, sign in ((parent, -1.0), (child, 1.0)):
        if force is not None:
            arm = place - space.positions[body]
            row[body] += sign * np.concatenate([force, np.cross(arm, force)])
        if torque is not None:
            row[body, 3:] += sign * torque
    row[GROUND] = 0.0
    return row[:-1]


def draw_joint(rng, space: Space, element: Element, before: list[_Joint]) -> _Joint:
    kind, parent, child, title = element.kind, element.parent, element.child, f"{len(before)}"
    if kind is lie_jax.CouplingJoint:
        joint, row = random_along.draw_coupling(rng, space.size, element, before)
        return _Joint(joint, [row], [0.0], None, before[element.joint].place)
    if kind is lie_jax.JointDriver:
        driven = before[element.joint]
        joint, row, rate = random_along.draw_driver(rng, space.size, driven, element)
        return _Joint(joint, [row], [rate], driven.axis, driven.place)
    if kind is lie_jax.GenericJoint:
        joint, rows, coordinates = random_newer.draw_generic(rng, space, element, _row, title)
        place = space.middle(rng, parent, child)
        return _Joint(joint, rows, [0.0] * len(rows), None, place, tuple(coordinates))
    length = space.size.length
    x, a, b = space.middle(rng, parent, child), space.direction(rng), space.direction(rng)
    angle, other = rng.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, 2)
    along = length * rng.normal(size=3)
    slide = space.turn @ along
    if element.joint is not None:
        a = before[element.joint].axis
        x = before[element.joint].place + along[0] * a
    across = np.cross(a, b) / np.linalg.norm(np.cross(a, b))
    beyond = np.cross(a, across)
    relative, end = space.relative(parent, child), x
    names = name_of(parent), name_of(child)
    numbers: dict[str, Any] = {"name": title}
    own = space.axis(parent, a)
    home = relative
    if kind in (lie_jax.RevoluteJoint, lie_jax.CylindricalJoint, lie_jax.PlanarJoint):
        home = about(own, -angle) @ relative
    if kind is lie_jax.UniversalJoint:
        numbers["child_axis"] = space.axis(child, across)
        home = about(own, -angle) @ relative @ about(numbers["child_axis"], -other)
    if kind in (lie_jax.PrismaticJoint, lie_jax.CylindricalJoint):
        end = x + a * along[0]
    if kind is lie_jax.PlanarJoint:
        end = x + across * along[0] + beyond * along[1]
    if kind is lie_jax.DistanceJoint:
        end = x + slide
        numbers["length"] = np.linalg.norm(slide)
    if kind is lie_jax.GearJoint:
        one, two = (before[k] for k in _hinges_on_ground(before, parent, child))
        ratio = float(rng.uniform(0.5, 2.0) * rng.choice([-1.0, 1.0]))
        axes = space.axis(parent, one.axis), space.axis(child, two.axis)
        joint = kind(*names, *axes, ratio, name=title)
        row = np.zeros((len(space.positions) - 1, 6))
        row[child, 3:], row[parent, 3:] = two.axis, -ratio * one.axis
        return _Joint(joint, [row], [0.0], None, x)
    if kind is lie_jax.RollingDisc:
        radius, disc = length * rng.uniform(0.3, 1.0), b
        # The disc stands between 20 and 70 degrees to the plane.
        tilt = rng.uniform(0.35, 1.2)
        normal = np.cos(tilt) * disc + np.sin(tilt) * across
        up = normal - (normal @ disc) * disc
        contact = x - radius * up / np.linalg.norm(up)
        ground = contact + np.cross(normal, slide)
        joint = kind(
            *names,
            radius,
            space.axis(child, disc),
            space.axis(parent, normal),
            space.point(parent, ground),
            space.point(child, x),
            name=title,
        )
        rows = [_row(space, parent, child, e, contact) for e in np.eye(3)]
        return _Joint(joint, rows, [0.0] * 3, disc, x)
    numbers["parent_point"], numbers["child_point"] = (
        space.point(parent, x),
        space.point(child, end),
    )
    if kind not in (lie_jax.SphericalJoint, lie_jax.DistanceJoint):
        numbers["orientation"] = quaternion(home)
    if kind is lie_jax.PlanarJoint:
        numbers["normal"] = own
    elif kind not in (lie_jax.SphericalJoint, lie_jax.DistanceJoint, lie_jax.RigidJoint):
        numbers["axis"] = own
    forces, torques = {
        lie_jax.SphericalJoint: (np.eye(3), ()),
        lie_jax.RevoluteJoint: (np.eye(3), (across, beyond)),
        lie_jax.PrismaticJoint: ((across, beyond), np.eye(3)),
        lie_jax.CylindricalJoint: ((across, beyond), (across, beyond)),
        lie_jax.UniversalJoint: (np.eye(3), (beyond,)),
        lie_jax.PlanarJoint: ((a,), (across, beyond)),
        lie_jax.RigidJoint: (np.eye(3), np.eye(3)),
        lie_jax.DistanceJoint: ((slide / np.linalg.norm(slide),), ()),
    }[kind]
    rows = [_row(space, parent, child, force, end) for force in forces]
    rows += [_row(space, parent, child, torque=torque) for torque in torques]

    def turn(value, axis):
        return Along(value, _row(space, parent, child, torque=axis), True)

    def slid(value, axis):
        return Along(value, _row(space, parent, child, axis, end), False)

    coordinates: tuple[Along | None, ...] = {
        lie_jax.RevoluteJoint: (turn(angle, a),),
        lie_jax.PrismaticJoint: (slid(along[0], a),),
        lie_jax.CylindricalJoint: (turn(angle, a), slid(along[0], a)),
        lie_jax.UniversalJoint: (turn(angle, a), turn(other, across)),
    }.get(kind, ())
    if kind is lie_jax.PlanarJoint:
        # Those of the ground do not turn with the mechanism.
        directions = [space.rotations[parent] @ e for e in _directions(own)]
        slides = [slid(e @ (end - x), e) if parent != GROUND else None for e in directions]
        coordinates = (*slides, turn(angle, a))
    joint = kind(*names, **numbers)
    return _Joint(joint, rows, [0.0] * len(rows), a, x, coordinates)


def _directions(normal):
    """Directions of a plane's distances: x and y after the shortest turn that takes z to the
    normal, or -z, of which y is reversed, to a normal below.
    """
    pole = -1.0 if normal[2] < 0.0 else 1.0
    across = np.cross([0.0, 0.0, pole], normal)
    angle = np.arctan2(np.linalg.norm(across), pole * normal[2])
    turn = about(across / np.linalg.norm(across), angle)
    return turn[:, 0], pole * turn[:, 1]


def _hinges_on_ground(before, parent, child):
    ends = [{own.joint.parent, own.joint.child} for own in before]
    return [
        next(
            k
            for k, pair in enumerate(ends)
            if pair == {name_of(body), "ground"} and type(before[k].joint) is lie_jax.RevoluteJoint
        )
        for body in (parent, child)
    ]


def draw_force(
    rng, space: Space, element: Element, joints: list[_Joint], inputs: np.ndarray, damped: bool
) -> tuple[Any, Law]:
    kind, parent, child = element.kind, element.parent, element.child
    if kind in random_along.FORCES:
        return random_along.draw_force(rng, space.size, element, joints, inputs, damped)
    if kind in random_newer.FORCES:
        return random_newer.draw_force(rng, space, element, joints, inputs, damped)
    length, mass, time = space.size
    stiffness, damping = mass / time**2, mass / time * damped
    force, torque = stiffness * length, stiffness * length**2
    k, d = rng.uniform(0.5, 3.0), rng.uniform(0.1, 1.0) * damped
    x = space.middle(rng, parent, child)
    slide = length * rng.normal(size=3)
    slide *= max(1.0, length / np.linalg.norm(slide))
    end = x + space.turn @ slide
    names, relative = (name_of(parent), name_of(child)), space.relative(parent, child)
    points = {"parent_point": space.point(parent, x), "child_point": space.point(child, end)}
    apart = end - x

    def stretching(w):
        return w.at(child, end) - w.at(parent, x)

    def passing(w):
        return w.at(child, end) - w.at(parent, end)

    def turning(w):
        return w.omega[child] - w.omega[parent]

    if kind is lie_jax.ViscousFriction:
        own = kind(*names, d * torque * time)
        return own, Law(lambda v, w: -d * torque * time * turning(v) @ turning(w), 0.0)
    if kind is lie_jax.LinearSpringDamper:
        line, relaxed = apart / np.linalg.norm(apart), length * rng.uniform(0.5, 2.0)
        own = kind(*names, k * stiffness, d * damping, relaxed, **points)
        stretch = np.linalg.norm(apart) - relaxed
        return own, Law(
            lambda v, w: -d * damping * (line @ stretching(v)) * (line @ stretching(w)),
            0.5 * k * stiffness * stretch**2,
        )
    if kind is lie_jax.CartesianSpringDamper:
        ks, ds = rng.uniform(0.5, 3.0, 3), damped * rng.uniform(0.1, 1.0, 3)
        offset = space.turn @ rng.normal(size=3) * length
        own = kind(*names, ks * stiffness, ds * damping, offset=offset, **points)
        return own, Law(
            lambda v, w: -np.sum(ds * damping * stretching(v) * stretching(w)),
            0.5 * stiffness * np.sum(ks * (apart - offset) ** 2),
        )
    if kind is lie_jax.Bushing:
        roots = rng.normal(size=(4, 3, 3))
        units = stiffness, torque, damping, torque * time * damped
        pulls, turns, drags, brakes = (
            unit * (root @ root.T + 0.1 * np.eye(3))
            for unit, root in zip(units, roots, strict=True)
        )
        theta = rng.normal(size=3)
        if parent == GROUND:
            # The world's axes, which turn with the mechanism.
            theta = space.turn @ theta
            pulls, turns, drags, brakes = (
                space.turn @ x @ space.turn.T for x in (pulls, turns, drags, brakes)
            )
        theta *= rng.uniform(0.2, 1.5) / np.linalg.norm(theta)
        home = Rotation.from_rotvec(theta).as_matrix().T @ relative
        own = kind(*names, pulls, turns, drags, brakes, orientation=quaternion(home), **points)
        e, frame = space.axis(parent, apart), space.rotations[parent]

        def dissipated(v, w):
            linear = (frame.T @ passing(v)) @ drags @ (frame.T @ passing(w))
            return -linear - (frame.T @ turning(v)) @ brakes @ (frame.T @ turning(w))

        return own, Law(dissipated, 0.5 * (e @ pulls @ e + theta @ turns @ theta))
    return _draw_load(rng, space, element, inputs, force if kind is lie_jax.PointForce else torque)


def _signal(rng, unit, shape, time):
    offset, amplitude = unit * rng.normal(size=(2, *shape)) * 0.5
    return Signal(offset, amplitude, rng.uniform(0.5, 3.0) / time)


def _draw_load(rng, space, element, inputs, unit):
    kind, body = element.kind, element.child
    frame = ("world", "body")[element.variant % 2]
    driven, constant = element.variant // 2 % 2, element.variant // 4 % 2
    place = space.middle(rng, GROUND, body)
    signal = _signal(rng, unit, (3,), space.size.time)
    gain = float(rng.normal())
    if driven:
        inputs[3] = gain
    if frame == "world":
        turned = [space.turn @ x for x in (signal.offset, signal.amplitude)]
        signal = Signal(*turned, signal.frequency)
    value = signal.offset if constant else signal.start[0]
    options = {"frame": frame, "input": 3 if driven else None}
    load = signal.offset if constant else signal
    inertial = space.rotations[body] @ value if frame == "body" else value

    def strength():
        # A later load that reads the same input sets it for both.
        return inputs[3] if driven else 1.0

    if kind is lie_jax.Torque:
        return kind(name_of(body), load, **options), Law(
            lambda v, w: strength() * (inertial @ w.omega[body]), 0.0
        )
    own = kind(name_of(body), load, space.point(body, place), **options)
    if constant and frame == "world" and not driven:
        return own, Law(lambda v, w: 0.0, -inertial @ place)
    return own, Law(lambda v, w: strength() * (inertial @ w.at(body, place)), 0.0)
