"""Parameters and states from recordings, with their uncertainty."""

from lie_jax.estimation import transforms
from lie_jax.estimation.consistency import ChiSquare
from lie_jax.estimation.experiment import Experiment
from lie_jax.estimation.filter import Filtered, filter
from lie_jax.estimation.identification import Identification
from lie_jax.estimation.identify import identify
from lie_jax.estimation.model import Model
from lie_jax.estimation.monte_carlo import MonteCarlo, monte_carlo
from lie_jax.estimation.recordings import rows_at
from lie_jax.estimation.smooth import Smoothed, smooth
from lie_jax.estimation.statistics import Identifiability

__all__ = [
    "ChiSquare",
    "Experiment",
    "Filtered",
    "Identifiability",
    "Identification",
    "Model",
    "MonteCarlo",
    "Smoothed",
    "filter",
    "identify",
    "monte_carlo",
    "rows_at",
    "smooth",
    "transforms",
]
