"""Small mechanisms that several tests share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax.multibody.absolute.algebra import AbsoluteAlgebra
from lie_jax.multibody.absolute.system import RigidBodySystem


class LooseGear(lie_jax.GearJoint):
    """Gear between any bodies, for checks of the algebra alone: it pushes at no carrier."""

    def objection(self, others):
        """None at all."""


def door(hinges):
    """A door on one hinge, or on two with the same axis: five constraints or ten of rank five."""
    places = [(0.0, 0.0, z) for z in ((0.0,) if hinges == 1 else (0.7, -0.7))]
    joints = [
        lie_jax.RevoluteJoint("ground", "door", (0.0, 0.0, 1.0), place, np.add(place, (-0.4, 0, 0)))
        for place in places
    ]
    body = lie_jax.Body("door", 3.0, np.diag([0.4, 0.6, 0.2]), position=(0.4, 0.0, 0.0))
    wind = lie_jax.PointForce("door", (0.3, 2.0, 0.0))
    return lie_jax.assemble(lie_jax.Mechanism([body], joints, [wind]), lie_jax.R3SO3())


def rolling_disc(formulation):
    """A thin disc on a slope, with its state, and the acceleration (m/s²) with which it rolls down.

    g sin(slope) / (1 + J / (m r²)) along the first axis.
    """
    mass, radius, slope = 2.0, 0.3, 0.4
    moment = 0.6 * mass * radius**2
    body = lie_jax.Body(
        "disc", mass, np.diag([moment / 2, moment, moment / 2]), position=(0.0, 0.0, radius)
    )
    joint = lie_jax.RollingDisc("ground", "disc", radius, (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    gravity = 9.81 * np.asarray([np.sin(slope), 0.0, -np.cos(slope)])
    mechanism = lie_jax.Mechanism([body], [joint], gravity=gravity)
    acceleration = 9.81 * np.sin(slope) / (1.0 + moment / (mass * radius**2))
    return *lie_jax.assemble(mechanism, formulation), acceleration


class _FullAlgebra(AbsoluteAlgebra):
    order = None


class _Full(RigidBodySystem):
    """The same system, solved by full matrices."""

    @property
    def algebra(self):
        return _FullAlgebra(self)


def with_full_matrices(system):
    """A system in absolute coordinates whose matrices are not solved in blocks."""
    return _Full(
        **{field.name: getattr(system, field.name) for field in dataclasses.fields(system)}
    )


def pushed(t):
    """A force that depends on time (N)."""
    return jnp.stack([jnp.sin(t), 2.0 * jnp.cos(3.0 * t), jnp.ones_like(t)])


def quaternion(rotation_vector) -> np.ndarray:
    """Unit quaternion of a rotation vector (rad), in NumPy."""
    return Rotation.from_rotvec(rotation_vector).as_quat(scalar_first=True)


def inertia(rng) -> np.ndarray:
    """A random physical inertia: that of a cloud of point masses."""
    points = rng.normal(size=(8, 3)) * 0.3
    return sum(np.dot(p, p) * np.eye(3) - np.outer(p, p) for p in points)


def random_body(name, rng, turn=1.0):
    """A general body at a random pose, in motion, turned by some `turn` radians."""
    return lie_jax.Body(
        name,
        rng.uniform(1, 3),
        inertia(rng),
        center_of_mass=rng.normal(size=3) * 0.3,
        position=rng.normal(size=3),
        orientation=quaternion(turn * rng.normal(size=3)),
        velocity=rng.normal(size=3),
        omega_body=rng.normal(size=3),
    )


def two_bodies(formulation, seed=1):
    """Two general bodies, two ball joints, friction, a driving and a constant force, gravity."""
    rng = np.random.default_rng(seed)
    mechanism = lie_jax.Mechanism(
        bodies=[random_body("upper", rng), random_body("lower", rng)],
        joints=[
            lie_jax.SphericalJoint("ground", "upper", (0.1, 0.2, 0.3), rng.normal(size=3)),
            lie_jax.SphericalJoint("upper", "lower", rng.normal(size=3), rng.normal(size=3)),
        ],
        forces=[
            lie_jax.ViscousFriction("upper", "lower", 0.7),
            lie_jax.PointForce("lower", pushed, point=(0.1, -0.2, 0.4)),
            lie_jax.PointForce("upper", (1.0, 2.0, -3.0), point=(0.3, 0.1, 0.0)),
        ],
    )
    return lie_jax.assemble(mechanism, formulation)


def ball_chain(formulation, omegas, mass=1.0, inertia=None, length=0.5):
    """Hanging links on ball joints, frames at the upper joint, centres of mass mid-link.

    `omegas` (n, 3) are the initial angular velocities of the links relative to the one above.
    """
    inertia = np.diag([0.021, 0.022, 0.002]) if inertia is None else inertia
    down = np.asarray([0.0, 0.0, -length])
    bodies, joints = [], []
    place, velocity, omega = np.zeros((3, 3))
    for i, relative in enumerate(np.asarray(omegas)):
        if i:
            velocity = velocity + np.cross(omega, down)
            place = place + down
        omega = omega + relative
        bodies.append(
            lie_jax.Body(
                f"link {i}",
                mass,
                inertia,
                center_of_mass=0.5 * down,
                position=place,
                velocity=velocity,
                omega_body=omega,
            )
        )
        joints.append(
            lie_jax.SphericalJoint(f"link {i - 1}", f"link {i}", parent_point=down)
            if i
            else lie_jax.SphericalJoint("ground", "link 0")
        )
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)


# Joints of a forest: kind, parent, child, as a user lists them. "ear" is the first body of its tree
# that is no child, so that it is a floating base, and the joints between leg and trunk and between
# toe and foot are listed backwards. "mast" and "boom" hang on the ground.
FOREST = (
    (lie_jax.RevoluteJoint, "trunk", "upper arm"),
    (lie_jax.SphericalJoint, "ground", "mast"),
    (lie_jax.SphericalJoint, "upper arm", "hand"),
    (lie_jax.PrismaticJoint, "leg", "trunk"),
    (lie_jax.RigidJoint, "leg", "foot"),
    (lie_jax.RevoluteJoint, "toe", "foot"),
    (lie_jax.PrismaticJoint, "mast", "boom"),
    (lie_jax.SphericalJoint, "ear", "trunk"),
)
BRANCH_BODIES = ("hand", "upper arm", "trunk", "leg")
FOREST_BODIES = ("foot", "hand", "mast", "upper arm", "ear", "boom", "trunk", "toe", "leg")


# A tree on the ground of joints with two and three numbers, in both directions.
COMPOUND = (
    (lie_jax.UniversalJoint, "ground", "mast"),
    (lie_jax.CylindricalJoint, "boom", "mast"),
    (lie_jax.PlanarJoint, "plate", "boom"),
    (lie_jax.RevoluteJoint, "mast", "arm"),
    (lie_jax.CylindricalJoint, "arm", "shaft"),
    (lie_jax.UniversalJoint, "wheel", "shaft"),
    (lie_jax.PlanarJoint, "ground", "sledge"),
)
COMPOUND_BODIES = ("wheel", "shaft", "sledge", "boom", "mast", "arm", "plate")


def forest(seed=5):
    """A mechanism with joints of one number and balls, in motion, and forces."""
    rng = np.random.default_rng(seed)
    forces = [
        lie_jax.ViscousFriction("upper arm", "hand", 0.7),
        lie_jax.PointForce("toe", pushed, point=(0.1, -0.2, 0.4)),
        lie_jax.PointForce("trunk", (1.0, 2.0, -3.0), point=(0.3, 0.1, 0.0)),
        lie_jax.ViscousFriction("ground", "mast", 0.3),
    ]
    return _grown(FOREST, FOREST_BODIES, forces, rng)


def branch(seed=5):
    """A hand on an arm on a trunk, which slides on a floating leg, in motion, and forces."""
    rng = np.random.default_rng(seed)
    forces = [
        lie_jax.ViscousFriction("upper arm", "hand", 0.7),
        lie_jax.PointForce("trunk", pushed, point=(0.1, -0.2, 0.4)),
    ]
    kinds = [kind for kind in FOREST if {*kind[1:]} <= {*BRANCH_BODIES}]
    return _grown(kinds, BRANCH_BODIES, forces, rng)


def compound_forest(seed=9):
    """A mechanism with joints of two and three numbers, in motion, and forces."""
    rng = np.random.default_rng(seed)
    forces = [
        lie_jax.ViscousFriction("mast", "plate", 0.7),
        lie_jax.PointForce("wheel", pushed, point=(0.1, -0.2, 0.4)),
        lie_jax.PointForce("sledge", (1.0, 2.0, -3.0), point=(0.3, 0.1, 0.0)),
    ]
    return _grown(COMPOUND, COMPOUND_BODIES, forces, rng)


def _grown(kinds, names, forces, rng):
    """Bodies that move as joints of these kinds allow; poses are found joint by joint."""
    joints, motions = [], {}
    for kind, parent, child in kinds:
        numbers = {"parent_point": rng.normal(size=3), "child_point": rng.normal(size=3)}
        if kind is not lie_jax.SphericalJoint:
            numbers["orientation"] = quaternion(rng.normal(size=3))
        if kind is lie_jax.PlanarJoint:
            numbers["normal"] = rng.normal(size=3)
        elif kind not in (lie_jax.SphericalJoint, lie_jax.RigidJoint):
            numbers["axis"] = rng.normal(size=3)
        if kind is lie_jax.UniversalJoint:
            across = np.cross(numbers["axis"], rng.normal(size=3))
            turn = Rotation.from_quat(numbers["orientation"], scalar_first=True)
            numbers["child_axis"] = turn.inv().apply(across)
        joint = kind(parent, child, **numbers)
        joints.append(joint)
        motions[parent, child] = _relative_motion(joint, rng)
    trunk_twist = rng.normal(size=6)
    trunk = np.eye(4)
    trunk[:3] = np.c_[Rotation.from_rotvec(rng.normal(size=3)).as_matrix(), np.arange(3.0)]

    def places(t):
        found = {"ground": jnp.eye(4)}
        if "trunk" in names:
            found["trunk"] = jnp.asarray(trunk) @ lie_jax.groups.se3.exp(t * trunk_twist)
        while len(found) <= len(names):
            for (parent, child), motion in motions.items():
                if parent in found:
                    found[child] = found[parent] @ motion(t)
                elif child in found:
                    found[parent] = found[child] @ lie_jax.groups.se3.inverse(motion(t))
        return found

    @jax.jit
    def motions_of_bodies():
        poses, rates = jax.jvp(places, (0.0,), (1.0,))
        return {
            name: {
                "position": pose[:3, 3],
                "orientation": lie_jax.groups.quaternion.from_matrix(pose[:3, :3]),
                "velocity": rates[name][:3, 3],
                "omega_body": lie_jax.groups.so3.vee(pose[:3, :3].T @ rates[name][:3, :3]),
            }
            for name, pose in poses.items()
        }

    start = jax.tree.map(np.asarray, motions_of_bodies())
    bodies = [
        lie_jax.Body(
            name,
            rng.uniform(1, 3),
            inertia(rng),
            center_of_mass=rng.normal(size=3) * 0.3,
            **start[name],
        )
        for name in names
    ]
    return lie_jax.Mechanism(bodies, joints, forces)


def _relative_motion(joint, rng):
    """Pose of the child in the parent's frame as a function of time, from the joint's docstring."""
    start, rate = rng.normal(size=(2, 3))

    def motion(t):
        home = jnp.eye(3)
        if not isinstance(joint, lie_jax.SphericalJoint):
            home = lie_jax.groups.quaternion.to_matrix(joint.orientation)
        rotation, along, x = home, jnp.zeros(3), start + t * rate
        if isinstance(joint, lie_jax.CylindricalJoint):
            rotation, along = lie_jax.groups.so3.exp(joint.axis * x[0]) @ home, joint.axis * x[1]
        if isinstance(joint, lie_jax.UniversalJoint):
            turn = lie_jax.groups.so3.exp(joint.axis * x[0]) @ home
            rotation = turn @ lie_jax.groups.so3.exp(joint.child_axis * x[1])
        if isinstance(joint, lie_jax.PlanarJoint):
            rotation = lie_jax.groups.so3.exp(joint.normal * (joint.normal @ x)) @ home
            along = jnp.cross(joint.normal, x)
        if isinstance(joint, lie_jax.RevoluteJoint):
            rotation = lie_jax.groups.so3.exp(joint.axis * (start[0] + t * rate[0])) @ home
        if isinstance(joint, lie_jax.PrismaticJoint):
            along = joint.axis * (start[0] + t * rate[0])
        if isinstance(joint, lie_jax.SphericalJoint):
            rotation = lie_jax.groups.so3.exp(start) @ lie_jax.groups.so3.exp(t * rate)
        return lie_jax.groups.se3.pose(
            rotation, joint.parent_point + along - rotation @ joint.child_point
        )

    return motion
