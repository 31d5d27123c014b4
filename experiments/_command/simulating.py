"""Simulations of models from the shell."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from tqdm import tqdm

import lie_jax
from experiments import _plots
from experiments._command.choices import FORMULATIONS, INTEGRATORS, MODELS, built, one_of
from lie_jax import io, viz
from lie_jax.simulation.trajectory import INSTANTS

# A file is written and a bar moved so many times in a run.
_PIECES = 20


class Settings(NamedTuple):
    """Settings of a simulation, in words of the command line."""

    model: str
    formulation: str | None
    integrator: str
    dt: float
    t_end: float


def settled(settings: Settings) -> Settings:
    """Settings with the full names; ends the program for unknown ones."""
    formulation = settings.formulation
    if formulation is not None:
        formulation = one_of("formulation", formulation, FORMULATIONS)
    if not settings.dt > 0.0 or not settings.t_end >= settings.dt:
        raise SystemExit(
            f"--dt is {settings.dt} and --t-end {settings.t_end}; both are in s, the step must be "
            "positive and the end at least one step away."
        )
    return settings._replace(
        model=one_of("model", settings.model, MODELS),
        formulation=formulation,
        integrator=one_of("integrator", settings.integrator, INTEGRATORS),
    )


def simulated(settings: Settings, folder: Path) -> None:
    """Simulate with a bar; what was computed is written also when the user interrupts."""
    settings = settled(settings)
    system, state = built(settings.model, settings.formulation)
    integrator = INTEGRATORS[settings.integrator]()
    steps = round(settings.t_end / settings.dt)
    piece = -(-steps // _PIECES)
    parts: list[lie_jax.Trajectory] = []
    start: Any = state
    try:
        with tqdm(total=steps, unit="step", desc=settings.model) as bar:
            while (done := sum(len(part.stats.newton_iterations) for part in parts)) < steps:
                now = min(piece, steps - done)
                run = lie_jax.simulate(system, integrator, start, dt=settings.dt, steps=now)
                parts.append(jax.block_until_ready(run))
                start = run.restart
                bar.update(now)
    except KeyboardInterrupt:
        print("interrupted: what was computed is kept")
    except lie_jax.SimulationError as error:
        print(error)
        parts.append(error.trajectory)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    if not parts:
        raise SystemExit("nothing was computed")
    trajectory = joined(parts)
    io.save(folder / "run.nc", {"settings": settings._asdict(), "trajectory": trajectory})
    for name in ("motion", "energy"):
        _plots.save(getattr(viz, name)(system, trajectory), folder / f"{name}.png")
    print(f"wrote {folder / 'run.nc'}, motion.png and energy.png")


def joined(parts: list[lie_jax.Trajectory]) -> lie_jax.Trajectory:
    """One trajectory of pieces that go on where the one before has ended."""
    whole = parts[-1]
    for field in INSTANTS:
        # Pieces begin with the instant at which the one before has ended.
        rows = [
            jax.tree.map(lambda x, i=i: x[i > 0 :], getattr(p, field)) for i, p in enumerate(parts)
        ]
        joined_rows = jax.tree.map(lambda *x: jnp.concatenate(x), *rows)
        whole = dataclasses.replace(whole, **{field: joined_rows})
    return whole


def animated(file: Path, path: Path) -> None:
    """Write the page with the moving scene of a file that `simulated` has written."""
    try:
        found = io.load(file)
        settings = Settings(**found["settings"])
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        raise SystemExit(
            f"{file} cannot be animated ({error}); it must be a run.nc that "
            "`python -m experiments simulate` has written."
        ) from error
    system, _ = built(settings.model, settings.formulation)
    viz.export(path, (system, found["trajectory"]))
    print(f"wrote {path}: open it in a browser")
