"""Names on the command line: models, formulations, integrators, experiments of papers."""

import ast
import difflib
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import lie_jax

# Of those with an initial state and no input that must be given.
MODELS = (
    *("bricard", "chain", "double_pendulum", "dual_spin", "floating_bodies", "follower_torque"),
    *("four_bars", "free_body", "governor", "heavy_top", "pendulum", "puma560"),
    *("quadrotor_payload", "quadruped", "rotor", "slider_crank", "space_robot"),
    *("spherical_pendulum", "squeezer", "three_bars", "three_bodies"),
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


def _figures(*numbers: int) -> tuple[str, ...]:
    return tuple(f"Fig. {number}" for number in numbers)


# Which experiments reproduce a paper, and which of its tables and figures each of them compares.
PAPERS: dict[str, dict[str, tuple[str, ...]]] = {
    "S0": {"local_global_maps": ("Table 1",), "errata": ()},
    "S1": {"park_chung": _figures(*range(4, 9)), "accuracy": ()},
    "S2": {"unified_velocity": _figures(*range(8, 14))},
    "S3": {
        "heavy_top": _figures(3),
        "explicit_formulations": _figures(3, 4, 5, 10, 11, 12, 13),
        "implicit_formulations": _figures(*range(3, 9), *range(11, 14), *range(15, 18), 19, 20, 21),
        "newton_counts": ("Table 4", "Table 5", "Table 7"),
        "fifteen_systems": ("Table 1",),
        "mechanisms": (),
    },
}


def reproducing(paper: str, part: str = "") -> dict[str, tuple[str, ...]]:
    """Experiments of a paper, or those of one of its tables or figures; ends the program, with the
    nearest ones, if there are none.
    """
    chosen = PAPERS[one_of("paper", paper, PAPERS)]
    if not part:
        return chosen
    parts = dict.fromkeys(name for names in chosen.values() for name in names)
    spelled = {_letters(name): name for name in parts}
    wanted = spelled.get(_letters(part)) or one_of(f"table or figure of {paper}", part, parts)
    return {name: parts for name, parts in chosen.items() if wanted in parts}


def _letters(part: str) -> str:
    return "".join(c for c in part.lower().replace("figure", "fig") if c.isalnum())


def experiments() -> dict[str, str]:
    """First lines of the documentation of all experiments by their names."""
    # Read and not imported, which takes seconds, and packages that only some of them need.
    paths = sorted(Path(__file__).parents[1].glob("[!_]*.py"))
    texts = {path.stem: ast.get_docstring(ast.parse(path.read_text())) for path in paths}
    return {name: (text or "").splitlines()[0] for name, text in texts.items()}


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
