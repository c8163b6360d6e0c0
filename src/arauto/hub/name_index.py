"""Names in order, so that those a pattern covers are found without looking at all of them. No I/O, no
hub types.

What a pattern costs grows with the names that start as it does: a prefix or topic looks at nothing but
what it covers. A pattern that starts with a wildcard has to look at every name, so whoever walks many
does it page by page.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

from sortedcontainers import SortedSet  # type: ignore[import-untyped]

from arauto.hub.matcher import trying_steps
from arauto.names import is_pattern, is_topic, literal_prefix, matches

__all__ = ["SLICE_LEN", "NameIndex"]

#: What concerns many channels or sessions is done in slices of this many, so that a large hub stalls nobody.
SLICE_LEN = 500

#: The steps that comparing one name with a pattern counts for.
_COMPARISON_LEN = 10
#: And those of a matcher, which are shorter.
_STEPS_PER_NAME = 2


class NameIndex:
    """A set of channel names, ordered by code point."""

    __slots__ = ("_names", "_range", "effort")

    def __init__(self) -> None:
        self.effort = 0
        """What comparing names with patterns took so far, in the steps of `Matcher.effort`."""
        self._names = SortedSet()
        self._range: Callable[..., Iterator[str]] = self._names.irange

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self._names.add(name)

    def discard(self, name: str) -> None:
        self._names.discard(name)

    def matching(self, pattern: str) -> Iterator[str]:
        """The names a pattern or topic covers, in order. Nothing may be added or removed meanwhile."""
        exact = _covers_all_candidates(pattern)
        for name in self._candidates(pattern, ""):
            if exact or matches(pattern, name):
                yield name

    def page(self, pattern: str, after: str, scan_len: int) -> tuple[list[str], str]:
        """The covered names among the next candidates behind `after`, and where to go on; "" = done.

        About `scan_len` steps of work: a name that has to be compared counts as many.
        """
        exact = _covers_all_candidates(pattern)
        if not exact:
            scan_len = max(1, scan_len // _COMPARISON_LEN)
        candidates = list(islice(self._candidates(pattern, after), scan_len))
        last = candidates[-1] if len(candidates) == scan_len else ""
        if exact:
            return candidates, last
        chars = sum(map(len, candidates))
        self.effort += _STEPS_PER_NAME * len(candidates) + trying_steps(pattern, chars)
        return [name for name in candidates if matches(pattern, name)], last

    async def walk(self, pattern: str) -> AsyncIterator[list[str]]:
        """The covered names, slice by slice, with a pause behind each. Which come or go meanwhile is not
        told."""
        after = ""
        while True:
            page, after = self.page(pattern, after, SLICE_LEN)
            yield page
            if not after:
                return
            await asyncio.sleep(0)

    def _candidates(self, pattern: str, after: str) -> Iterator[str]:
        for low, high in _ranges(pattern):
            if after < low:
                yield from self._range(low, high, (True, False))
            elif high is None or after < high:
                yield from self._range(after, high, (False, False))


def _covers_all_candidates(pattern: str) -> bool:
    return not is_pattern(pattern) or (pattern.find("*") == len(pattern) - 1 and "#" not in pattern)


def _ranges(pattern: str) -> tuple[tuple[str, str | None], ...]:
    """From where (inclusive) to where (exclusive) names lie that may be covered, in order."""
    if is_pattern(pattern):
        prefix = literal_prefix(pattern)
        return ((prefix, _behind(prefix)),)
    if not is_topic(pattern):
        return ((pattern, pattern + "\0"),)
    if pattern == "/":
        return (("/", _behind("/")),)
    # The topic itself; between it and what lies under it others may sort, such as /a-b between /a and /a/b.
    return (pattern, pattern + "\0"), (pattern + "/", _behind(pattern + "/"))


def _behind(prefix: str) -> str | None:
    """The first text behind all that start with a prefix."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix[:-1] + chr(last + 1)
        prefix = prefix[:-1]
    return None
