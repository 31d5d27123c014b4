"""Random forces, drivers and couplings along coordinates of joints, with their laws.

Written once more from the elements' documentation, in NumPy, in the world's frame.
"""

from typing import Any

import numpy as np
from scipy.interpolate import BPoly

import lie_jax
from tests.multibody.random_parts import (
    HELD,
    Along,
    Element,
    Law,
    Signal,
    Size,
    Structure,
)

FORCES = (
    lie_jax.JointSpring,
    lie_jax.JointController,
    lie_jax.JointMotor,
    lie_jax.JointStop,
    lie_jax.JointFriction,
)
_MOVING = (
    lie_jax.RevoluteJoint,
    lie_jax.PrismaticJoint,
    lie_jax.CylindricalJoint,
    lie_jax.UniversalJoint,
    lie_jax.PlanarJoint,
)


def moving(structure: Structure) -> list[int]:
    """Joints with coordinates; three free rotations of a generic joint have none."""
    return [
        k
        for k, own in enumerate(structure.joints)
        if own.kind in _MOVING
        or (own.kind is lie_jax.GenericJoint and HELD[own.variant] != ("x", "y", "z"))
    ]


def chosen(own, variant: int) -> tuple[Any, Along]:
    """A coordinate of a drawn joint: the arguments that say which one, and the coordinate."""
    numbers = [number for number, along in enumerate(own.coordinates) if along is not None]
    number = numbers[variant % len(numbers)]
    # Joints with one coordinate need no number.
    says = () if len(own.coordinates) == 1 and variant % 2 else (number,)
    return (own.joint, *says), own.coordinates[number]


def draw_driver(rng, size: Size, own, element: Element) -> tuple[Any, np.ndarray, float]:
    """A driver that the coordinate fits, the velocities that it asks for, and the rate of these."""
    amplitude, frequency = rng.uniform(0.1, 0.5), rng.uniform(0.5, 2.0) / size.time
    joint, along = chosen(own, element.variant)
    amplitude *= along.unit(size)
    wanted = Signal(along.value - amplitude * np.sin(1.0), amplitude, frequency)
    return lie_jax.JointDriver(*joint, value=wanted), along.row, wanted.start[1]


def draw_coupling(rng, size: Size, element: Element, before) -> tuple[Any, np.ndarray]:
    """A coupling of two coordinates that fit it, and the velocities that it forbids."""
    (follower, f), (leader, x) = (
        chosen(before[k], element.joint + element.variant) for k in (element.joint, element.variant)
    )
    slopes = rng.uniform(-1.0, 1.0, 2) * f.unit(size) / x.unit(size) ** np.asarray([1.0, 2.0])
    first = f.value - slopes[0] * x.value - slopes[1] * x.value**2
    ends = (joint if len(joint) > 1 else joint[0] for joint in (follower, leader))
    joint = lie_jax.CouplingJoint(*ends, (first, *slopes))
    return joint, f.row - (slopes[0] + 2.0 * slopes[1] * x.value) * x.row


def draw_force(rng, size: Size, element: Element, joints, inputs, damped: bool) -> tuple[Any, Law]:
    """A force along a coordinate of a joint and its law."""
    kind, time = element.kind, size.time
    joint, along = chosen(joints[element.joint], element.variant)
    x, rate, unit = along.value, along.rate, along.unit(size)
    effort = size.mass * size.length**2 / time**2 / unit
    k, d = (value * effort / unit for value in rng.uniform((0.5, 0.1), (3.0, 1.0)))
    d *= time * damped
    if kind is lie_jax.JointSpring:
        relaxed = rng.normal() * unit
        own = kind(*joint, stiffness=k, damping=d, relaxed=relaxed)
        return own, Law(lambda v, w: -d * rate(v) * rate(w), 0.5 * k * (x - relaxed) ** 2)
    if kind is lie_jax.JointController:
        offset, amplitude = 0.5 * unit * rng.normal(size=2)
        wanted = Signal(offset, amplitude, rng.uniform(0.5, 3.0) / time)
        value, change = wanted.start
        own = kind(*joint, reference=wanted, proportional=k, derivative=d)
        return own, Law(lambda v, w: (k * (value - x) + d * (change - rate(v))) * rate(w), 0.0)
    if kind is lie_jax.JointMotor:
        # Inputs are one array: 0 and 1 are torques, 2 is a force.
        number = element.variant % 2 if along.is_angle else 2
        inputs[number] = rng.normal() * effort
        return kind(*joint, input=number), Law(lambda v, w: inputs[number] * rate(w), 0.0)
    if kind is lie_jax.JointFriction:
        smooth = unit / time * rng.uniform(0.1, 1.0)
        limit = rng.uniform(0.5, 2.0) * effort * damped

        def rubbed(v, w):
            return -limit * rate(v) / np.hypot(rate(v), smooth) * rate(w)

        return kind(*joint, limit=limit, velocity=smooth), Law(rubbed, 0.0)
    return _stop(rng, size, element, joint, along, damped)


# Part of the spring's force below which a dissipative one falls to zero, twice smooth.
_PULLING = 0.01
_FALLING = BPoly.from_derivatives([0.0, 1.0], [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])


def not_pulling(part):
    """The part of the spring's force with dissipation, which never pulls."""
    return part if part > _PULLING else _PULLING * float(_FALLING(max(part, 0.0) / _PULLING))


def _stop(rng, size, element, joint, along, damped):
    """Beyond the upper or the lower end of a range."""
    unit, sign = along.unit(size), 1.0 if element.variant % 2 else -1.0
    overlap, width = unit * rng.uniform((0.1, 0.5), (0.3, 1.0))
    ends = np.sort([along.value - sign * overlap, along.value - sign * (overlap + width)])
    k = size.mass * size.length**2 / size.time**2 / unit**3 * rng.uniform(1.0, 10.0)
    damping = size.time / unit * rng.uniform(0.1, 0.5) * damped
    law = lie_jax.contact.HuntCrossley(k, 2.0, damping)
    own = lie_jax.JointStop(*joint, lower=ends[0], upper=ends[1], law=law)

    def damped_part(v, w):
        change = not_pulling(1.0 + damping * sign * along.rate(v)) - 1.0
        return -sign * k * overlap**2 * change * along.rate(w)

    return own, Law(damped_part, k * overlap**3 / 3.0)


def draw_combination(rng, size: Size, element: Element, joints, combined) -> tuple[Any, Law]:
    """A force along a combination of one or two coordinates, and its law.

    `combined(unit, number, value, rate)` draws the options and the law along a length.
    """
    parts = [chosen(joints[element.joint], element.variant)]
    others = [own for own in joints if own is not joints[element.joint] and own.coordinates]
    for own in others[: element.variant % 2]:
        parts.append(chosen(own, element.variant + 1))
    factors = rng.uniform(0.5, 2.0, len(parts))
    # Of lengths without a unit.
    factors /= [along.unit(size) for _, along in parts]

    def rate(w):
        return sum(c * along.rate(w) for c, (_, along) in zip(factors, parts, strict=True))

    value = sum(c * along.value for c, (_, along) in zip(factors, parts, strict=True))
    unit = size.mass * size.length**2 / size.time**2
    number = 0 if element.variant // 2 % 2 else None
    options, law = combined(unit, number, value, rate)
    ends = [joint if len(joint) > 1 else joint[0] for joint, _ in parts]
    return lie_jax.CouplingForce(ends, factors, **options), law
