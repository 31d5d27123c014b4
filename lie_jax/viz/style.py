"""One look for all plots: readable in print and when colour-blind."""

from typing import Any

from cycler import cycler

# Okabe and Ito's palette, distinct for every common form of colour vision.
BLUE, ORANGE, GREEN, PURPLE, RED, SKY, BLACK = COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
    "#000000",
)

# For `matplotlib.rc_context` or `matplotlib.rcParams.update`.
STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    # Ticks show the values themselves, not their distance from one above the axis.
    "axes.formatter.useoffset": False,
    "axes.prop_cycle": cycler(color=COLORS),
}


def literal(name: str) -> str:
    """Name as matplotlib shows it letter by letter: text between two `$` would be a formula."""
    return name.replace("$", r"\$")


# Directions from the middle of the scene to the camera.
VIEWS = {
    "oblique": (0.5, -0.75, 0.4),
    "front": (0.0, -1.0, 0.0),
    "side": (1.0, 0.0, 0.0),
    # Not quite, as the camera's up is z.
    "top": (0.0, -0.01, 1.0),
}
