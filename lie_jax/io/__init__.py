"""Files: trajectories and mechanisms saved and loaded."""

from lie_jax.io.files import load as load
from lie_jax.io.files import save as save
