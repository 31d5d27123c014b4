"""Parts of random mechanisms: kinds, sizes, motions, laws and places in the world's frame.

A mechanism is drawn in lengths, masses and times of order one, joints and forces at places in
space; the numbers of its elements in the frames of their bodies follow from there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import lie_jax

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
# Coordinates that a `GenericJoint` holds, by an element's variant.
HELD = (
    ("x", "y", "z"),
    ("x", "y", "z", "rotation_x", "rotation_y"),
    ("z", "rotation_x", "rotation_y"),
    ("x", "z"),
    ("y", "rotation_x", "rotation_y", "rotation_z"),
    ("rotation_x", "rotation_y"),
    ("x", "y", "z", "rotation_z"),
    ("rotation_z",),
)
PAIR_FORCES = (
    lie_jax.LinearSpringDamper,
    lie_jax.CartesianSpringDamper,
    lie_jax.Bushing,
    lie_jax.ViscousFriction,
)
# Those with a potential, when nothing damps them.
SPRINGS = (
    lie_jax.LinearSpringDamper,
    lie_jax.CartesianSpringDamper,
    lie_jax.Bushing,
    lie_jax.JointSpring,
    lie_jax.JointStop,
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


class Along(NamedTuple):
    """A coordinate of a joint: its value (rad or m), and the row (bodies, 6) of its rate."""

    value: float
    row: np.ndarray
    is_angle: bool

    def rate(self, w: Motion) -> float:
        """Along velocities of origins and angular velocities."""
        return np.sum(self.row * np.concatenate([w.linear, w.omega], axis=1)[:-1])

    def unit(self, size: Size) -> float:
        """A radian, or the unit of length."""
        return 1.0 if self.is_angle else size.length


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
        scaled, scale = self.scaled()
        x = flat.reshape(-1) / scale
        return ((x - np.linalg.pinv(scaled) @ (scaled @ x)) * scale).reshape(flat.shape)

    def scaled(self):
        scale = np.tile([self.size.length] * 3 + [1.0] * 3, len(self.order))
        rows = self.rows.reshape(len(self.rows), scale.size) * scale
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300), scale


class Space:
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


def quaternion(matrix):
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True)


def about(axis, angle):
    return Rotation.from_rotvec(np.asarray(axis) * angle).as_matrix()


def name_of(body):
    return "ground" if body == GROUND else f"body {body}"
