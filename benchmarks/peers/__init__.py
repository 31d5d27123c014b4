"""Speed against other simulators and against the machine: `python -m benchmarks.peers`."""
