"""The grammar of names: hubs, channels, namespaces and patterns. Pure; shared with the clients.

A *channel* is 1–255 bytes of UTF-8 in NFC, of visible characters (`visible.py`), without `*` or `#`.
`:` separates segments; what stands before the first `:` is the *namespace*. A name that starts with
`/` is a topic of the tree: `/a/b` lies under `/a`, and subscribing to a topic covers what lies under it.

A *pattern* is a channel name with wildcards: `*` stands for any run of characters, `#` for exactly one
segment between `:`. Hubs never appear inside these names: a hub is always a separate, typed argument.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from arauto.errors import ArautoError, Code
from arauto.visible import hidden_in

__all__ = [
    "ALL_CHANNELS",
    "CHANNEL_BYTES_MAX",
    "HUB_LEN_MAX",
    "ancestors",
    "check_channel",
    "check_hub",
    "check_id",
    "check_kept",
    "check_pattern",
    "compile_pattern",
    "compiled",
    "fits",
    "is_pattern",
    "is_topic",
    "is_wide",
    "literal_prefix",
    "matches",
    "namespace_of",
]

#: In a map of places by channel: that of every covered channel which is not named. No channel is called so.
ALL_CHANNELS = "*"
HUB_LEN_MAX = 64
CHANNEL_BYTES_MAX = 255
_STARS_MAX = 4
_HASHES_MAX = 16

_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")


def check_hub(name: str) -> str:
    """Return the hub name if it is well formed.

    Raises:
        ArautoError: BAD_HUB_NAME.
    """
    if not _HUB.match(name):
        raise ArautoError(
            Code.BAD_HUB_NAME,
            "a hub name is 1-64 of A-Z a-z 0-9 . _ - and starts with a letter or digit",
            field="hub",
        )
    return name


def check_id(name: str, field: str) -> str:
    """Return a rules or namespace id if it is well formed (same alphabet as hub names)."""
    if not _HUB.match(name):
        raise ArautoError(
            Code.BAD_FIELD,
            f"{field} is 1-64 of A-Z a-z 0-9 . _ - and starts with a letter or digit",
            field=field,
        )
    return name


@lru_cache(maxsize=8192)
def check_channel(name: str) -> str:
    """Return the channel name if it is well formed and has no wildcards.

    Raises:
        ArautoError: BAD_CHANNEL_NAME, saying which rule was broken.
    """
    if "*" in name or "#" in name:
        raise _bad("a channel name has no wildcards (* or #)")
    _check_text(name)
    return name


@lru_cache(maxsize=8192)
def check_pattern(name: str) -> str:
    """Return the channel name or pattern if it is well formed.

    Raises:
        ArautoError: BAD_CHANNEL_NAME.
    """
    _check_text(name)
    if name.startswith("/") and is_pattern(name):
        raise _bad("a topic path already covers what lies under it and takes no wildcards")
    if name.count("*") > _STARS_MAX:
        raise _bad(f"a pattern has at most {_STARS_MAX} stars")
    if any("#" in part and part != "#" for part in name.split(":")):
        raise _bad("# stands for one whole segment between colons")
    if name.count("#") > _HASHES_MAX:
        raise _bad(f"a pattern has at most {_HASHES_MAX} segments that are #")
    return name


def check_kept(name: str) -> str:
    """Return the name if a channel can ever have had it: earlier versions let characters in that do not show,
    and what was stored under such a name can still be looked up and deleted.

    Raises:
        ArautoError: BAD_CHANNEL_NAME.
    """
    if "*" in name or "#" in name:
        raise _bad("a channel name has no wildcards (* or #)")
    _check_size(name)
    if _CONTROL.search(name):
        raise _bad("a channel name has no white space and no control characters")
    return name


def _check_text(name: str) -> None:
    _check_size(name)
    if hidden := hidden_in(name):
        raise _bad(
            "a channel name has no white space and no control, invisible or unassigned characters; "
            f"this has U+{ord(hidden):04X}"
        )
    if not name.isascii() and not unicodedata.is_normalized("NFC", name):
        raise _bad("a channel name is in Unicode normal form C")
    if name[0] == "/" and name != "/" and "" in name[1:].split("/"):
        raise _bad("a topic path has no empty segment and no slash at its end")


def _check_size(name: str) -> None:
    if not name:
        raise _bad("a channel name is not empty")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _bad("a channel name is valid UTF-8") from None
    if size_bytes > CHANNEL_BYTES_MAX:
        raise _bad(f"a channel name has at most {CHANNEL_BYTES_MAX} bytes")


def _bad(rule: str) -> ArautoError:
    return ArautoError(Code.BAD_CHANNEL_NAME, rule, field="channel")


def is_pattern(name: str) -> bool:
    """Whether the name has wildcards."""
    return "*" in name or "#" in name


def is_topic(name: str) -> bool:
    """Whether the name is a path of the topic tree."""
    return name[:1] == "/"


def is_wide(name: str) -> bool:
    """Whether a subscription of that name covers more than one channel: a pattern or a topic."""
    return is_pattern(name) or is_topic(name)


def namespace_of(channel: str) -> str:
    """Return the part before the first `:`; "" if there is none."""
    head, colon, _ = channel.partition(":")
    return head if colon else ""


def ancestors(topic: str) -> list[str]:
    """Return the topics that lie above a path, nearest last: `/a/b/c` → `/`, `/a`, `/a/b`."""
    above = ["/"]
    at = topic.find("/", 1)
    while at != -1:
        above.append(topic[:at])
        at = topic.find("/", at + 1)
    return above if topic != "/" else []


def matches(pattern: str, name: str) -> bool:
    """Whether a subscription or grant `pattern` covers the channel (or narrower pattern) `name`.

    A topic path covers itself and what lies under it. `*` takes any run, `#` one segment. The time grows
    with the lengths of both, not with the ways the stars could be filled.
    """
    if pattern == name or pattern == "*":
        return True
    if pattern[:1] == "/" and not is_pattern(pattern):
        return name.startswith(pattern if pattern == "/" else pattern + "/")
    if "#" in pattern:
        return compiled(pattern).match(name) is not None
    pieces = pattern.split("*")
    return len(pieces) > 1 and fits(pieces, name)


def fits(pieces: Sequence[str], name: str) -> bool:
    """Whether a name is these texts (two or more) with any run of characters between each and the next."""
    first, *middle, last = pieces
    if not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        # The first place that fits leaves the most to the rest.
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return at <= end


def literal_prefix(pattern: str) -> str:
    """What every name that a pattern covers starts with: all before its first wildcard."""
    at = min(at for at in (pattern.find("*"), pattern.find("#"), len(pattern)) if at != -1)
    return pattern[:at]


def compile_pattern(pattern: str, *, segment: str = "[^:]++") -> re.Pattern[str]:
    """What matches the names that a pattern (no topic) covers. Takes a moment, so keep it. `segment` says
    what a `#` takes."""
    # Between two stars the first place that fits is as good as any later one, since it leaves the most to the
    # rest; so what was taken is never given back (atomic groups), and no pattern can make the search explode.
    first, *rest = [_literally(piece, segment) for piece in pattern.split("*")]
    if not rest:
        return re.compile(rf"{first}\Z")
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    return re.compile(rf"{first}{middle}.*?{rest[-1]}\Z", re.DOTALL)


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """The same, kept for those that were asked for lately."""
    return compile_pattern(pattern)


def _literally(piece: str, segment: str) -> str:
    # `#` stands for a whole segment: what surrounds it are colons, or the ends of the name.
    return segment.join(re.escape(text) for text in piece.split("#"))
