"""Robots: terms of the equations of motion by name, momentum, frames, inverse kinematics.

`system` is a mechanism in some formulation, `q` (nq,) its configuration, `v` (nv,) its velocity and
`acceleration` (nv,) the rate v̇. Kinetic and potential energy and the mass matrix are methods of
the system.
"""

from lie_jax.robotics.dynamics import (
    bias_force,
    coriolis_matrix,
    gravity_force,
    inverse_dynamics,
    operational_inertia,
)
from lie_jax.robotics.frames import Frame
from lie_jax.robotics.inverse_kinematics import (
    InverseKinematics,
    InverseKinematicsError,
    inverse_kinematics,
)
from lie_jax.robotics.joint_state import joint_state
from lie_jax.robotics.momentum import (
    center_of_mass,
    center_of_mass_jacobian,
    centroidal_momentum,
    centroidal_momentum_matrix,
)
from lie_jax.robotics.regressor import inertial_parameters, torque_regressor
from lie_jax.robotics.standing import stand

__all__ = [
    "Frame",
    "InverseKinematics",
    "InverseKinematicsError",
    "bias_force",
    "center_of_mass",
    "center_of_mass_jacobian",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "coriolis_matrix",
    "gravity_force",
    "inertial_parameters",
    "inverse_dynamics",
    "inverse_kinematics",
    "joint_state",
    "operational_inertia",
    "stand",
    "torque_regressor",
]
