"""What a session may subscribe to, publish to and call, decided from its grants. Pure.

A decision depends on the set of grants alone: not on their order, not on earlier decisions. For a single
channel a grant must match it. For a *pattern* or a *topic* the grant must cover everything that the pattern
can match or that lies under the topic. That is decided conservatively: a wildcard in what is asked for is
an opaque piece that only a grant's `*` takes in (and `#` a grant's `#`), so the answer may be a needless
"no", never a wrong "yes". Two grants that cover a pattern only together do not cover it. The
clients decide by the same code; `tests/vectors/grants.json` holds both to it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from arauto.errors import ArautoError, Code
from arauto.model import Grants
from arauto.names import (
    ancestors,
    check_pattern,
    compile_pattern,
    is_pattern,
    is_topic,
    literal_prefix,
    matches,
)

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

__all__ = ["GRANTS_LEN_MAX", "GrantSet", "check_grants", "covers"]

GRANTS_LEN_MAX = 1_000
_MEMO_LEN_MAX = 1_024
_COMPILED_LEN_MAX = 4_096
#: What trying a pattern takes beside the comparing, and what compiling one does, counted in comparisons.
_TRYING, _COMPILING = 128, 131_072


def check_grants(grants: Grants) -> Grants:
    """Return the grants if there are not too many and each names a well-formed channel or pattern.

    Raises:
        ArautoError: BAD_FIELD, naming the list and the place in it.
    """
    for field, items in (("channels", grants.channels), ("rpcs", grants.rpcs)):
        if len(items) > GRANTS_LEN_MAX:
            raise ArautoError(
                Code.BAD_FIELD, f"at most {GRANTS_LEN_MAX} grants in a list", field=field
            )
    for index, grant in enumerate(grants.channels):
        _check(grant.channel, f"channels[{index}].channel")
    for index, method in enumerate(grants.rpcs):
        _check(method, f"rpcs[{index}]")
    return grants


def _check(pattern: str, field: str) -> None:
    try:
        check_pattern(pattern)
    except ArautoError as error:
        raise ArautoError(Code.BAD_FIELD, error.message, field=field) from None


class GrantSet:
    """Grants, sorted once into what can be looked up and what must be tried one by one.

    Most are looked up: names, topics, and patterns whose one wildcard is a star at the end. The others are
    tried where what stands before their first wildcard fits, and what that takes is counted in `effort`.
    """

    __slots__ = ("_call", "_publish", "_subscribe")

    def __init__(self, grants: Grants) -> None:
        """Compile grants.

        Raises:
            ArautoError: BAD_FIELD, as `check_grants`.
        """
        check_grants(grants)
        self._subscribe = _Patterns(g.channel for g in grants.channels if g.subscribe)
        self._publish = _Patterns(g.channel for g in grants.channels if g.publish)
        self._call = _Patterns(grants.rpcs)

    @property
    def effort(self) -> int:
        """About how many characters were compared with others so far, to decide what could not be looked up.
        A thousand take less than a microsecond."""
        return self._subscribe.effort + self._publish.effort + self._call.effort

    @property
    def must_try(self) -> bool:
        """Whether there is anything that cannot be looked up."""
        return self._subscribe.must_try or self._publish.must_try

    def may_subscribe(self, name: str) -> bool:
        """Whether every channel that `name` (a channel, pattern or topic) stands for may be read."""
        if is_pattern(name) or is_topic(name):
            return self._subscribe.cover(name)
        return self._subscribe.match(name)

    def may_publish(self, channel: str) -> bool:
        """Whether this one channel or topic may be written. Nobody may publish to a pattern."""
        return not is_pattern(channel) and self._publish.match(channel)

    def may_call(self, method: str) -> bool:
        """Whether this one method may be called."""
        return not is_pattern(method) and self._call.match(method)


_matching = lru_cache(maxsize=_COMPILED_LEN_MAX)(compile_pattern)


@lru_cache(maxsize=_COMPILED_LEN_MAX)
def _covering(grant: str) -> re.Pattern[str]:
    # As matching a name, with two differences: a star in what is asked for is only ever taken by a star of
    # the grant, and `#` takes a segment of it only if no star could smuggle a colon into it.
    return compile_pattern(grant, segment="(?<![^:])[^:*]++(?![^:])")


class _Patterns:
    """A set of patterns. Plain names and topics are looked up; prefixes are tried in one C call."""

    __slots__ = (
        "_all",
        "_anything",
        "_earlier",
        "_globs",
        "_lens",
        "_memo",
        "_names",
        "_prefixes",
        "effort",
    )

    def __init__(self, patterns: Iterable[str]) -> None:
        self._all = frozenset(patterns)
        self._anything = "*" in self._all
        self._names = frozenset(p for p in self._all if not is_pattern(p))
        wild = sorted(p for p in self._all if is_pattern(p))
        self._prefixes = tuple(p[:-1] for p in wild if _is_prefix(p))
        self._globs: dict[str, list[str]] = {}
        """By what stands before their first wildcard."""
        for pattern in wild:
            if not _is_prefix(pattern):
                self._globs.setdefault(literal_prefix(pattern), []).append(pattern)
        self._lens = tuple(sorted({len(prefix) for prefix in self._globs}))
        self._memo: dict[str, bool] = {}
        self._earlier: dict[str, bool] = {}
        """The memo before this one, so that what a request of many names decided is there to its end."""
        self.effort = 0

    @property
    def must_try(self) -> bool:
        return bool(self._globs)

    def match(self, channel: str) -> bool:
        if self._anything or channel in self._names:
            return True
        if is_topic(channel) and any(above in self._names for above in ancestors(channel)):
            return True
        return channel.startswith(self._prefixes) or (
            bool(self._globs) and self._try(channel, _matching)
        )

    def cover(self, wanted: str) -> bool:
        # The same as asking `covers` for each: nothing but a star takes in a star, so a name is not enough,
        # and a prefix is if what is asked for begins with it.
        if self._anything or wanted in self._all:
            return True
        if is_topic(wanted):
            if not is_pattern(wanted) and any(above in self._names for above in ancestors(wanted)):
                return True
            wanted += "*"
        return wanted.startswith(self._prefixes) or (
            bool(self._globs) and self._try(wanted, _covering)
        )

    def _try(self, name: str, compiled: "_lru_cache_wrapper[re.Pattern[str]]") -> bool:
        # A thousand globs take most of a millisecond, and a session publishes to few channels. What is to be
        # covered has a wildcard, so it is not mistaken for what is to be matched.
        found = self._memo.get(name)
        if found is None:
            found = self._earlier.get(name)
            if found is None:
                before_len = compiled.cache_info().misses
                found = any(compiled(glob).match(name) is not None for glob in self._alike(name))
                self.effort += _COMPILING * (compiled.cache_info().misses - before_len)
            if len(self._memo) >= _MEMO_LEN_MAX:
                self._earlier, self._memo = self._memo, {}
            self._memo[name] = found
        return found

    def _alike(self, name: str) -> Iterator[str]:
        """The globs that begin as the name does."""
        for size in self._lens:
            for glob in self._globs.get(name[:size], ()):
                self.effort += _TRYING + len(glob) * len(name)
                yield glob


def _is_prefix(pattern: str) -> bool:
    return pattern.endswith("*") and pattern.count("*") == 1 and "#" not in pattern


def covers(grant: str, wanted: str) -> bool:
    """Whether everything `wanted` stands for is certainly matched by `grant`.

    The law that tests hold it to: if `covers(g, p)` and `matches(p, c)`, then `matches(g, c)`.
    """
    if grant == "*" or grant == wanted:
        return True
    if is_topic(grant):
        return not is_pattern(wanted) and matches(grant, wanted)
    if is_topic(wanted):
        # Stands for itself and for all that starts with it and a slash; `wanted*` takes in both.
        return is_pattern(grant) and _covering(grant).match(wanted + "*") is not None
    return _covering(grant).match(wanted) is not None
