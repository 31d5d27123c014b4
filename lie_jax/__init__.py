"""Differentiable simulation of multibody systems on Lie groups in JAX."""

import importlib
import typing
from types import ModuleType

from lie_jax import robotics
from lie_jax.config import cache_compilations, configure, configure_cpu, enable_x64
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
from lie_jax.groups.charts import AbstractChart
from lie_jax.identification import transforms
from lie_jax.identification.identify import Identification, identify
from lie_jax.identification.monte_carlo import MonteCarlo, monte_carlo
from lie_jax.identification.recordings import rows_at
from lie_jax.identification.statistics import Identifiability
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.integrators.bdf import BDF
from lie_jax.integrators.compositions import CommutatorFree, CrouchGrossman
from lie_jax.integrators.convex_contact import ConvexContact
from lie_jax.integrators.explicit import RKMK, RungeKutta
from lie_jax.integrators.generalized_alpha.method import GeneralizedAlpha
from lie_jax.integrators.implicit.method import ImplicitRKMK
from lie_jax.integrators.rattlie import RATTLie
from lie_jax.integrators.stabilization import Baumgarte, Projection
from lie_jax.integrators.step_size import Adaptive
from lie_jax.integrators.tableaux import Tableau
from lie_jax.mechanics import fields, solids
from lie_jax.mechanics.beams import lines as beams
from lie_jax.mechanics.beams.element import Beam
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.contact import shapes as contact
from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.contact.laws import (
    AbstractNormalLaw,
    Coulomb,
    HuntCrossley,
    SmoothLinear,
)
from lie_jax.mechanics.contact.stops import JointFriction, JointStop
from lie_jax.mechanics.forces.base import AbstractForce, AbstractPairForce
from lie_jax.mechanics.forces.bushing import Bushing
from lie_jax.mechanics.forces.in_joints import (
    AbstractJointForce,
    JointController,
    JointMotor,
    JointSpring,
)
from lie_jax.mechanics.forces.loads import PointForce, Torque, ViscousFriction
from lie_jax.mechanics.forces.revolute_bushing import RevoluteBushing
from lie_jax.mechanics.forces.springs import CartesianSpringDamper, LinearSpringDamper
from lie_jax.mechanics.forces.tendons import CouplingForce, PathForce
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose, BodyVelocity, Wrench
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.distance import DistanceJoint
from lie_jax.mechanics.joints.drivers import CoordinateJoint, JointDriver
from lie_jax.mechanics.joints.generic import GenericJoint
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.mechanics.joints.pairs import (
    CylindricalJoint,
    PlanarJoint,
    PrismaticJoint,
    RevoluteJoint,
    RigidJoint,
    SphericalJoint,
    UniversalJoint,
)
from lie_jax.mechanics.joints.rolling_and_gears import GearJoint, RollingDisc
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.multibody.assemble import assemble
from lie_jax.multibody.coordinates.base import AbstractCoordinates, AbstractFormulation
from lie_jax.multibody.coordinates.euler_parameters import EulerParameters
from lie_jax.multibody.coordinates.r3so3 import R3SO3
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.multibody.coordinates.tait_bryan import TaitBryan
from lie_jax.multibody.coordinates.unified_velocity import UnifiedVelocity
from lie_jax.multibody.minimal.formulation import Minimal
from lie_jax.multibody.place import place
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.robotics.frames import Frame
from lie_jax.robotics.inverse_kinematics import (
    InverseKinematics,
    InverseKinematicsError,
    inverse_kinematics,
)
from lie_jax.simulation.convergence import Convergence, convergence
from lie_jax.simulation.energies import energies
from lie_jax.simulation.events import Event
from lie_jax.simulation.policy import Policy
from lie_jax.simulation.simulate import SimulationError, simulate
from lie_jax.simulation.trajectory import Restart, Result, Trajectory, count_results
from lie_jax.spaces.base import AbstractSpace, AbstractVectorSpace, Rn
from lie_jax.statics.equilibrium import EquilibriumError, equilibrium
from lie_jax.statics.linear import LinearMotion, linearize
from lie_jax.statics.modes import Modes, modes
from lie_jax.statics.path import EquilibriumPath, equilibrium_path
from lie_jax.sweeps.batched import batched
from lie_jax.sweeps.sweep import Sweep, sweep
from lie_jax.systems.projection import project
from lie_jax.systems.system import AbstractSystem, Accelerations, State
from lie_jax.systems.validity import Validity

if typing.TYPE_CHECKING:
    from lie_jax import control, io
    from lie_jax import viz as viz
    from lie_jax.io import conversions as interop

__version__ = "0.2.0"
__all__ = [
    "BDF",
    "R3SO3",
    "RKMK",
    "SE3",
    "AbstractChart",
    "AbstractCoordinates",
    "AbstractForce",
    "AbstractFormulation",
    "AbstractIntegrator",
    "AbstractJoint",
    "AbstractJointForce",
    "AbstractMultibodySystem",
    "AbstractNormalLaw",
    "AbstractPairForce",
    "AbstractSpace",
    "AbstractSystem",
    "AbstractVectorSpace",
    "Accelerations",
    "Adaptive",
    "Baumgarte",
    "Beam",
    "Body",
    "BodyPose",
    "BodyVelocity",
    "Bushing",
    "CartesianSpringDamper",
    "CommutatorFree",
    "Contact",
    "Convergence",
    "ConvexContact",
    "CoordinateJoint",
    "Coulomb",
    "CouplingForce",
    "CouplingJoint",
    "CrouchGrossman",
    "CylindricalJoint",
    "DistanceJoint",
    "EquilibriumError",
    "EquilibriumPath",
    "EulerParameters",
    "Event",
    "Frame",
    "GearJoint",
    "GeneralizedAlpha",
    "GenericJoint",
    "HuntCrossley",
    "Identifiability",
    "Identification",
    "ImplicitRKMK",
    "InverseKinematics",
    "InverseKinematicsError",
    "JointController",
    "JointDriver",
    "JointFriction",
    "JointMotor",
    "JointSpring",
    "JointStop",
    "LinearMotion",
    "LinearSpringDamper",
    "Mechanism",
    "Minimal",
    "Modes",
    "MonteCarlo",
    "Motion",
    "PathForce",
    "PlanarJoint",
    "PointForce",
    "Policy",
    "PrismaticJoint",
    "Projection",
    "RATTLie",
    "Restart",
    "Result",
    "RevoluteBushing",
    "RevoluteJoint",
    "RigidJoint",
    "Rn",
    "RollingDisc",
    "RungeKutta",
    "SimulationError",
    "SmoothLinear",
    "SphericalJoint",
    "State",
    "Step",
    "Sweep",
    "Tableau",
    "TaitBryan",
    "Torque",
    "Trajectory",
    "UnifiedVelocity",
    "UniversalJoint",
    "Validity",
    "ViscousFriction",
    "Wrench",
    "adjoint",
    "assemble",
    "batched",
    "beams",
    "cache_compilations",
    "configure",
    "configure_cpu",
    "contact",
    "control",
    "convergence",
    "count_results",
    "enable_x64",
    "energies",
    "equilibrium",
    "equilibrium_path",
    "euler_parameters",
    "fields",
    "identify",
    "interop",
    "inverse_kinematics",
    "io",
    "linearize",
    "modes",
    "monte_carlo",
    "place",
    "project",
    "quaternion",
    "rn",
    "robotics",
    "rows_at",
    "se3",
    "simulate",
    "so3",
    "solids",
    "sweep",
    "tait_bryan",
    "transforms",
    "unified_velocity",
]
# Rooms that few programs need are imported when they are first used.
_ROOMS = {"control": "control", "interop": "io.conversions", "io": "io", "viz": "viz"}


def __getattr__(name: str) -> ModuleType:
    if name not in _ROOMS:
        raise AttributeError(f"module 'lie_jax' has no attribute {name!r}")
    return importlib.import_module(f"lie_jax.{_ROOMS[name]}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})
