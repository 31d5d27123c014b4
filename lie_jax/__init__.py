"""Differentiable simulation of multibody systems on Lie groups in JAX."""

from lie_jax import transforms as transforms
from lie_jax.config import enable_x64 as enable_x64
from lie_jax.groups import quaternion as quaternion
from lie_jax.groups import se3 as se3
from lie_jax.groups import so3 as so3
from lie_jax.identify import Identification as Identification
from lie_jax.identify import identify as identify
from lie_jax.integrators.explicit import RKMK as RKMK
from lie_jax.integrators.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from lie_jax.mechanics.assemble import assemble as assemble
from lie_jax.mechanics.body import Body as Body
from lie_jax.mechanics.forces import PointForce as PointForce
from lie_jax.mechanics.forces import ViscousFriction as ViscousFriction
from lie_jax.mechanics.joints import SphericalJoint as SphericalJoint
from lie_jax.mechanics.mechanism import Mechanism as Mechanism
from lie_jax.simulate import SimulationError as SimulationError
from lie_jax.simulate import simulate as simulate
from lie_jax.spaces import R3SO3 as R3SO3
from lie_jax.spaces import SE3 as SE3
from lie_jax.system import AbstractSystem as AbstractSystem
from lie_jax.system import State as State
from lie_jax.system import project as project
from lie_jax.trajectory import Result as Result
from lie_jax.trajectory import Trajectory as Trajectory
