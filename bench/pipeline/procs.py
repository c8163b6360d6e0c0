"""Processor time of this process and all it started."""

import os
from pathlib import Path

from arauto.bench.procfs import process_tree

__all__ = ["cpu_s"]


def cpu_s(pid: int | None = None) -> float:
    """Seconds of processor time that a process and its living descendants have used."""
    ticks = 0
    for each in process_tree(pid or os.getpid()):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
