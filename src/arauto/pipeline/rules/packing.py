"""Events on their way to the matcher: a rule's name with a key, and one packed value. Pure."""

import msgspec

from arauto.correlation.program import Event

__all__ = ["SEPARATOR", "pack", "split_subject", "unpack"]

#: Between the name of a rule's state and the key. Neither can hold it: names are words, keys are JSON.
SEPARATOR = "\n"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Event, int]).decode


def split_subject(subject: str) -> tuple[str, str]:
    """The name of the rule's state, and the key."""
    ref, _, key = subject.partition(SEPARATOR)
    return ref, key


def pack(event: Event, settled_ms: int) -> bytes:
    """An event, and the time in milliseconds before which no other will come (0 = not known)."""
    return _encode((event, settled_ms))


def unpack(packed: bytes) -> tuple[Event, int]:
    """What `pack` was given."""
    return _decode(packed)
