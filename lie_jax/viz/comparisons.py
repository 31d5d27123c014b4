"""Plots of errors over step sizes and over computing times.

Each function returns a `matplotlib.figure.Figure`.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import ArrayLike
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from lie_jax.simulation.convergence import Convergence
from lie_jax.viz.plots import use_style
from lie_jax.viz.style import BLACK

Numbers = ArrayLike | Sequence[float]


def convergence(
    steps: Numbers | Convergence,
    errors: Mapping[str, Numbers] | None = None,
    orders: Sequence[int] = (),
) -> Figure:
    """Errors over step sizes: of a study, or any other errors.

    **Arguments:** `steps`: what `lie_jax.convergence` returns, with triangles of the orders that
    it shows, or sizes (n,) in s with `errors` (n,) by name, one line for each; `orders`: those of
    which a slope is drawn. Raises `ValueError` for errors of another length than `steps`.
    """
    if isinstance(steps, Convergence):
        return _study(steps)
    if errors is None:
        raise ValueError(
            "viz.convergence(errors=) is missing; it must hold errors by name for these steps. For "
            "a study pass what lie_jax.convergence returns."
        )
    with use_style():
        figure, axes = plt.subplots(figsize=(6.0, 4.5))
        _lines(axes, dict.fromkeys(errors, steps), errors)
        h = np.sort(np.asarray(steps, float))
        # Slopes run beside the lines, not on them.
        first = 2.0 * max(np.nanmax(np.asarray(e, float)) for e in errors.values())
        for order in orders:
            axes.loglog(h, first * (h / h[-1]) ** order, ":", color=BLACK, lw=0.8)
            end = h[0], first * (h[0] / h[-1]) ** order
            axes.annotate(f"order {order}", end, (0, 3), textcoords="offset points")
        axes.set(xlabel="step size / s", ylabel="error")
        _legible(axes)
        axes.legend()
    return figure


def _study(study: Convergence) -> Figure:
    names = "configuration", "velocity"
    errors = study.configuration_errors, study.velocity_errors
    orders = study.configuration_orders, study.velocity_orders
    with use_style():
        figure, both = plt.subplots(1, 2, figsize=(9.0, 4.5), sharex=True)
        for axes, name, of, observed in zip(both, names, errors, orders, strict=True):
            _lines(axes, dict.fromkeys(of, study.dt), of)
            drawn = set()
            for which, order in observed.items():
                # One triangle for each order is enough.
                if np.isfinite(order) and round(order) > 0 and round(order) not in drawn:
                    drawn.add(round(order))
                    _triangle(axes, study.dt, of[which], round(order))
            axes.set(xlabel="step size / s", ylabel=f"error of the {name}")
            _legible(axes)
        both[0].legend()
    return figure


def _triangle(axes: Axes, dt: np.ndarray, errors: np.ndarray, order: int) -> None:
    """Triangle of the slope of an order, below the line of errors that shows it."""
    known = np.flatnonzero(np.isfinite(errors))
    fine, coarse = known[-1], known[max(0, len(known) - 2)]
    left, right = dt[fine], dt[coarse]
    low = 0.3 * errors[fine]
    high = low * (right / left) ** order
    axes.loglog([left, right, right, left], [low, low, high, low], color=BLACK, lw=0.8)
    place = right, np.sqrt(low * high)
    axes.annotate(str(order), place, (4, 0), textcoords="offset points", va="center")


def work_precision(costs: Mapping[str, Numbers], errors: Mapping[str, Numbers]) -> Figure:
    """Errors over computing times.

    **Arguments:** `costs` (n,), s, and `errors` (n,), by the same names, one line for each. Raises
    `ValueError` for names and lengths that differ.
    """
    with use_style():
        figure, axes = plt.subplots(figsize=(6.0, 4.5))
        _lines(axes, costs, errors)
        axes.set(xlabel="computing time / s", ylabel="error")
        _legible(axes)
        axes.legend()
    return figure


def _lines(axes: Axes, along: Mapping[str, Numbers], errors: Mapping[str, Numbers]) -> None:
    for (name, values), marker in zip(errors.items(), "osD^vP*X" * len(errors), strict=False):
        if name not in along or np.shape(along[name]) != np.shape(values):
            raise ValueError(
                f"viz: {name!r} has {np.size(values)} errors; the other axis must have a number "
                "for each of them under the same name."
            )
        axes.loglog(np.asarray(along[name]), np.asarray(values), marker=marker, ms=4, label=name)


def _legible(axes: Axes) -> None:
    """Label few sizes: within a decade Matplotlib labels almost all, one over the other."""
    axes.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
