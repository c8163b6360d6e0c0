"""The grammar of names: hubs, channels, namespaces and patterns. Pure; shared with the clients.

A *channel* is 1–255 bytes of UTF-8 in NFC, without control characters, white space, `*` or `#`.
`:` separates segments; what stands before the first `:` is the *namespace*. A name that starts with
`/` is a topic of the tree: `/a/b` lies under `/a`, and subscribing to a topic covers what lies under it.

A *pattern* is a channel name with wildcards: `*` stands for any run of characters, `#` for exactly one
segment between `:`. Hubs never appear inside these names: a hub is always a separate, typed argument.
"""

import re
import unicodedata
from functools import lru_cache

from arauto.errors import ArautoError, Code

__all__ = [
    "CHANNEL_BYTES_MAX",
    "HUB_LEN_MAX",
    "ancestors",
    "check_channel",
    "check_hub",
    "check_id",
    "check_pattern",
    "is_pattern",
    "is_topic",
    "matches",
    "namespace_of",
]

HUB_LEN_MAX = 64
CHANNEL_BYTES_MAX = 255
_STARS_MAX = 4

_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")


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
    return name


def _check_text(name: str) -> None:
    if not name:
        raise _bad("a channel name is not empty")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _bad("a channel name is valid UTF-8") from None
    if size_bytes > CHANNEL_BYTES_MAX:
        raise _bad(f"a channel name has at most {CHANNEL_BYTES_MAX} bytes")
    if _FORBIDDEN.search(name):
        raise _bad("a channel name has no white space and no control characters")
    if not name.isascii() and not unicodedata.is_normalized("NFC", name):
        raise _bad("a channel name is in Unicode normal form C")
    if name[0] == "/" and name != "/" and "" in name[1:].split("/"):
        raise _bad("a topic path has no empty segment and no slash at its end")


def _bad(rule: str) -> ArautoError:
    return ArautoError(Code.BAD_CHANNEL_NAME, rule, field="channel")


def is_pattern(name: str) -> bool:
    """Whether the name has wildcards."""
    return "*" in name or "#" in name


def is_topic(name: str) -> bool:
    """Whether the name is a path of the topic tree."""
    return name[:1] == "/"


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

    A topic path covers itself and what lies under it. `*` takes any run, `#` one segment. Linear in
    the product of the lengths at worst; no regular expressions are built from what users send.
    """
    if pattern == name or pattern == "*":
        return True
    if pattern[:1] == "/" and not is_pattern(pattern):
        return name.startswith(pattern if pattern == "/" else pattern + "/")
    if "#" not in pattern and pattern.endswith("*") and pattern.count("*") == 1:
        return name.startswith(pattern[:-1])
    return _glob(pattern, name)


def _glob(pattern: str, name: str) -> bool:
    # Backtracks to the last star only; `#` eats up to the next colon and needs at least one character.
    p = n = 0
    star_p = star_n = -1
    while True:
        if p < len(pattern) and pattern[p] == "*":
            star_p, star_n = p, n
            p += 1
            continue
        if p < len(pattern) and pattern[p] == "#":
            end = name.find(":", n)
            end = len(name) if end == -1 else end
            whole = n == 0 or name[n - 1] == ":"
            if end > n and whole:
                p, n = p + 1, end
                continue
        elif p < len(pattern) and n < len(name) and pattern[p] == name[n]:
            p, n = p + 1, n + 1
            continue
        elif p == len(pattern) and n == len(name):
            return True
        if star_p == -1 or star_n >= len(name):
            return False
        star_n += 1
        p, n = star_p + 1, star_n
