"""Classes that parts of your own derive from, with what those take and return."""

from lie_jax.groups.charts import AbstractChart
from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.mechanics import fields
from lie_jax.mechanics.contact.laws import AbstractNormalLaw
from lie_jax.mechanics.contact.shapes import AbstractShape
from lie_jax.mechanics.forces.base import AbstractForce, AbstractPairForce
from lie_jax.mechanics.forces.in_joints import AbstractJointForce
from lie_jax.mechanics.inertias import AbstractInertia
from lie_jax.mechanics.joints.base import AbstractJoint, BodyPose, BodyVelocity, Wrench
from lie_jax.mechanics.joints.motions import Motion
from lie_jax.multibody.coordinates.base import AbstractCoordinates, AbstractFormulation
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.spaces.base import AbstractSpace, AbstractVectorSpace, Rn
from lie_jax.systems.system import AbstractSystem, Accelerations
from lie_jax.systems.validity import Validity

__all__ = [
    "AbstractChart",
    "AbstractCoordinates",
    "AbstractForce",
    "AbstractFormulation",
    "AbstractInertia",
    "AbstractIntegrator",
    "AbstractJoint",
    "AbstractJointForce",
    "AbstractMultibodySystem",
    "AbstractNormalLaw",
    "AbstractPairForce",
    "AbstractShape",
    "AbstractSpace",
    "AbstractSystem",
    "AbstractVectorSpace",
    "Accelerations",
    "BodyPose",
    "BodyVelocity",
    "Motion",
    "Rn",
    "Step",
    "Validity",
    "Wrench",
    "fields",
]
