"""What the kernel says about a server's processes: memory, and which processes belong to it."""

from pathlib import Path

import msgspec

from arauto.bench.failure import BenchError

__all__ = ["Memory", "memory", "parse_smaps_rollup", "process_tree"]

_PROC = Path("/proc")


class Memory(msgspec.Struct, frozen=True):
    """Resident memory. `pss` shares pages used by several processes out between them."""

    rss_bytes: int
    pss_bytes: int


def process_tree(pid: int) -> list[int]:
    """Return a process and all its living descendants, parents first."""
    tree = [pid]
    for parent in tree:
        try:
            threads = sorted((_PROC / str(parent) / "task").iterdir())
            for thread in threads:
                tree.extend(int(child) for child in (thread / "children").read_text().split())
        except FileNotFoundError:
            continue  # it ended while we looked
    return tree


def memory(pids: list[int]) -> Memory:
    """Return the memory of some processes together.

    Raises:
        BenchError: one of them is gone or may not be looked at.
    """
    rss_bytes = pss_bytes = 0
    for pid in pids:
        try:
            one = parse_smaps_rollup((_PROC / str(pid) / "smaps_rollup").read_text())
        except OSError as error:
            raise BenchError(
                f"cannot read the memory of process {pid}: {error.strerror}"
            ) from error
        rss_bytes += one.rss_bytes
        pss_bytes += one.pss_bytes
    return Memory(rss_bytes=rss_bytes, pss_bytes=pss_bytes)


def parse_smaps_rollup(text: str) -> Memory:
    """Read the two sums out of the kernel's `smaps_rollup`."""
    kib = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        kib[name] = int(rest.split()[0])
    return Memory(rss_bytes=kib["Rss"] * 1024, pss_bytes=kib["Pss"] * 1024)
