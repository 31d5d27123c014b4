"""Free memory of the host and of devices."""

import os
from pathlib import Path
from typing import Any


def free_host_bytes() -> int:
    """Free bytes of the computer's memory."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_device_bytes(device: Any) -> int:
    """Free bytes of a device; devices on the host share its memory."""
    statistics = device.memory_stats() or {}
    if "bytes_limit" not in statistics:
        return free_host_bytes()
    return statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)
