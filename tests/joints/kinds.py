"""Joints with position constraints of two bodies, with numbers drawn at random."""

import dataclasses

import jax.numpy as jnp

import lie_jax
from tests import mechanisms

KINDS = {
    lie_jax.SphericalJoint: 3,
    lie_jax.RevoluteJoint: 5,
    lie_jax.PrismaticJoint: 5,
    lie_jax.RigidJoint: 6,
    lie_jax.UniversalJoint: 4,
    lie_jax.CylindricalJoint: 4,
    lie_jax.PlanarJoint: 3,
    lie_jax.DistanceJoint: 1,
    lie_jax.CoordinateJoint: 3,
    lie_jax.GenericJoint: 2,
}


def driven(t):
    """An angle that changes with the time (rad)."""
    return 0.4 + 2.0 * t + jnp.sin(3.0 * t)


def moved(t):
    """A height (m) and two angles (rad) that change with the time."""
    return jnp.stack([driven(t), 0.2 + jnp.sin(t), 0.5 * jnp.cos(2.0 * t)])


def joint_of(kind, parent, child, rng):
    """A joint of this kind."""
    numbers = {
        "parent_point": rng.normal(size=3),
        "child_point": rng.normal(size=3),
        "orientation": mechanisms.quaternion(rng.normal(size=3)),
        "parent_orientation": mechanisms.quaternion(rng.normal(size=3)),
        "held": ("y", "rotation_z"),
        "axis": rng.normal(size=3),
        "child_axis": rng.normal(size=3),
        "normal": rng.normal(size=3),
        "length": rng.uniform(0.5, 2.0),
        # Between the arms of a cross (rad).
        "angle": rng.uniform(0.8, 1.4),
        "coordinates": ("y", "rotation_x", "rotation_z"),
        "values": moved,
    }
    fields = [field.name for field in dataclasses.fields(kind)]
    return kind(parent, child, **{name: numbers[name] for name in numbers if name in fields})


def drivers_of(joints):
    """Drivers of the angle and of the distance of the cylindrical joint among these."""
    shaft = next(joint for joint in joints if type(joint) is lie_jax.CylindricalJoint)
    return [lie_jax.JointDriver(shaft, k, value=driven) for k in range(2)]
