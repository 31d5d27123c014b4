"""Forces of the gallery: runs from a start at which they act."""

from typing import Any

import numpy as np

import lie_jax
from experiments._gallery.entries import (
    BRICK,
    CEILING,
    FOOT,
    PAIR,
    RAIL,
    ROD,
    SLAB,
    STAND,
    UNDER,
    WALL,
    WEIGHTLESS,
    Entry,
    X,
    Y,
    body,
    turn,
)
from lie_jax import beams, contact, solids

# Angle of rods at the start, height of bricks on the rail, the rod's end.
_LEAN, _LOW, _END = -0.9, 0.075, (0.0, 0.0, -0.17)


def entries() -> list[Entry]:
    """All forces."""
    return [
        *_loads(),
        *_springs(),
        *_bushings(),
        _beam(),
        _friction(),
        *_in_hinges(),
        *_in_sliders(),
        *_tendons(),
        _contact(),
    ]


def _entry(sentence: str, force: Any, moved: lie_jax.Body, ground: Any, seconds: float) -> Entry:
    mechanism = lie_jax.Mechanism([moved], forces=[force], gravity=WEIGHTLESS)
    return Entry(sentence, force, mechanism, ground, seconds=seconds)


def _loads() -> list[Entry]:
    return [
        _entry(
            "A force at a point of a body, fixed in the world or in the body, constant, a function "
            "of the time or an input",
            lie_jax.PointForce("body", (2.0, 0.0, 1.0), (-0.1, 0.0, 0.06)),
            body(BRICK, (-0.3, 0.0, 0.05)), (), 0.7,
        ),
        _entry(
            "A torque on a body, as a force is given",
            lie_jax.Torque("body", (0.0, 0.0, 0.05)),
            body((0.36, 0.1, 0.08), (0.0, 0.0, 0.1)), (), 0.9,
        ),
    ]  # fmt: skip


def _springs() -> list[Entry]:
    hung = {"parent_point": (0.0, 0.0, 0.35), "child_point": (0.0, 0.0, 0.06)}
    return [
        _entry(
            "Springs and dampers along the three inertial axes",
            lie_jax.CartesianSpringDamper(
                *PAIR, (40.0, 40.0, 40.0), offset=(0.0, 0.0, -0.25), **hung
            ),
            body(BRICK, (-0.25, 0.0, -0.02)), CEILING, 0.25,
        ),
        _entry(
            "A spring and damper along the line between two points",
            lie_jax.LinearSpringDamper(*PAIR, 30.0, 0.0, 0.15, **hung),
            body(BRICK, (-0.25, 0.0, -0.02)), CEILING, 0.27,
        ),
    ]  # fmt: skip


def _bushings() -> list[Entry]:
    stiff, places = (2000.0,) * 3, {"child_point": _END}
    turned = turn(np.asarray([0.6, 0.8, 0.0]), -0.8)
    return [
        _entry(
            "Springs and dampers in six axes between a frame of the parent and one of the child",
            lie_jax.Bushing(*PAIR, stiff, (4.0,) * 3, (20.0,) * 3, (0.05,) * 3, **places),
            _leaning(turned, _END), STAND, 0.2,
        ),
        _entry(
            "A hinge of springs and dampers: the child turns freely about the axis alone",
            lie_jax.RevoluteBushing(
                *PAIR, Y, stiff, 20.0, (20.0,) * 3, 0.1, **places
            ),
            _leaning(turn(Y, _LEAN), _END, 3.0), STAND, 0.5,
        ),
    ]  # fmt: skip


def _leaning(orientation: Any, foot: Any, rate: float = 0.0) -> lie_jax.Body:
    """The rod with its foot in the origin, about which it turns in the plane of x and z."""
    rotation = np.asarray(lie_jax.groups.quaternion.to_matrix(orientation))
    middle = -rotation @ np.asarray(foot)
    velocity, omega = np.cross(rate * Y, middle), rate * Y
    return body(ROD, middle, orientation=orientation, velocity=velocity, omega_body=omega)


def _beam() -> Entry:
    section = beams.rectangle(0.06, 0.012, 2e8, 8e7, 1000.0)
    line = beams.line("node", section, 0.7, 8, position=(-0.33, 0.0, 0.25), start="ground")
    mechanism = lie_jax.Mechanism(line.nodes, forces=line.elements)
    return Entry(
        "An element of a geometrically exact beam; here eight, clamped to a wall",
        line.elements[0], mechanism, WALL, seconds=0.16,
    )  # fmt: skip


def _friction() -> Entry:
    hinge = lie_jax.RevoluteJoint(*PAIR, axis=Y, child_point=FOOT)
    force = lie_jax.ViscousFriction(*PAIR, 0.25)
    rod = _leaning(turn(Y, _LEAN), FOOT, 8.0)
    return Entry(
        "Friction that grows with the rate between two bodies",
        force, lie_jax.Mechanism([rod], [hinge], [force], WEIGHTLESS), STAND, seconds=0.9,
    )  # fmt: skip


def _in_hinges() -> list[Entry]:
    hinge = lie_jax.RevoluteJoint(*PAIR, axis=Y, child_point=FOOT)
    law = lie_jax.contact.HuntCrossley(50.0, 1.0)
    cases = (
        (
            "A spring and damper along a coordinate of a joint; here about a hinge",
            lie_jax.JointSpring(hinge, stiffness=2.0), _LEAN, 0.0, 0.5,
        ),
        (
            "Stops at the ends of the range of a joint's coordinate; here a hinge's",
            lie_jax.JointStop(hinge, lower=-0.5, upper=0.5, law=law), -0.45, 4.0, 0.45,
        ),
    )  # fmt: skip
    return [
        Entry(
            sentence, force,
            lie_jax.Mechanism(
                [_leaning(turn(Y, angle), FOOT, rate)], [hinge], [force], WEIGHTLESS
            ),
            STAND, seconds=seconds,
        )
        for sentence, force, angle, rate, seconds in cases
    ]  # fmt: skip


def _in_sliders() -> list[Entry]:
    slider = lie_jax.PrismaticJoint(*PAIR, axis=X, child_point=UNDER)
    servo = lie_jax.JointController(slider, reference=0.25, proportional=40.0, derivative=6.0)
    cases = (
        (
            "A controller that moves a coordinate of a joint to a reference; here a slider's",
            servo, 0.0, 0.6,
        ),
        (
            "A motor along a coordinate of a joint, by an input; here a slider's",
            lie_jax.JointMotor(slider, input=0), 0.0, 0.7,
        ),
        (
            "Dry friction along a coordinate of a joint; here a slider's",
            lie_jax.JointFriction(slider, limit=2.0), 1.5, 0.7,
        ),
    )  # fmt: skip
    return [
        Entry(
            sentence, force,
            lie_jax.Mechanism(
                [body(BRICK, (-0.3, 0.0, _LOW), velocity=speed * X)], [slider], [force]
            ),
            RAIL, seconds=seconds,
            inputs=(2.0,) if isinstance(force, lie_jax.JointMotor) else (),
        )
        for sentence, force, speed, seconds in cases
    ]  # fmt: skip


def _tendons() -> list[Entry]:
    size, foot = (0.07, 0.07, 0.26), (0.0, 0.0, -0.15)
    rods = [body(size, (x, 0.0, 0.15), name) for name, x in (("left", -0.25), ("right", 0.25))]
    hinges = [
        lie_jax.RevoluteJoint("ground", name, Y, (x, 0.0, 0.0), foot)
        for name, x in (("left", -0.25), ("right", 0.25))
    ]
    pull = lie_jax.CouplingForce(hinges, [1.0, -1.0], stiffness=1.0, relaxed=(1.4, 1.4))
    line = [("ground", (-0.45, 0.0, 0.3)), ("left", (0.0, 0.0, 0.13)), ("right", (0.0, 0.0, 0.13))]
    cable = lie_jax.PathForce(line, stiffness=40.0, relaxed=(0.0, 0.5))
    return [
        Entry(
            "A spring, a damper and an input along a combination of the coordinates of joints",
            pull, lie_jax.Mechanism(rods, hinges, [pull], WEIGHTLESS), RAIL, seconds=0.25,
        ),
        Entry(
            "A spring, a damper and an input along a line through points of bodies: a cable",
            cable, lie_jax.Mechanism(rods, hinges, [cable], WEIGHTLESS), RAIL, seconds=0.2,
        ),
    ]  # fmt: skip


def _contact() -> Entry:
    radius = 0.08
    ball = lie_jax.Body(
        "body", 1.0, solids.sphere(1.0, radius), position=(-0.3, 0.0, 0.33),
        velocity=(1.0, 0.0, 0.0),
    )  # fmt: skip
    touch = lie_jax.contact.Contact(
        contact.Sphere("body", radius), contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(2e4, 1.0), lie_jax.contact.Coulomb(0.5),
    )  # fmt: skip
    return Entry(
        "Contact of two shapes, with friction; here a ball bounces",
        touch, lie_jax.Mechanism([ball], forces=[touch]), SLAB, seconds=0.5,
    )  # fmt: skip
