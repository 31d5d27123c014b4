"""Names on the command line: models, formulations, integrators, experiments of papers."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import lie_jax

# Of those with an initial state and no input that must be given.
MODELS = (
    *("bricard", "chain", "double_pendulum", "follower_torque", "free_body", "heavy_top"),
    *("puma560", "rotor", "slider_crank", "three_bodies"),
)
FORMULATIONS: dict[str, Callable[[], Any]] = {
    "R3SO3": lie_jax.R3SO3,
    "SE3": lie_jax.SE3,
    "UnifiedVelocity": lie_jax.UnifiedVelocity,
    "TaitBryan": lie_jax.TaitBryan,
    "EulerParameters": lie_jax.EulerParameters,
    "Minimal": lie_jax.Minimal,
}
INTEGRATORS: dict[str, Callable[[], Any]] = {
    "rk4": lambda: lie_jax.RKMK("rk4"),
    "dopri5": lambda: lie_jax.RKMK("dopri5"),
    "rk67": lambda: lie_jax.RKMK("rk67"),
    "cg3": lambda: lie_jax.CrouchGrossman(3),
    "cf4": lambda: lie_jax.CommutatorFree(4),
    "gauss4": lambda: lie_jax.ImplicitRKMK("gauss4"),
    "generalized_alpha": lambda: lie_jax.GeneralizedAlpha(0.9),
}
# Which experiments reproduce a paper, and which of its tables, figures and sections.
PAPERS = {
    "S0": {"local_global_maps": "all eight local-global maps", "errata": "misprinted formulas"},
    "S1": {"park_chung": "Section VI, three bodies", "accuracy": "the maps' accuracy"},
    "S2": {"unified_velocity": "Section 6, Figs. 8 to 13"},
    "S3": {
        "heavy_top": "Section 4.1, Fig. 3",
        "explicit_formulations": "explicit methods, Figs. 3 to 6",
        "implicit_formulations": "implicit methods, Figs. 7 to 12",
        "newton_counts": "Tables 4 to 10",
        "mechanisms": "Sections 4.3 and 4.4",
    },
}


def experiments() -> dict[str, str]:
    """First lines of the documentation of all experiments by their names."""
    folder = str(Path(__file__).parents[1])
    names = sorted(m.name for m in pkgutil.iter_modules([folder]) if not m.name.startswith("_"))
    return {name: (experiment(name).__doc__ or "").splitlines()[0] for name in names}


def experiment(name: str) -> ModuleType:
    """The module of an experiment."""
    return importlib.import_module(f"experiments.{name}")


def one_of(what: str, name: str, known: Iterable[str]) -> str:
    """The name in the case that is known; ends the program, with the nearest ones, for others."""
    known = list(known)
    by_lower = {k.lower(): k for k in known}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    near = [by_lower[n] for n in difflib.get_close_matches(name.lower(), by_lower, cutoff=0.5)]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    raise SystemExit(f"There is no {what} {name!r}.{meant} Known: {', '.join(known)}.")


def built(model: str, formulation: str | None) -> tuple[Any, lie_jax.State]:
    """A model's system, in its own formulation or another, and its initial state."""
    module = importlib.import_module(f"models.{model}")
    if formulation is None:
        return module.build()
    try:
        return module.build(FORMULATIONS[formulation]())
    except (ValueError, TypeError, AttributeError) as error:
        raise SystemExit(f"{model} cannot be built in {formulation}: {error}") from error


def writable(folder: Path) -> Path:
    """The folder, made if need be; ends the program if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SystemExit(
            f"{folder} cannot be written ({error.strerror}); name another folder by --out."
        ) from error
    return folder
