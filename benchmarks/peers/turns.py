"""Programs in processes of their own that take turns on one core."""

import json
import os
import select
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from benchmarks._processes import MODES
from benchmarks.peers.cases import Missing

# Setting a program up, compilation included, and one measurement, s.
PATIENCE = 400.0
# These are JAX programs too: they run in both modes, and each of ours is compared with its own.
JAX_PEERS = ("MJX", "diffrax")
OURS = "lie_jax"


class Key(NamedTuple):
    """A program: library, case and mode."""

    library: str
    case: str
    mode: str


class Measured(NamedTuple):
    """Description of a program and costs of its runs, CPU seconds a step: (rounds, 1), or
    (rounds, 2) with its base. `missing` is the reason for the lack of runs.
    """

    about: dict[str, Any]
    costs: list[list[float]]
    missing: str = ""

    def median(self, which: int = 0) -> float:
        """Median over the rounds."""
        return statistics.median(cost[which] for cost in self.costs)


class Child:
    """A process that serves one program."""

    def __init__(self, key: Key, quick: bool):
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.peers.child"]
        settings = {"XLA_FLAGS": MODES[key.mode], "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, key.library, key.case, *(["--quick"] if quick else [])],
            env=os.environ | settings | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def answer(self) -> Any:
        """The next line that it prints. Raises `Missing` if there is none in time."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise Missing("it failed" if ready else f"no answer within {PATIENCE:.0f} s")
        return json.loads(line)

    def measure(self) -> list[float]:
        """One measurement."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def in_turns(keys: list[Key], rounds: int, quick: bool) -> dict[Key, Measured]:
    """Set the programs up one after the other, then let them take turns."""
    children: dict[Key, Child] = {}
    results: dict[Key, Measured] = {}
    try:
        for key in keys:
            child = Child(key, quick)
            try:
                about = child.answer()
                reason = about.get("missing", "")
            except Missing as error:
                about, reason = {}, str(error)
            results[key] = Measured(about, [], reason)
            if reason:
                child.close()
            else:
                children[key] = child
        for _ in range(rounds):
            for key, child in children.items():
                results[key].costs.append(child.measure())
    finally:
        for child in children.values():
            child.close()
    return results


def group(
    case: str, peers: tuple[str, ...], rounds: int, quick: bool, modes: tuple[str, ...]
) -> dict[Key, Measured]:
    """Our program of a case and its peers; the gradient of a case has the case itself as peers."""
    theirs = case.removeprefix("gradient of ")
    keys = [Key(OURS, case, mode) for mode in modes]
    for peer in peers:
        own_modes = modes if peer in JAX_PEERS else modes[-1:]
        keys += [Key(peer, theirs, mode) for mode in own_modes]
    return in_turns(keys, rounds, quick)
