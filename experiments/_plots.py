"""All plots in the look of `lie_jax.viz`, drawn without a screen."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from lie_jax.viz.style import COLORS, STYLE

BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK = COLORS
plt.rcParams.update(STYLE)


def save(figure: Figure, path: Path) -> None:
    """Write a figure and free it."""
    figure.savefig(path)
    plt.close(figure)
