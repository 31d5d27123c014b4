"""Measuring in fresh processes pinned to one core."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lie_jax.config import cpu_flags

# What `lie_jax.configure` sets.
RAISED_THRESHOLD = " ".join(cpu_flags())
MODES = {"as it comes": "", "raised loop threshold": RAISED_THRESHOLD}


def cpu_seconds(function: Callable, repeats: int) -> float:
    """Median CPU time of the process over calls of a function, after one call to compile."""
    return cpu_seconds_in_turns([function], repeats)[0]


def cpu_seconds_in_turns(functions: list[Callable], repeats: int) -> list[float]:
    """Median CPU time of the process over calls of each function, which take turns.

    What else the machine does then slows all of them alike.
    """
    import jax

    for function in functions:
        jax.block_until_ready(function())
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times, strict=True):
            begin = time.process_time()
            jax.block_until_ready(function())
            own.append(time.process_time() - begin)
    return [statistics.median(own) for own in times]


def in_fresh_process(module: str, repeats: int, *more: str, **environment: str) -> dict:
    """Output of `python -m module --child` from JSON, with more arguments and environment
    variables.
    """
    command = [sys.executable, "-m", module, "--child", "--repeats", str(repeats), *more]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def arguments_of(documentation: str | None, *more: str) -> argparse.Namespace:
    """The arguments of a benchmark; `more` names arguments of its own processes."""
    parser = argparse.ArgumentParser(description=(documentation or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="runs of each figure (9)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    for name in more:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser.parse_args()


def conditions(repeats: int) -> str:
    """On what a table was measured, in words."""
    import jax

    return (
        f"float64, one core, {platform.machine()}, Python "
        f"{platform.python_version()}, JAX {jax.__version__}; medians of {repeats}"
    )


def write(folder: Path, name: str, results: dict, lines: list[str]) -> None:
    """Print a table and write it, and the numbers as JSON, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = "\n".join(lines)
    (folder / f"{name}.md").write_text(table + "\n")
    (folder / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n")
    print(table)


def pin_to_one_core() -> None:
    """Keep the process and its children on one core."""
    # Not every platform can; where it cannot, JAX's own threads hardly matter at this size.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
