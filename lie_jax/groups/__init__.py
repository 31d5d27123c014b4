"""Lie groups as modules of pure functions on arrays, and sets of coordinates of rotations."""

from lie_jax.groups import (
    adjoint,
    euler_parameters,
    quaternion,
    rn,
    se3,
    so3,
    tait_bryan,
    unified_velocity,
)

__all__ = [
    "adjoint",
    "euler_parameters",
    "quaternion",
    "rn",
    "se3",
    "so3",
    "tait_bryan",
    "unified_velocity",
]
