"""Speed against other simulators, and against the machine.

`python -m benchmarks.peers` measures ours and theirs in fresh processes pinned to one core that
take turns, as medians of process CPU time, after checking that both compute the same motion, and
writes `out/bench/peers.md`, `peers.json` and `chains.png`. `--quick` takes fewer turns, shorter
runs and small chains, and the mode without raised loop threshold only where something is aimed at
there. What is compared and what is aimed at: `benchmarks/peers/rows.py`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks._processes import MODES, pin_to_one_core
from benchmarks.peers import report, whole_process
from benchmarks.peers.cases import CHAIN_SIZES, run_of
from benchmarks.peers.rows import GRADIENTS, ROWS
from benchmarks.peers.turns import OURS, Key, Measured, group, in_turns

ROUNDS, QUICK_ROUNDS = 7, 3
COMPILE_ROUNDS = 3
QUICK_SIZES = CHAIN_SIZES[:2]
# These compile long.
NOT_QUICK = (
    *("gradient of slider-crank", "gradient of chain-16", "gradient of two arms"),
    *("links batch", "arm with gripper batch", "quadruped batch"),
    "standing batch",
)
# A chain is left out if one run of it would take longer, s.
LONGEST_RUN, QUICK_LONGEST_RUN = 15.0, 3.0


def predicted(costs: dict[int, float], links: int) -> float:
    """Seconds a step of a chain of so many links, from those measured: growing as between the two
    longest, and at least in proportion.
    """
    sizes = sorted(costs)
    if not sizes:
        return 0.0
    last = sizes[-1]
    power = report.growth({n: costs[n] for n in sizes[-2:]}) if len(sizes) > 1 else 1.0
    return costs[last] * (links / last) ** max(power, 1.0)


def measure(quick: bool) -> dict[str, Any]:
    """All figures, as they are written."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    bound = QUICK_LONGEST_RUN if quick else LONGEST_RUN
    groups: dict[str, dict[Key, Measured]] = {}
    chains: dict[int, float] = {}
    left_out: dict[str, str] = {}
    rows = {case: [r for r in ROWS if r.case == case] for case in dict.fromkeys(
        [r.case for r in ROWS] + list(GRADIENTS)
    )}  # fmt: skip
    for case, own in rows.items():
        links = int(case.removeprefix("chain-")) if case.startswith("chain-") else None
        if quick and (case in NOT_QUICK or (links and links not in QUICK_SIZES)):
            left_out[case] = "not in the quick run"
            continue
        expected = predicted(chains, links) * run_of(case, quick).steps if links else 0.0
        if expected > bound:
            left_out[case] = f"left out: a run of ours would take some {expected:.0f} s"
            if not quick:
                # The plot shows theirs.
                keys = [Key(row.peer, case, tuple(MODES)[-1]) for row in own]
                groups[case] = in_turns(keys, rounds, quick)
            continue
        both = not quick or any(row.as_it_comes is not None for row in own)
        modes = tuple(MODES) if both else tuple(MODES)[-1:]
        begin = time.perf_counter()
        groups[case] = group(case, tuple(row.peer for row in own), rounds, quick, modes)
        raised = groups[case][Key(OURS, case, tuple(MODES)[-1])]
        if links and raised.costs:
            chains[links] = raised.median()
        print(f"{case}: {time.perf_counter() - begin:.0f} s", flush=True)
    ends = sorted({min(chains), max(chains)}) if chains else []
    modes = tuple(MODES)[-1:] if quick else tuple(MODES)
    compiled = {
        mode: whole_process.compile_seconds(ends, 1 if quick else COMPILE_ROUNDS, mode)
        for mode in modes
    }
    first = {mode: whole_process.first_result_seconds(rounds, mode) for mode in modes}
    return report.numbers(groups, left_out, compiled, first)


def main() -> None:
    """Measure, print the table, and write it with the numbers and a plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="in some minutes")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for results")
    arguments = parser.parse_args()
    pin_to_one_core()
    results = measure(arguments.quick)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "peers.json").write_text(json.dumps(results, indent=2) + "\n")
    table = report.table(results, arguments.quick)
    (arguments.out / "peers.md").write_text(table + "\n")
    report.plot(results, arguments.out / "chains.png")
    print(table)


if __name__ == "__main__":
    main()
