"""Run experiments by name: `python -m experiments --help`."""

import argparse
import importlib
import os
import pkgutil
from pathlib import Path

import lie_jax


def _names() -> list[str]:
    folder = str(Path(__file__).parent)
    return sorted(m.name for m in pkgutil.iter_modules([folder]) if not m.name.startswith("_"))


def main() -> None:
    """Read the command line and run what it asks for."""
    names = _names()
    # First: modules may hold arrays.
    lie_jax.configure_cpu()
    lie_jax.enable_x64()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        lie_jax.cache_compilations(Path(__file__).parents[1] / ".jax_cache")
    modules = {name: importlib.import_module(f"experiments.{name}") for name in names}
    summaries = "\n".join(
        f"  {name:20} {(module.__doc__ or '').splitlines()[0]}" for name, module in modules.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Run experiments; each writes its files to OUT/NAME.",
        epilog=f"experiments:\n{summaries}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names",
        nargs="+",
        choices=[*names, "all", "list"],
        metavar="NAME",
        help="an experiment, `all` of them, or `list` to see what there is",
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for results (out)")
    arguments = parser.parse_args()
    if "list" in arguments.names:
        print(summaries)
        return
    for name in names if "all" in arguments.names else arguments.names:
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        modules[name].main(folder)


if __name__ == "__main__":
    main()
