"""The command line: experiments, and models simulated, compared and animated."""

import os
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

import lie_jax

app = tyro.extras.SubcommandApp()
Out = Annotated[Path, arg(help="folder for what is written")]
Model = Annotated[Positional[str], arg(help="name of a model, see `list`")]


@app.command(name="list")
def names() -> None:
    """List experiments, models, formulations and integrators."""
    from experiments._command import choices

    print("experiments")
    for name, summary in choices.experiments().items():
        print(f"  {name:24} {summary}")
    for what, known in (
        ("models", choices.MODELS),
        ("formulations", choices.FORMULATIONS),
        ("integrators", choices.INTEGRATORS),
    ):
        print(f"{what}\n  {' '.join(known)}")


@app.command
def run(experiments: Positional[tuple[str, ...]], out: Out = Path("out")) -> None:
    """Run experiments by name, or `all`; each writes its files to OUT/NAME."""
    from experiments._command import choices

    known = choices.experiments()
    chosen = [choices.one_of("experiment", name, [*known, "all"]) for name in experiments]
    if not chosen:
        raise SystemExit("Name an experiment, or `all`; `python -m experiments list` names them.")
    for name in known if "all" in chosen else chosen:
        choices.experiment(name).main(choices.writable(out / name))


@app.command
def reproduce(
    paper: Annotated[Positional[str], arg(help="S0, S1, S2 or S3, see docs/papers.md")],
    part: Annotated[Positional[str], arg(help="a table or figure, as table4; all by default")] = "",
    out: Out = Path("out"),
) -> None:
    """Run the experiments that reproduce a paper's tables and figures, or one of them."""
    from experiments._command import choices

    for name, parts in choices.reproducing(paper, part).items():
        print(f"{name}: {', '.join(parts) or choices.experiments()[name]}", flush=True)
        choices.experiment(name).main(choices.writable(out / name))


@app.command
def simulate(
    model: Model,
    formulation: Annotated[str | None, arg(help="the model's own by default")] = None,
    integrator: str = "generalized_alpha",
    dt: Annotated[float, arg(help="step size in s")] = 1e-3,
    t_end: Annotated[float, arg(help="end of the run in s")] = 1.0,
    out: Out = Path("out"),
) -> None:
    """Simulate a model; writes run.nc and plots to OUT/MODEL.

    Ctrl-C ends the run and keeps what was computed.
    """
    from experiments._command import choices, simulating

    settings = simulating.settled(simulating.Settings(model, formulation, integrator, dt, t_end))
    simulating.simulated(settings, choices.writable(out / settings.model))


@app.command
def compare(
    model: Model,
    t_end: Annotated[float, arg(help="end of the runs in s")] = 0.5,
    out: Out = Path("out"),
) -> None:
    """Compare all formulations and integrators on a model: a table and a work-precision plot."""
    from experiments._command import choices, comparing

    model = choices.one_of("model", model, choices.MODELS)
    comparing.compared(model, t_end, choices.writable(out / f"compare_{model}"))


@app.command
def animate(
    file: Annotated[Positional[Path], arg(help="a run.nc that `simulate` has written")],
    page: Annotated[Path | None, arg(help="the page, by default beside the file")] = None,
) -> None:
    """Write a page with the moving scene of a run, to be opened in a browser."""
    from experiments._command import simulating

    simulating.animated(file, page or file.with_suffix(".html"))


@app.command
def robots(
    folder: Annotated[Positional[Path], arg(help="folder with URDF and MJCF files")],
    compare: Annotated[bool, arg(help="whether motions are compared, minutes a file")] = True,
    out: Out = Path("out"),
) -> None:
    """Import all robots below a folder and compare their dynamics with MuJoCo's.

    Writes a table to OUT/robots. `--no-compare` tries all files in seconds each.
    """
    from experiments._command import choices, robot_files, robots

    table = robots.table if compare else robot_files.table
    table(folder, choices.writable(out / "robots"))


@app.command
def robot_examples(
    folders: Annotated[
        Positional[tuple[Path, ...]], arg(help="folders with robots, see docs/robot_examples.md")
    ],
    out: Out = Path("out"),
) -> None:
    """Run the examples with an arm, a quadruped, a biped and a drone whose files are there.

    Writes numbers, pictures and pages to OUT/robot_examples.
    """
    from experiments._command import choices, robot_examples

    robot_examples.examples(folders, choices.writable(out / "robot_examples"))


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do what it asks for."""
    # First: modules may hold arrays.
    has_folder = "JAX_COMPILATION_CACHE_DIR" in os.environ
    cache = False if has_folder else Path(__file__).parents[1] / ".jax_cache"
    lie_jax.configure(cache=cache)
    app.cli(
        args=sys.argv[1:] if arguments is None else arguments,
        prog="python -m experiments",
        description="Experiments by name, and models from the shell.",
    )


if __name__ == "__main__":
    main()
