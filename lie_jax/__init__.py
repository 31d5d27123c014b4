"""Differentiable simulation of multibody systems on Lie groups in JAX."""

import importlib
import sys
import typing
from types import ModuleType

from lie_jax import beams, contact, estimation, extend, groups, robotics, shells, solids
from lie_jax.config import configure
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
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.contact.stops import JointFriction, JointStop
from lie_jax.mechanics.flexible.body import FlexibleBody
from lie_jax.mechanics.forces.bushing import Bushing
from lie_jax.mechanics.forces.in_joints import JointController, JointMotor, JointSpring
from lie_jax.mechanics.forces.loads import PointForce, Torque, ViscousFriction
from lie_jax.mechanics.forces.revolute_bushing import RevoluteBushing
from lie_jax.mechanics.forces.springs import CartesianSpringDamper, LinearSpringDamper
from lie_jax.mechanics.forces.tendons import CouplingForce, PathForce
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.distance import DistanceJoint
from lie_jax.mechanics.joints.drivers import CoordinateJoint, JointDriver
from lie_jax.mechanics.joints.generic import GenericJoint
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
from lie_jax.multibody.coordinates.euler_parameters import EulerParameters
from lie_jax.multibody.coordinates.r3so3 import R3SO3
from lie_jax.multibody.coordinates.se3 import SE3
from lie_jax.multibody.coordinates.tait_bryan import TaitBryan
from lie_jax.multibody.coordinates.unified_velocity import UnifiedVelocity
from lie_jax.multibody.impacts import Impact, impact
from lie_jax.multibody.minimal.formulation import Minimal
from lie_jax.multibody.place import place
from lie_jax.orbits.periodic import PeriodicOrbit, PeriodicOrbitError, periodic_orbit
from lie_jax.simulation.convergence import Convergence, convergence
from lie_jax.simulation.energies import energies
from lie_jax.simulation.events import Event
from lie_jax.simulation.policy import Policy
from lie_jax.simulation.simulate import SimulationError, simulate
from lie_jax.simulation.trajectory import Restart, Result, Trajectory, count_results
from lie_jax.statics.equilibrium import EquilibriumError, equilibrium
from lie_jax.statics.linear import LinearMotion, linearize
from lie_jax.statics.modes import Modes, modes
from lie_jax.statics.path import EquilibriumPath, equilibrium_path
from lie_jax.sweeps.batched import batched
from lie_jax.sweeps.sweep import Sweep, sweep
from lie_jax.systems.projection import project
from lie_jax.systems.system import State

if typing.TYPE_CHECKING:
    from lie_jax import control, io
    from lie_jax import viz as viz

__version__ = "0.2.0"
__all__ = [
    "BDF",
    "R3SO3",
    "RKMK",
    "SE3",
    "Adaptive",
    "Baumgarte",
    "Body",
    "Bushing",
    "CartesianSpringDamper",
    "CommutatorFree",
    "Convergence",
    "ConvexContact",
    "CoordinateJoint",
    "CouplingForce",
    "CouplingJoint",
    "CrouchGrossman",
    "CylindricalJoint",
    "DistanceJoint",
    "EquilibriumError",
    "EquilibriumPath",
    "EulerParameters",
    "Event",
    "FlexibleBody",
    "GearJoint",
    "GeneralizedAlpha",
    "GenericJoint",
    "Impact",
    "ImplicitRKMK",
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
    "PathForce",
    "PeriodicOrbit",
    "PeriodicOrbitError",
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
    "RollingDisc",
    "RungeKutta",
    "SimulationError",
    "SphericalJoint",
    "State",
    "Sweep",
    "Tableau",
    "TaitBryan",
    "Torque",
    "Trajectory",
    "UnifiedVelocity",
    "UniversalJoint",
    "ViscousFriction",
    "assemble",
    "batched",
    "beams",
    "configure",
    "contact",
    "control",
    "convergence",
    "count_results",
    "energies",
    "equilibrium",
    "equilibrium_path",
    "estimation",
    "extend",
    "groups",
    "impact",
    "io",
    "linearize",
    "modes",
    "periodic_orbit",
    "place",
    "project",
    "robotics",
    "shells",
    "simulate",
    "solids",
    "sweep",
]
# Rooms that few programs need are imported when they are first used.
_LATE = ("control", "io", "viz")


def __getattr__(name: str) -> ModuleType:
    if name in _LATE:
        return importlib.import_module(f"lie_jax.{name}")
    message = f"module 'lie_jax' has no attribute {name!r}"
    for room in (beams, contact, estimation, extend, groups, robotics, shells, solids):
        if name in room.__all__:
            message += f"; it is {room.__name__}.{name}"
            break
    # With these two, Python proposes names that are spelt alike.
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATE, "__version__"})
