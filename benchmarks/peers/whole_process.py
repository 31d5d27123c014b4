"""Costs that are no steps: compiling a chain, and the first result of a fresh process."""

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks._processes import MODES

PATIENCE = 600.0


def _seconds(module: str, *arguments: str, **environment: str) -> float | None:
    """Output of a module, or None if it failed or took too long."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=os.environ | quiet | environment,
            capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    return float(done.stdout)


def compile_seconds(links: list[int], rounds: int, mode: str) -> dict[int, float | None]:
    """CPU seconds to trace and compile simulations of chains, medians of rounds."""
    found: dict[int, list[float]] = {n: [] for n in links}
    for _ in range(rounds):
        for n, own in found.items():
            cost = _seconds("benchmarks.peers.compiling", str(n), XLA_FLAGS=MODES[mode])
            if cost is not None:
                own.append(cost)
    return {n: statistics.median(own) if own else None for n, own in found.items()}


def first_result_seconds(rounds: int, mode: str) -> dict[str, float | None]:
    """CPU seconds of a process, with an empty cache of compilations and, median, a warm one."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "XLA_FLAGS": MODES[mode],
            "JAX_COMPILATION_CACHE_DIR": folder,
            # Small programs count too.
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        costs = [_seconds("benchmarks.peers.first_result", **settings) for _ in range(rounds + 1)]
    warm = [cost for cost in costs[1:] if cost is not None]
    return {"cold": costs[0], "warm": statistics.median(warm) if warm else None}
