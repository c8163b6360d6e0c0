"""Epochs: numbers for unbroken sequences of messages. Pure.

An epoch is the time it began at, random bits, and one bit that says whether every message of it is
stored. So epochs grow with time, two nodes do not make the same one, and a place alone tells whether
the store can prove what came after it. Fits 63 bits until the year 2109.
"""

__all__ = ["NOT_KEPT", "RANDOM_BITS", "began_ms", "is_fully_stored", "make_epoch"]

RANDOM_BITS = 20
_TIME_SHIFT = RANDOM_BITS + 1

#: In place of how long the messages of an epoch are kept in the store: not all of them are stored.
NOT_KEPT = -1


def make_epoch(now_ms: int, random: int, *, fully_stored: bool, above: int = 0) -> int:
    """A new epoch, larger than `above` even if the clock went back.

    Args:
        now_ms: no message of an earlier epoch of the same hub has a later time.
        random: `RANDOM_BITS` bits.
        fully_stored: whether every message of it will be stored.
        above: the epoch before it.
    """
    epoch = max((now_ms << _TIME_SHIFT) | (random << 1), (above | 1) + 1)
    return epoch | int(fully_stored)


def is_fully_stored(epoch: int) -> bool:
    """Whether every message of the epoch is stored before anybody sees it."""
    return bool(epoch & 1)


def began_ms(epoch: int) -> int:
    """Messages later than this are of this epoch or of one after it."""
    return epoch >> _TIME_SHIFT
