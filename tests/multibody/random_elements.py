"""Random joints and forces with their laws, written once more from the elements' documentation.

Of joints these are the velocities that they forbid; of forces the power along any velocities, and
potential energies. All is NumPy, in the world's frame.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

import lie_jax
from tests.multibody import random_newer
from tests.multibody.random_parts import (
    GROUND,
    HINGE_FORCES,
    HINGES,
    LARGEST_ANGLE,
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
    # Angle (rad) of a hinge, and the row of its rate.
    angle: float = 0.0
    turning: Any = None


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
    kind, parent, child = element.kind, element.parent, element.child
    if kind is lie_jax.CouplingJoint:
        joint, rows = random_newer.draw_coupling(rng, element, before)
        return _Joint(joint, rows, [0.0], None, before[element.joint].place)
    if kind is lie_jax.GenericJoint:
        joint, rows = random_newer.draw_generic(rng, space, element, _row)
        return _Joint(joint, rows, [0.0] * len(rows), None, space.middle(rng, parent, child))
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
    numbers: dict[str, Any] = {}
    own = space.axis(parent, a)
    home = relative
    if kind in (*HINGES, lie_jax.PlanarJoint):
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
        joint = kind(*names, space.axis(parent, one.axis), space.axis(child, two.axis), ratio)
        row = np.zeros((len(space.positions) - 1, 6))
        row[child, 3:], row[parent, 3:] = two.axis, -ratio * one.axis
        return _Joint(joint, [row], [0.0], None, x)
    if kind is lie_jax.RevoluteDriver:
        amplitude, frequency = rng.uniform(0.1, 0.5), rng.uniform(0.5, 2.0) / space.size.time
        wanted = Signal(angle - Signal(0.0, amplitude, frequency).start[0], amplitude, frequency)
        joint = kind(*names, own, wanted, orientation=quaternion(about(own, -angle) @ relative))
        return _Joint(joint, [_row(space, parent, child, torque=a)], [wanted.start[1]], a, x)
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
    turning = _row(space, parent, child, torque=a)
    return _Joint(kind(*names, **numbers), rows, [0.0] * len(rows), a, x, angle, turning)


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
    if kind in random_newer.FORCES:
        return random_newer.draw_force(rng, space, element, joints, inputs, damped)
    length, mass, time = space.size
    stiffness, damping = mass / time**2, mass / time * damped
    force, torque = stiffness * length, stiffness * length**2
    k, d = rng.uniform(0.5, 3.0), rng.uniform(0.1, 1.0) * damped
    x, a = space.middle(rng, parent, child), space.direction(rng)
    slide = length * rng.normal(size=3)
    slide *= max(1.0, length / np.linalg.norm(slide))
    end = x + space.turn @ slide
    angle = rng.uniform(-LARGEST_ANGLE, LARGEST_ANGLE)
    if element.joint is not None:
        a = joints[element.joint].axis
    names, number = (name_of(parent), name_of(child)), element.variant % 2
    relative, own = space.relative(parent, child), space.axis(parent, a)
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
    if kind in HINGE_FORCES:
        home = quaternion(about(own, -angle) @ relative)
        if kind is lie_jax.TorsionalSpringDamper:
            rest = rng.normal()
            element_ = kind(*names, own, k * torque, d * torque * time, rest, home)
            return element_, Law(
                lambda v, w: -d * torque * time * (a @ turning(v)) * (a @ turning(w)),
                0.5 * k * torque * (angle - rest) ** 2,
            )
        wanted = _signal(rng, 0.5, (), time)
        element_ = kind(*names, own, wanted, k * torque, d * torque * time, home)
        value, rate = wanted.start
        return element_, Law(
            lambda v, w: (
                torque
                * (k * (value - angle) + d * time * (rate - a @ turning(v)))
                * (a @ turning(w))
            ),
            0.0,
        )
    if kind is lie_jax.PrismaticPDController:
        wanted = _signal(rng, length, (), time)
        value, rate = wanted.start
        own = kind(*names, own, wanted, k * stiffness, d * damping, **points)
        return own, Law(
            lambda v, w: (
                (k * stiffness * (value - a @ apart) + d * damping * (rate - a @ passing(v)))
                * (a @ passing(w))
            ),
            0.0,
        )
    if kind is lie_jax.RevoluteMotor:
        inputs[number] = 0.5 * inputs[number] + rng.normal() * torque
        own = kind(*names, own, number)
        return own, Law(lambda v, w: inputs[number] * (a @ turning(w)), 0.0)
    if kind is lie_jax.PrismaticMotor:
        # Inputs are one array: 0 and 1 are torques, 2 is a force.
        inputs[2] = rng.normal() * force
        own = kind(*names, own, 2, **points)
        return own, Law(lambda v, w: inputs[2] * (a @ passing(w)), 0.0)
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
