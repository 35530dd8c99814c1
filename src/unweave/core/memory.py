"""How much memory there is, so that what does not fit is refused before it is begun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_GIB = 2.0**30


def available_memory() -> float:
    """Bytes that can be had without swapping; within a container no more than its limit. Infinite if unknown."""
    return min(_of_machine(), _of_container())


def peak_memory() -> float:
    """Bytes this process has held at most so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def spell_bytes(size: float) -> str:
    """ "5.96 GiB", "12 MiB"."""
    for unit, name in ((_GIB * 1024, "TiB"), (_GIB, "GiB"), (2.0**20, "MiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1024:.3g} KiB"


def _of_machine() -> float:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _of_container() -> float:
    """What is left of a control group's limit."""
    folder = Path("/sys/fs/cgroup")
    for limit, used in (
        (folder / "memory.max", folder / "memory.current"),
        (folder / "memory" / "memory.limit_in_bytes", folder / "memory" / "memory.usage_in_bytes"),
    ):
        try:
            return max(float(limit.read_text()) - float(used.read_text()), 0.0)
        except (OSError, ValueError):
            continue
    return float("inf")
