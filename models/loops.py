"""Mechanisms with closed loops, as plain numbers that other simulators read, too.

Frames of bodies lie at their centres of mass. Andrews' squeezer has the numbers of the test set for
initial value problems (Mazzia and Magherini, Bari), where seven plane bodies are tied at ten
hinges; ours are bodies in space, so that nine of the hinges' fifty conditions are redundant.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import lie_jax

X, Y, Z = np.eye(3)


class Link(NamedTuple):
    """A body: mass, moments of inertia, place of its centre and rotation, velocities there."""

    name: str
    mass: float
    inertia: tuple[float, float, float]
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
    return np.asarray(lie_jax.so3.exp(jnp.asarray(angle * axis)))


def _plane(name: str, mass: float, moment: float, place: np.ndarray, angle: float) -> Link:
    none = np.zeros(3)
    return Link(name, mass, (moment, moment, moment), place, _turn(angle), none, none)


def squeezer() -> Loops:
    """Andrews' squeezing mechanism at rest, driven by a moment and a spring."""
    beta, theta, gamma = -0.0617138900142764496358948458001, 0.0, 0.455279819163070380255912382449
    phi, delta = 0.222668390165885884674473185609, 0.487364979543842550225598953530
    omega, epsilon = -0.222668390165885884674473185609, 1.23054744454982119249735015568
    a, b = np.array([-0.06934, -0.00227, 0.0]), np.array([-0.03635, 0.03273, 0.0])
    c = np.array([0.014, 0.072, 0.0])
    d, da, e, ea, rr, ra = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
    sa, sb, sc, sd = 0.01874, 0.01043, 0.018, 0.02
    ta, tb, u, ua, ub, zf, zt, fa = 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421

    def along(length, angle):
        return length * np.array([np.cos(angle), np.sin(angle), 0.0])

    def across(length, angle):
        return along(length, angle + 0.5 * np.pi)

    crank = along(rr, beta)
    knee = crank - along(d, beta + theta)
    elbows = a + along(zt, delta), a - across(u, epsilon)
    rows = (
        ("1", 0.04325, 2.194e-6, along(ra, beta), beta),
        ("2", 0.00365, 4.410e-7, crank - along(da, beta + theta), beta + theta),
        ("3", 0.02373, 5.255e-6, b - across(sa, gamma) + along(sb, gamma), gamma),
        ("4", 0.00706, 5.667e-7, elbows[0] - across(e - ea, phi + delta), phi + delta),
        ("5", 0.07050, 1.169e-5, a + along(ta, delta) + across(tb, delta), delta),
        ("6", 0.00706, 5.667e-7, elbows[1] + along(zf - fa, omega + epsilon), omega + epsilon),
        ("7", 0.05498, 1.912e-5, a - across(ua, epsilon) - along(ub, epsilon), epsilon),
    )
    links = [_plane(name, mass, i, at, angle) for name, mass, i, at, angle in rows]
    origin = np.zeros(3)
    ties = [
        Tie("hinge", "ground", "1", origin),
        Tie("hinge", "1", "2", crank),
        Tie("hinge", "ground", "3", b),
        Tie("hinge", "ground", "5", a),
        Tie("hinge", "5", "4", elbows[0]),
        Tie("hinge", "ground", "7", a),
        Tie("hinge", "7", "6", elbows[1]),
    ]
    ties += [Tie("hinge", "2", other, knee, closes=True) for other in "346"]
    end = b + along(sd, gamma) - across(sc, gamma)
    spring = Spring("ground", "3", (c, end), 4530.0, 0.07785)
    return Loops(links, ties, [spring], 0.033, np.zeros(3))


def four_bars(loops: int) -> Loops:
    """So many four-bar linkages in a row, of bars of 1 m and 1 kg, that start at 1 m/s."""
    none, links, ties = np.zeros(3), [], []
    inertia = (1e-3, 1.0 / 12.0, 1.0 / 12.0)
    for i in range(loops + 1):
        x, name = float(i), f"post {i}"
        links.append(
            Link(name, 1.0, inertia, np.array([x, 0.5, 0.0]), _turn(0.5 * np.pi), 0.5 * X, -Z)
        )
        ties.append(Tie("hinge", "ground", name, x * X))
        if i:
            beam = f"beam {i}"
            links.append(
                Link(beam, 1.0, inertia, np.array([x - 0.5, 1.0, 0.0]), np.eye(3), X, none)
            )
            ties.append(Tie("hinge", f"post {i - 1}", beam, np.array([x - 1.0, 1.0, 0.0])))
            ties.append(Tie("hinge", beam, name, np.array([x, 1.0, 0.0]), closes=True))
    return Loops(links, ties, [], 0.0, -9.81 * Y)


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
    platform = Link(
        "platform", 4.0, (0.3, 0.3, 0.6), heights[1] * Z, np.eye(3), none, np.array([0.0, 0.0, 0.5])
    )
    links, ties, springs = [], [], []
    for i, (foot, top) in enumerate(zip(feet, tops, strict=True)):
        length = float(np.linalg.norm(top - foot))
        along = (top - foot) / length
        first = np.cross(Z, along) / np.linalg.norm(np.cross(Z, along))
        rotation = np.stack([along, first, np.cross(along, first)], axis=1)
        for part, share in (("lower", 0.25), ("upper", 0.75)):
            place = foot + share * length * along
            links.append(Link(f"{part} {i}", 0.5, (0.001, 0.02, 0.02), place, rotation, none, none))
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


def model(name: str) -> tuple[lie_jax.AbstractMultibodySystem, lie_jax.State]:
    """The mechanism in absolute coordinates, and its initial state."""
    return lie_jax.assemble(mechanism(name), lie_jax.R3SO3())


def mechanism(name: str) -> lie_jax.Mechanism:
    """The bodies, joints and forces of a shape."""
    loops = SHAPES[name]()
    bodies = [
        lie_jax.Body(
            link.name, link.mass, np.diag(link.inertia), position=link.position,
            orientation=lie_jax.quaternion.from_matrix(jnp.asarray(link.rotation)),
            velocity=link.velocity, omega_body=link.omega_body,
        )
        for link in loops.links
    ]  # fmt: skip
    joints = [_joint(loops, tie) for tie in loops.ties]
    forces: list[lie_jax.AbstractForce] = [
        lie_jax.LinearSpringDamper(
            spring.parent, spring.child, spring.stiffness, 0.0, spring.length,
            *(local(loops, *end) for end in zip(spring[:2], spring.points, strict=True)),
        )
        for spring in loops.springs
    ]  # fmt: skip
    forces.append(lie_jax.Torque(loops.links[0].name, loops.moment * Z))
    return lie_jax.Mechanism(bodies, joints, forces, loops.gravity)


def _joint(loops: Loops, tie: Tie) -> lie_jax.AbstractJoint:
    ends = tie.parent, tie.child
    points = {
        f"{side}_point": local(loops, body, tie.point)
        for side, body in zip(("parent", "child"), ends, strict=True)
    }
    axis, second = turned(loops, tie.parent, tie.axis), turned(loops, tie.child, tie.second)
    if tie.kind == "ball":
        return lie_jax.SphericalJoint(*ends, **points)
    if tie.kind == "universal":
        return lie_jax.UniversalJoint(*ends, axis, second, **points)
    kinds = {"hinge": lie_jax.RevoluteJoint, "slide": lie_jax.PrismaticJoint}
    return kinds[tie.kind](*ends, axis, **points)
