"""The recovery decision: can a returning subscriber get everything it missed? Pure.

A client comes back with the place it last saw. It either receives every message after that place, or is
told plainly that it may have missed something. There is no third outcome.
"""

from enum import Enum

from arauto.model import Serial

__all__ = ["Recovery", "decide"]


class Recovery(Enum):
    """Where the missed messages come from."""

    NOTHING_MISSED = "nothing missed"
    FROM_MEMORY = "from live history"
    FROM_STORE = "from the store"
    IMPOSSIBLE = "impossible"


def decide(
    since: Serial, top: Serial, memory_floor: int, *, stored_all: bool, missed_max: int
) -> Recovery:
    """Decide how to recover from `since` on a channel whose last message is `top`.

    Args:
        since: the client's place.
        top: the channel's place now.
        memory_floor: live history holds every message of the epoch with a larger offset.
        stored_all: whether every message of the channel is stored (only then can the store prove that
            nothing is missing).
        missed_max: more than this many missed messages are not replayed on subscribe.
    """
    if since.epoch != top.epoch or since.offset > top.offset:
        # Another epoch is another sequence; an offset from the future means ours was lost.
        return Recovery.IMPOSSIBLE
    missed = top.offset - since.offset
    if missed == 0:
        return Recovery.NOTHING_MISSED
    if missed > missed_max:
        return Recovery.IMPOSSIBLE
    if since.offset >= memory_floor:
        return Recovery.FROM_MEMORY
    if stored_all:
        return Recovery.FROM_STORE
    return Recovery.IMPOSSIBLE
