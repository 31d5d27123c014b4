"""Measuring in fresh processes pinned to one core."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable


def cpu_seconds(function: Callable, repeats: int) -> float:
    """Median CPU time of the process over calls of a function, after one call to compile."""
    import jax

    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(function())
        times.append(time.process_time() - begin)
    return statistics.median(times)


def in_fresh_process(module: str, repeats: int, **environment: str) -> dict:
    """What `python -m module --child` prints as JSON, with more environment variables."""
    command = [sys.executable, "-m", module, "--child", "--repeats", str(repeats)]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def pin_to_one_core() -> None:
    """Keep the process and its children on one core."""
    # Not every platform can; where it cannot, JAX's own threads hardly matter at this size.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
