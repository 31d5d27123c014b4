"""Joints of the gallery."""

from typing import Any

import jax.numpy as jnp
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
    WEIGHTLESS,
    Entry,
    X,
    Y,
    Z,
    block,
    body,
    turn,
)
from lie_jax import solids


def entries() -> list[Entry]:
    """All joints."""
    return [*_pairs(), _distance(), *_drivers(), _coupling(), _rolling(), _gears()]


def _moved(sentence: str, joint: Any, size: Any, ground: Any, *values: Any) -> Entry:
    """Poses by the joint's coordinates."""
    mechanism = lie_jax.Mechanism([body(size)], [joint])
    places = tuple(lie_jax.place(mechanism, {PAIR: value}) for value in values)
    return Entry(sentence, joint, mechanism, ground, places)


def _pairs() -> list[Entry]:
    tilted = turn(X, 0.6), turn(Y, -0.9), turn((0.6, 0.8, 0.0), 0.8), turn(X, 0.0)
    sides = block((0.1, 0.1, 0.1), (-0.42, 0.0, 0.0)), block((0.1, 0.1, 0.1), (0.42, 0.0, 0.0))
    weld = lie_jax.RigidJoint(*PAIR, child_point=(0.0, 0.0, -0.155))
    slot = ("y", "z", "rotation_x", "rotation_z")
    return [
        _moved(
            "Holds a point of the child at a point of the parent: a ball joint",
            lie_jax.SphericalJoint(*PAIR, child_point=FOOT), ROD, STAND, *tilted,
        ),
        _moved(
            "Leaves the turn about an axis: a hinge",
            lie_jax.RevoluteJoint(*PAIR, axis=Y, child_point=FOOT), ROD, STAND,
            -1.1, -0.55, 0.55, 0.0,
        ),
        _moved(
            "Leaves turns about the two arms of a cross: a Cardan joint",
            lie_jax.UniversalJoint(*PAIR, axis=X, child_axis=Y, child_point=FOOT), ROD, STAND,
            (0.7, 0.0), (0.0, -0.9), (-0.5, 0.6), (0.0, 0.0),
        ),
        _moved(
            "Leaves the distance along an axis: a slider",
            lie_jax.PrismaticJoint(*PAIR, axis=X, child_point=UNDER), BRICK, RAIL, -0.3, 0.3, 0.0,
        ),
        _moved(
            "Leaves the turn about an axis and the distance along it: a shaft in a sleeve",
            lie_jax.CylindricalJoint(*PAIR, axis=X), (0.05, 0.3, 0.1), sides,
            (-0.9, -0.22), (0.9, 0.22), (0.0, 0.0),
        ),
        _moved(
            "Leaves two distances in a plane and the turn on it",
            lie_jax.PlanarJoint(*PAIR, normal=Z, child_point=UNDER), BRICK, SLAB,
            (-0.26, -0.1, -0.7), (0.24, 0.16, 0.9), (0.0, 0.0, 0.0),
        ),
        Entry(
            "Leaves nothing: a weld",
            weld, lie_jax.Mechanism([body(ROD, (0.0, 0.0, 0.155))], [weld]), STAND,
        ),
        _moved(
            "Holds any of three translations and three rotations; here a pin slides and turns "
            "in a slot",
            lie_jax.GenericJoint(*PAIR, held=slot, child_point=FOOT), ROD, RAIL,
            (-0.28, -0.5), (0.28, 0.5), (0.0, 0.0),
        ),
    ]  # fmt: skip


def _distance() -> Entry:
    top, end = np.asarray([0.0, 0.0, 0.35]), np.asarray([-0.29, 0.0, 0.2])
    length = float(np.linalg.norm(end - top))
    rod = lie_jax.DistanceJoint(*PAIR, length, parent_point=top, child_point=(0.0, 0.0, 0.06))
    mechanism = lie_jax.Mechanism([body(BRICK, end - [0.0, 0.0, 0.06])], [rod])
    return Entry(
        "Keeps the distance of two points: a massless rod with balls at its ends",
        rod, mechanism, CEILING, seconds=0.55,
    )  # fmt: skip


def _drivers() -> list[Entry]:
    hinge = lie_jax.RevoluteJoint(*PAIR, axis=Y, child_point=FOOT)
    angle = lie_jax.JointDriver(hinge, value=lambda t: -0.9 + 0.9 * t)
    path = lie_jax.CoordinateJoint(
        *PAIR, ("x", "z", "rotation_y"),
        lambda t: jnp.stack([0.3 * t - 0.3, 0.08 + 0.5 * t - 0.25 * t**2, 0.8 * t - 0.8]),
        child_point=UNDER,
    )  # fmt: skip
    driven = (
        (
            "Moves a coordinate of a joint by a function of the time; here it turns a hinge",
            angle, [hinge, angle], ROD, 0.23, STAND,
        ),
        (
            "Holds or moves chosen coordinates of a body; here two of its place and one of its "
            "orientation",
            path, [path], BRICK, 0.2, SLAB,
        ),
    )  # fmt: skip
    return [
        Entry(
            sentence, element, _weightless([body(size, (0.0, 0.0, height))], joints), ground,
            seconds=1.7,
        )
        for sentence, element, joints, size, height, ground in driven
    ]  # fmt: skip


def _weightless(bodies: Any, joints: Any) -> lie_jax.Mechanism:
    return lie_jax.Mechanism(bodies, joints, gravity=WEIGHTLESS)


def _coupling() -> Entry:
    wheel, rack = body((0.04, 0.05, 0.3), name="lever"), body((0.36, 0.05, 0.06), name="rack")
    hinge = lie_jax.RevoluteJoint("ground", "lever", Y, (0.0, 0.0, 0.25), (0.0, 0.0, 0.0))
    slider = lie_jax.PrismaticJoint("ground", "rack", X, child_point=(0.0, 0.0, -0.045))
    coupling = lie_jax.CouplingJoint(slider, hinge, [0.0, -0.2])
    mechanism = lie_jax.Mechanism([wheel, rack], [hinge, slider, coupling])
    places = tuple(
        lie_jax.place(mechanism, {("ground", "lever"): angle}) for angle in (-1.1, 1.1, 0.0)
    )
    return Entry(
        "Makes a coordinate of a joint a polynomial of that of another one",
        coupling, mechanism, RAIL, places,
    )  # fmt: skip


def _rolling() -> Entry:
    radius = 0.12
    disc = lie_jax.RollingDisc(*PAIR, radius, child_axis=Y)
    wheel = lie_jax.Body(
        "body", 1.0, solids.cylinder(1.0, radius, 0.03, axis=Y), position=(-0.3, -0.05, radius),
        orientation=turn(X, -0.1), velocity=(0.7, 0.0, 0.0), omega_body=(0.0, 6.0, 0.0),
    )  # fmt: skip
    return Entry(
        "A disc rolls on a plane without slip",
        disc, lie_jax.Mechanism([wheel], [disc]), SLAB, seconds=0.75,
    )  # fmt: skip


def _gears() -> Entry:
    bars = [
        body((0.34, 0.06, 0.05), (-0.22, 0.0, 0.075), name="slow", omega_body=1.0 * Z),
        body((0.22, 0.06, 0.05), (0.22, 0.0, 0.075), name="fast", omega_body=-2.0 * Z),
    ]
    hinges = [
        lie_jax.RevoluteJoint("ground", name, Z, (x, 0.0, 0.0), UNDER)
        for name, x in (("slow", -0.22), ("fast", 0.22))
    ]
    gears = lie_jax.GearJoint("slow", "fast", Z, Z, -2.0)
    return Entry(
        "Keeps the ratio of the rates of two hinges: a pair of gears",
        gears, _weightless(bars, [*hinges, gears]), RAIL, seconds=0.6,
    )  # fmt: skip
