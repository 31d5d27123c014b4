"""Mechanisms with closed loops, as plain numbers that other simulators read, too.

Frames of bodies lie at their centres of mass. Andrews' squeezer and the four-bar linkages are those
of `models.squeezer` and `models.four_bars`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

import lie_jax
from models import four_bars as row
from models import placement
from models import squeezer as andrews

X, Y, Z = np.eye(3)


class Link(NamedTuple):
    """A body: mass, moments of inertia, place of its centre and rotation, velocities there."""

    name: str
    mass: float
    inertia: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    omega_body: np.ndarray


class Tie(NamedTuple):
    """A joint at an inertial point; `closes` a plane loop whose other joints hold the plane.

    Kinds: "hinge" about `axis`, "slide" along it, "universal" about it on the parent and `second`
    on the child, and "ball". Axes are inertial ones at the start.
    """

    kind: str
    parent: str
    child: str
    point: np.ndarray
    axis: np.ndarray = Z
    second: np.ndarray = X
    closes: bool = False


class Spring(NamedTuple):
    """A spring without damping between inertial points of two bodies at the start."""

    parent: str
    child: str
    points: tuple[np.ndarray, np.ndarray]
    stiffness: float
    length: float


class Loops(NamedTuple):
    """Bodies, joints, springs, a moment about z on the first body, and gravity."""

    links: list[Link]
    ties: list[Tie]
    springs: list[Spring]
    moment: float
    gravity: np.ndarray


def _turn(angle: float, axis: np.ndarray = Z) -> np.ndarray:
    return np.asarray(lie_jax.groups.so3.exp(jnp.asarray(angle * axis)))


def _links(
    names: Sequence[str], masses: ArrayLike, inertias: ArrayLike, start: placement.Motion
) -> list[Link]:
    """Bodies of a model from their moments of inertia (n, 3) and motion at the start."""
    rotations = jax.vmap(lie_jax.groups.quaternion.to_matrix)(start.orientation)
    motions = map(np.asarray, (start.position, rotations, start.velocity, start.omega_body))
    masses = np.broadcast_to(masses, len(names))
    inertias = np.broadcast_to(inertias, (len(names), 3))
    return [Link(*row) for row in zip(names, masses, inertias, *motions, strict=True)]


def _hinges(links: list[Link], joints: Sequence) -> list[Tie]:
    """Hinges about z of a model: parents, children, and places on them, of which the first counts.

    A hinge closes a loop if its child has one already.
    """
    placed: set[str] = set()
    ties = []
    for parent, child, point, _ in joints:
        place = _inertial(links, parent, point)
        ties.append(Tie("hinge", parent, child, place, closes=child in placed))
        placed.add(child)
    return ties


def _inertial(links: list[Link], body: str, point: tuple[float, ...]) -> np.ndarray:
    for link in links:
        if link.name == body:
            return link.position + link.rotation @ np.asarray(point)
    return np.asarray(point)


def squeezer() -> Loops:
    """Andrews' squeezing mechanism at rest, driven by a moment and a spring."""
    start = placement.motion(andrews.place, jnp.asarray(andrews.ANGLE), jnp.zeros(()))
    moments = np.asarray(andrews.INERTIAS)[:, None]
    links = _links(andrews.BODIES, andrews.MASSES, moments, start)
    ends = np.asarray(andrews.C), _inertial(links, "3", andrews.SPRING_END)
    spring = Spring("ground", "3", ends, andrews.STIFFNESS, andrews.RELAXED)
    return Loops(links, _hinges(links, andrews.JOINTS), [spring], andrews.TORQUE, np.zeros(3))


def four_bars(loops: int) -> Loops:
    """So many four-bar linkages in a row, of bars of 1 m and 1 kg, that start at 1 m/s."""
    start = placement.motion(
        lambda angle: row.place(angle, jnp.asarray(row.LENGTH), loops),
        jnp.asarray(row.ANGLE),
        jnp.asarray(row.RATE),
    )
    moments = np.asarray(row.inertia(row.MASS, row.LENGTH))
    links = _links(row.names(loops), row.MASS, moments, start)
    return Loops(links, _hinges(links, row.hinges(loops)), [], 0.0, np.asarray(row.GRAVITY))


def stewart() -> Loops:
    """A platform that falls onto the springs of six legs: universal, sliding and ball joints."""
    none, heights = np.zeros(3), (0.0, 0.8)
    feet = [
        1.0 * _turn(angle) @ X
        for angle in np.pi / 3.0 * np.arange(6) + 0.15 * (-1.0) ** np.arange(6)
    ]
    tops = [
        0.5 * _turn(angle) @ X + heights[1] * Z
        for angle in np.pi / 3.0 * np.arange(6) - 0.25 * (-1.0) ** np.arange(6)
    ]
    plate, legs = np.array([0.3, 0.3, 0.6]), np.array([0.001, 0.02, 0.02])
    center, spin = heights[1] * Z, 0.5 * Z
    platform = Link("platform", 4.0, plate, center, np.eye(3), none, spin)
    links, ties, springs = [], [], []
    for i, (foot, top) in enumerate(zip(feet, tops, strict=True)):
        length = float(np.linalg.norm(top - foot))
        along = (top - foot) / length
        first = np.cross(Z, along) / np.linalg.norm(np.cross(Z, along))
        rotation = np.stack([along, first, np.cross(along, first)], axis=1)
        # The leg follows the platform: it turns about its foot, and its upper part slides.
        speed = np.cross(spin, top - center)
        omega, sliding = np.cross(along, speed) / length, along * (along @ speed)
        for part, share, slide in (("lower", 0.25, none), ("upper", 0.75, sliding)):
            arm = share * length * along
            velocity, turning = np.cross(omega, arm) + slide, rotation.T @ omega
            links.append(Link(f"{part} {i}", 0.5, legs, foot + arm, rotation, velocity, turning))
        second = np.cross(along, first)
        ties.append(Tie("universal", "ground", f"lower {i}", foot, first, second))
        ties.append(Tie("slide", f"lower {i}", f"upper {i}", foot + 0.5 * length * along, along))
        ties.append(Tie("ball", f"upper {i}", "platform", top))
        springs.append(Spring(f"lower {i}", f"upper {i}", (foot, top), 2000.0, length))
    return Loops([*links, platform], ties, springs, 0.0, -9.81 * Z)


SHAPES = {
    "squeezer": squeezer,
    "four-bars-10": lambda: four_bars(10),
    "four-bars-40": lambda: four_bars(40),
    "stewart": stewart,
}


def local(loops: Loops, body: str, point: np.ndarray) -> np.ndarray:
    """The body-fixed place of an inertial point at the start."""
    for link in loops.links:
        if link.name == body:
            return link.rotation.T @ (point - link.position)
    return point


def turned(loops: Loops, body: str, axis: np.ndarray) -> np.ndarray:
    """The body-fixed direction of an inertial one at the start."""
    return local(loops, body, axis) - local(loops, body, np.zeros(3))


def model(name: str) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The mechanism in absolute coordinates, and its initial state."""
    return lie_jax.assemble(mechanism(name), lie_jax.R3SO3())


def mechanism(name: str) -> lie_jax.Mechanism:
    """The bodies, joints and forces of a shape."""
    loops = SHAPES[name]()
    bodies = [
        lie_jax.Body(
            link.name, link.mass, np.diag(link.inertia), position=link.position,
            orientation=lie_jax.groups.quaternion.from_matrix(jnp.asarray(link.rotation)),
            velocity=link.velocity, omega_body=link.omega_body,
        )
        for link in loops.links
    ]  # fmt: skip
    joints = [_joint(loops, tie) for tie in loops.ties]
    forces: list[lie_jax.extend.AbstractForce] = [
        lie_jax.LinearSpringDamper(
            spring.parent, spring.child, spring.stiffness, 0.0, spring.length,
            *(local(loops, *end) for end in zip(spring[:2], spring.points, strict=True)),
        )
        for spring in loops.springs
    ]  # fmt: skip
    forces.append(lie_jax.Torque(loops.links[0].name, loops.moment * Z))
    return lie_jax.Mechanism(bodies, joints, forces, loops.gravity)


def _joint(loops: Loops, tie: Tie) -> lie_jax.extend.AbstractJoint:
    ends = tie.parent, tie.child
    points = [local(loops, body, tie.point) for body in ends]
    axis, second = turned(loops, tie.parent, tie.axis), turned(loops, tie.child, tie.second)
    if tie.kind == "ball":
        return lie_jax.SphericalJoint(*ends, *points)
    if tie.kind == "universal":
        return lie_jax.UniversalJoint(*ends, axis, second, *points)
    kinds = {"hinge": lie_jax.RevoluteJoint, "slide": lie_jax.PrismaticJoint}
    return kinds[tie.kind](*ends, axis, *points)
