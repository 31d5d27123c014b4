"""Picture of the comparison: error against CPU time."""

from pathlib import Path

import matplotlib.pyplot as plt

from experiments import _plots
from experiments._integrators.cases import CASES

# Colour of a family; a dashed line for its second member.
_LOOKS = {
    "RKMK rk4": (_plots.BLUE, "-", "o"),
    "RKMK dopri5, automatic": (_plots.BLUE, "--", "s"),
    "RATTLie": (_plots.GREEN, "-", "o"),
    "RATTLie, order 4": (_plots.GREEN, "--", "s"),
    "generalized-α": (_plots.ORANGE, "-", "o"),
    "generalized-α, automatic": (_plots.ORANGE, "--", "s"),
    "BDF 2, automatic": (_plots.PURPLE, "-", "o"),
    "BDF 5, automatic": (_plots.PURPLE, "--", "s"),
    "radau5, automatic": (_plots.RED, "-", "^"),
    "sdirk4, automatic": (_plots.BLACK, "--", "v"),
}


def work(results: dict[str, dict[str, list[dict]]], path: Path) -> None:
    """Error against CPU time, a panel for each system."""
    figure, axes = plt.subplots(3, 2, figsize=(9.5, 11.5))
    panels = axes.ravel()
    for panel, (name, methods) in zip(panels, results.items(), strict=False):
        for method, (color, style, marker) in _LOOKS.items():
            runs = [run for run in methods[method] if run["error"] is not None]
            panel.loglog(
                [1e3 * run["cpu_s"] for run in runs], [run["error"] for run in runs],
                color=color, linestyle=style, marker=marker, markersize=4, linewidth=1.1,
                label=method,
            )  # fmt: skip
        panel.set(title=name, ylabel=CASES[name].observed, ylim=(1e-12, 3.0))
    for panel in axes[-1]:
        panel.set_xlabel("CPU time (ms)")
    for panel in panels[len(results) :]:
        panel.axis("off")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)
    _plots.save(figure, path)
