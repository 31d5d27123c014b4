"""Files: models of others imported, trajectories and mechanisms saved and loaded."""

from lie_jax.io import conversions as conversions
from lie_jax.io.files import load as load
from lie_jax.io.files import save as save
from lie_jax.io.imported import ImportedActuator as ImportedActuator
from lie_jax.io.imported import ImportedCoupling as ImportedCoupling
from lie_jax.io.imported import ImportedJoint as ImportedJoint
from lie_jax.io.imported import ImportedModel as ImportedModel
from lie_jax.io.inertia_files import write_inertias as write_inertias
from lie_jax.io.models import import_model as import_model
from lie_jax.io.mujoco_states import mujoco_states as mujoco_states
from lie_jax.io.visuals import Mesh as Mesh
