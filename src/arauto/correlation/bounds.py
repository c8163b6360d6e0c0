"""How many bytes a rule may make of what clients send. Counts alone bound nothing: one rule can join a long
text with itself again and again, and keep it for every key.

What is too large is no value (NULL), is cut, or is left out, as each bound says; the rule goes on, and it is
counted here, so that whoever runs rules can tell.
"""

import hashlib

__all__ = [
    "CALL_BYTES_MAX",
    "EVENT_BYTES_MAX",
    "KEY_BYTES_MAX",
    "MEMORY_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "TEXT_LEN_MAX",
    "WAITING_BYTES_MAX",
    "Refused",
    "bytes_of",
    "refused",
    "short",
]

#: Characters of a text that `||` makes; a longer one is NULL.
TEXT_LEN_MAX = 65_536
#: A key, as JSON. A row with a longer one does not concern the rule.
KEY_BYTES_MAX = 4_096
#: The texts of one event together; those that do not fit are NULL. A message of the usual size fits.
EVENT_BYTES_MAX = 65_536
#: The events of one key that wait for their time; the youngest are left out.
WAITING_BYTES_MAX = 1_048_576
#: What a rule remembers for one key beside them; the youngest attempts are forgotten.
MEMORY_BYTES_MAX = 2_097_152
#: The events of one key that are looked at in one go, and the matches made of them; the rest is left out.
CALL_BYTES_MAX = 16_777_216
#: A match's payload as JSON; its texts are cut.
PAYLOAD_BYTES_MAX = 65_536

_SHORT_LEN = 32


class Refused:
    """Counts what was too large, in this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


#: Looked at before and after a rule has its turn.
refused = Refused()


def bytes_of(text: str) -> int:
    """How many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def short(text: str) -> str:
    """Something short that is the same for the same text and for no other: for sets of many."""
    if len(text) <= _SHORT_LEN:
        return text
    # Longer than any text that stands for itself.
    return f"sha256:{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:40]}"
