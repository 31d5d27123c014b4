"""Random mechanisms with the laws of their joints and forces, in NumPy and in the world's frame.

A mechanism is drawn in lengths, masses and times of order one, joints and forces at places in
space; what its elements hold in the frames of their bodies follows from there. `draw` takes it to
any size and place, and lists its bodies in any order: the motion is the same. The laws are written
once more here, from the documentation of the elements: the velocities that joints forbid, the power
of forces along any velocities, and potential energies.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import lie_jax
from tests.mechanisms import inertia

GROUND = -1
# Largest angle (rad) of a joint or spring from its orientation on: differences of two stay within
# half a turn, so that every way to count turns gives the same angle.
LARGEST_ANGLE = 1.5
TREE_JOINTS = (
    lie_jax.SphericalJoint,
    lie_jax.RevoluteJoint,
    lie_jax.PrismaticJoint,
    lie_jax.CylindricalJoint,
    lie_jax.UniversalJoint,
    lie_jax.PlanarJoint,
    lie_jax.RigidJoint,
)
LOOP_JOINTS = (
    lie_jax.DistanceJoint,
    lie_jax.DistanceJoint,
    lie_jax.SphericalJoint,
    lie_jax.CylindricalJoint,
    lie_jax.UniversalJoint,
    lie_jax.PlanarJoint,
    lie_jax.RevoluteJoint,
    lie_jax.RollingDisc,
)
HINGES = (lie_jax.RevoluteJoint, lie_jax.CylindricalJoint)
PAIR_FORCES = (
    lie_jax.LinearSpringDamper,
    lie_jax.CartesianSpringDamper,
    lie_jax.Bushing,
    lie_jax.ViscousFriction,
    lie_jax.RevoluteMotor,
    lie_jax.PrismaticMotor,
    lie_jax.PrismaticPDController,
)
HINGE_FORCES = (lie_jax.TorsionalSpringDamper, lie_jax.PDController)
# Those with a potential, when nothing damps them.
SPRINGS = (
    lie_jax.LinearSpringDamper,
    lie_jax.CartesianSpringDamper,
    lie_jax.Bushing,
    lie_jax.TorsionalSpringDamper,
)
LOADS = (lie_jax.PointForce, lie_jax.Torque)


class Size(NamedTuple):
    """Units of length (m), mass (kg) and time (s) of a mechanism."""

    length: float = 1.0
    mass: float = 1.0
    time: float = 1.0


class Element(NamedTuple):
    """An element before it has numbers: parent and child by number, or the number of a joint.

    `variant` chooses among the forms that compile differently.
    """

    kind: type
    parent: int
    child: int
    variant: int = 0
    joint: int | None = None


class Structure(NamedTuple):
    """What bodies a mechanism has and what connects them, without numbers."""

    seed: int
    bodies: int
    joints: tuple[Element, ...]
    forces: tuple[Element, ...]
    is_tree: bool
    redundant: bool
    rheonomic: bool
    damped: bool = True

    def conservative(self) -> "Structure":
        """With springs alone, and nothing that damps them."""
        springs = tuple(own for own in self.forces if own.kind in SPRINGS)
        return self._replace(forces=springs, damped=False)

    @property
    def size(self) -> Size:
        """Lengths from a millimetre to a kilometre, densities and times to match."""
        rng = np.random.default_rng([self.seed, 1])
        length = 10.0 ** rng.uniform(-3.0, 3.0)
        mass = length**3 * 10.0 ** rng.uniform(-1.0, 1.0)
        return Size(length, mass, length**0.5 * 10.0 ** rng.uniform(-0.5, 0.5))


class Signal(eqx.Module):
    """A value that oscillates with the time."""

    offset: Any
    amplitude: Any
    frequency: Any

    def __call__(self, t):
        return self.offset + self.amplitude * jnp.sin(self.frequency * t + 1.0)

    @property
    def start(self) -> tuple[Any, Any]:
        """Value and rate at time zero."""
        return self.offset + self.amplitude * np.sin(1.0), self.amplitude * self.frequency * np.cos(
            1.0
        )


class Motion(NamedTuple):
    """Velocities of all bodies, the ground last, in inertial components."""

    positions: np.ndarray
    linear: np.ndarray
    omega: np.ndarray

    def at(self, body: int, place: np.ndarray) -> np.ndarray:
        """Velocity of the body's material at a place."""
        return self.linear[body] + np.cross(self.omega[body], place - self.positions[body])


def motion(positions: np.ndarray, flat: np.ndarray) -> Motion:
    """From velocities (bodies, 6) of origins and angular velocities, inertial components."""
    own = np.concatenate([flat.reshape(-1, 6), np.zeros((1, 6))])
    return Motion(positions, own[:, :3], own[:, 3:])


class Law(NamedTuple):
    """A force: power (W) along velocities w at velocities v, without the potential (J)'s."""

    power: Callable[[Motion, Motion], float]
    potential: float


class Drawn(NamedTuple):
    """A mechanism with numbers, in SI units.

    `rows` (k, bodies, 6): the velocities that joints forbid, with `rates` (k,) that drivers ask
    for; `velocities` (bodies, 6) of origins and angular velocities, inertial.
    """

    mechanism: lie_jax.Mechanism
    order: np.ndarray
    rotations: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    rows: np.ndarray
    rates: np.ndarray
    laws: tuple[Law, ...]
    inputs: np.ndarray
    size: Size

    def potential(self) -> float:
        """Potential energy (J) of gravity and of all forces."""
        gravity, total = np.asarray(self.mechanism.gravity), 0.0
        for body, number in zip(self.mechanism.bodies, self.order, strict=True):
            arm = self.rotations[number] @ np.asarray(body.center_of_mass)
            total -= float(body.mass) * (gravity @ (self.positions[number] + arm))
        return total + sum(law.potential for law in self.laws)

    def unlike(self, rng) -> np.ndarray:
        """Random velocities (bodies, 6), whatever joints forbid."""
        units = np.asarray([self.size.length] * 3 + [1.0] * 3) / self.size.time
        return rng.normal(size=self.velocities.shape) * units

    def admissible(self, flat: np.ndarray) -> np.ndarray:
        """The velocities (bodies, 6) nearest to these that no joint forbids and none asks for."""
        scaled, scale = self._scaled()
        x = flat.reshape(-1) / scale
        return ((x - np.linalg.pinv(scaled) @ (scaled @ x)) * scale).reshape(flat.shape)

    def _scaled(self):
        scale = np.tile([self.size.length] * 3 + [1.0] * 3, len(self.order))
        rows = self.rows.reshape(len(self.rows), scale.size) * scale
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300), scale


class _Space:
    """Poses of the bodies, the ground last, and the way from where they are drawn to world."""

    def __init__(self, rng, bodies: int, size: Size, turn: np.ndarray, shift: np.ndarray):
        self.size, self.turn, self.shift = size, turn, shift
        # Away from the singularities of Tait-Bryan angles.
        angles = rng.uniform((-3.0, -1.0, -3.0), (3.0, 1.0, 3.0), (bodies, 3))
        drawn = Rotation.from_euler("XYZ", angles).as_matrix()
        self.drawn = rng.normal(size=(bodies, 3)) + 1.5 * np.arange(bodies)[:, None] * [1, 0, 0]
        self.rotations = np.concatenate([turn @ drawn, np.eye(3)[None]])
        self.positions = np.concatenate([[self.place(p) for p in self.drawn], np.zeros((1, 3))])

    def place(self, x):
        return self.size.length * (self.turn @ x) + self.shift

    def middle(self, rng, parent, child):
        """A random place about the middle of two bodies, or near the one that is not ground."""
        ends = [self.drawn[i] for i in (parent, child) if i != GROUND]
        return self.place(np.mean(ends, axis=0) + 0.7 * rng.normal(size=3))

    def direction(self, rng):
        x = rng.normal(size=3)
        return self.turn @ (x / np.linalg.norm(x))

    def point(self, body, place):
        return self.rotations[body].T @ (place - self.positions[body])

    def axis(self, body, direction):
        return self.rotations[body].T @ direction

    def relative(self, parent, child):
        return self.rotations[parent].T @ self.rotations[child]


def rotation(rng) -> np.ndarray:
    """A random rotation matrix (3, 3)."""
    return Rotation.random(rng=rng).as_matrix()


def _quaternion(matrix):
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True)


def _about(axis, angle):
    return Rotation.from_rotvec(np.asarray(axis) * angle).as_matrix()


def _name(body):
    return "ground" if body == GROUND else f"body {body}"


class _Joint(NamedTuple):
    joint: Any
    rows: list[np.ndarray]
    rates: list[float]
    axis: np.ndarray | None
    place: np.ndarray


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


def _draw_joint(rng, space: _Space, element: Element, before: list[_Joint]) -> _Joint:
    kind, parent, child = element.kind, element.parent, element.child
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
    names = _name(parent), _name(child)
    numbers: dict[str, Any] = {}
    own = space.axis(parent, a)
    home = relative
    if kind in (*HINGES, lie_jax.PlanarJoint):
        home = _about(own, -angle) @ relative
    if kind is lie_jax.UniversalJoint:
        numbers["child_axis"] = space.axis(child, across)
        home = _about(own, -angle) @ relative @ _about(numbers["child_axis"], -other)
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
        joint = kind(*names, own, wanted, orientation=_quaternion(_about(own, -angle) @ relative))
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
        numbers["orientation"] = _quaternion(home)
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
    return _Joint(kind(*names, **numbers), rows, [0.0] * len(rows), a, x)


def _hinges_on_ground(before, parent, child):
    ends = [{own.joint.parent, own.joint.child} for own in before]
    return [
        next(
            k
            for k, pair in enumerate(ends)
            if pair == {_name(body), "ground"} and type(before[k].joint) is lie_jax.RevoluteJoint
        )
        for body in (parent, child)
    ]


def _draw_force(
    rng, space: _Space, element: Element, joints: list[_Joint], inputs: np.ndarray, damped: bool
) -> tuple[Any, Law]:
    kind, parent, child = element.kind, element.parent, element.child
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
    names, number = (_name(parent), _name(child)), element.variant % 2
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
        own = kind(*names, pulls, turns, drags, brakes, orientation=_quaternion(home), **points)
        e, frame = space.axis(parent, apart), space.rotations[parent]

        def dissipated(v, w):
            linear = (frame.T @ passing(v)) @ drags @ (frame.T @ passing(w))
            return -linear - (frame.T @ turning(v)) @ brakes @ (frame.T @ turning(w))

        return own, Law(dissipated, 0.5 * (e @ pulls @ e + theta @ turns @ theta))
    if kind in HINGE_FORCES:
        home = _quaternion(_about(own, -angle) @ relative)
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
        return kind(_name(body), load, **options), Law(
            lambda v, w: strength() * (inertial @ w.omega[body]), 0.0
        )
    own = kind(_name(body), load, space.point(body, place), **options)
    if constant and frame == "world" and not driven:
        return own, Law(lambda v, w: 0.0, -inertial @ place)
    return own, Law(lambda v, w: strength() * (inertial @ w.at(body, place)), 0.0)


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
    space = _Space(rng, n, size, turn, np.asarray(shift) * length)
    joints: list[_Joint] = []
    for element in structure.joints:
        joints.append(_draw_joint(rng, space, element, joints))
    inputs = np.zeros(4)
    forces = [
        _draw_force(rng, space, element, joints, inputs, structure.damped)
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
        scaled, scale = drawn._scaled()
        lengths = np.linalg.norm(rows.reshape(len(rows), -1) * scale, axis=1)
        asked = np.linalg.pinv(scaled) @ (rates / lengths) * scale
        velocities = velocities + asked.reshape(n, 6)
    bodies = [
        lie_jax.Body(
            _name(k),
            masses[k],
            inertias[k],
            centers[k],
            space.positions[k],
            _quaternion(space.rotations[k]),
            velocities[k, :3],
            space.rotations[k].T @ velocities[k, 3:],
        )
        for k in order
    ]
    mechanism = lie_jax.Mechanism(
        bodies, [own.joint for own in joints], [own for own, _ in forces], gravity
    )
    return drawn._replace(mechanism=mechanism, velocities=velocities)


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
    hinges = [k for k, own in enumerate(base.joints) if own.kind in HINGES]
    if hinges and rng.uniform() < 0.15:
        driven = base.joints[k := int(rng.choice(hinges))]
        more = _with_joint(
            base, Element(lie_jax.RevoluteDriver, driven.parent, driven.child, joint=k)
        )
        base = more._replace(rheonomic=more is not base)
    doors = [k for k in hinges if base.joints[k].kind is lie_jax.RevoluteJoint]
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
    values = np.linalg.svd(drawn._scaled()[0], compute_uv=False)
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
    hinges = [k for k, own in enumerate(base.joints) if own.kind in HINGES]
    variant = int(rng.integers(0, 8))
    choice = rng.uniform()
    if choice < 0.25:
        kind = LOADS[rng.integers(2)]
        return Element(kind, GROUND, int(rng.integers(0, base.bodies)), variant)
    if hinges and choice < 0.5:
        joint = int(rng.choice(hinges))
        ends = base.joints[joint].parent, base.joints[joint].child
        ends = ends if variant % 2 else ends[::-1]
        return Element(HINGE_FORCES[rng.integers(2)], *ends, variant, joint)
    kind = PAIR_FORCES[rng.integers(len(PAIR_FORCES))]
    return Element(kind, *_random_pair(rng, base.bodies), variant)
