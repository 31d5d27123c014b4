"""Parameters from recordings, with their uncertainty."""

from lie_jax.estimation import transforms
from lie_jax.estimation.identify import Identification, identify
from lie_jax.estimation.monte_carlo import MonteCarlo, monte_carlo
from lie_jax.estimation.recordings import rows_at
from lie_jax.estimation.statistics import Identifiability

__all__ = [
    "Identifiability",
    "Identification",
    "MonteCarlo",
    "identify",
    "monte_carlo",
    "rows_at",
    "transforms",
]
