"""Events on their way from SQL to the matcher: a rule's name with a key, and a small JSON text. Pure."""

import msgspec

from arauto.correlation.program import Event

__all__ = ["SEPARATOR", "split_subject", "unpack"]

#: Between the name of a rule's state and the key. Neither can hold it: names are words, keys are JSON.
SEPARATOR = "\n"


class _Packed(msgspec.Struct):
    ms: int
    seq: int
    bits: int
    nums: list[str | None]
    texts: tuple[str | None, ...]
    node: str = ""
    settled_ms: int = 0


_decode = msgspec.json.Decoder(_Packed).decode


def split_subject(subject: str) -> tuple[str, str]:
    """The name of the rule's state, and the key."""
    ref, _, key = subject.partition(SEPARATOR)
    return ref, key


def unpack(text: str) -> tuple[Event, int]:
    """The event of a row, and the time in milliseconds before which no other will come (0 = not known)."""
    found = _decode(text)
    nums = tuple([None if number is None else float(number) for number in found.nums])
    event = Event(found.ms, found.node, found.seq, found.bits, nums, found.texts)
    return event, found.settled_ms
