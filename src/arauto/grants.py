"""What a session may subscribe to, publish to and call, decided from its grants. Pure.

A decision depends on the set of grants alone: not on their order, not on earlier decisions. For a single
channel a grant must match it. For a *pattern* or a *topic* the grant must cover everything that the pattern
can match or that lies under the topic. That is decided conservatively: a wildcard in what is asked for is
an opaque piece that only a grant's `*` takes in (and `#` a grant's `#`), so the answer may be a needless
"no", never a wrong "yes". Two grants that cover a pattern only together do not cover it. The
clients decide by the same code; `tests/vectors/grants.json` holds both to it.
"""

from collections.abc import Iterable

from arauto.errors import ArautoError, Code
from arauto.model import Grants
from arauto.names import ancestors, check_pattern, is_pattern, is_topic, matches

__all__ = ["GRANTS_LEN_MAX", "GrantSet", "check_grants", "covers"]

GRANTS_LEN_MAX = 1_000
_MEMO_LEN_MAX = 128


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
    """Grants, sorted once into what can be looked up and what must be tried one by one."""

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


class _Patterns:
    """A set of patterns. Plain names and topics are looked up; prefixes are tried in one C call."""

    __slots__ = ("_all", "_anything", "_globs", "_memo", "_names", "_prefixes")

    def __init__(self, patterns: Iterable[str]) -> None:
        self._all = tuple(sorted(set(patterns)))
        self._anything = "*" in self._all
        self._names = frozenset(p for p in self._all if not is_pattern(p))
        wild = [p for p in self._all if is_pattern(p)]
        self._prefixes = tuple(p[:-1] for p in wild if _is_prefix(p))
        self._globs = tuple(p for p in wild if not _is_prefix(p))
        self._memo: dict[str, bool] = {}

    def match(self, channel: str) -> bool:
        if self._anything or channel in self._names:
            return True
        if is_topic(channel) and any(above in self._names for above in ancestors(channel)):
            return True
        return channel.startswith(self._prefixes) or (
            bool(self._globs) and self._match_globs(channel)
        )

    def _match_globs(self, channel: str) -> bool:
        # A thousand globs take most of a millisecond, and a session publishes to few channels.
        found = self._memo.get(channel)
        if found is None:
            found = any(matches(p, channel) for p in self._globs)
            if len(self._memo) >= _MEMO_LEN_MAX:
                self._memo.clear()
            self._memo[channel] = found
        return found

    def cover(self, wanted: str) -> bool:
        return self._anything or any(covers(grant, wanted) for grant in self._all)


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
        return is_pattern(grant) and _covers(grant, wanted + "*")
    return _covers(grant, wanted)


def _covers(grant: str, wanted: str) -> bool:
    # As matching a name, with two differences: a star in `wanted` is only ever taken by a star of the
    # grant, and `#` in the grant takes a segment of `wanted` only if no star could smuggle a colon into it.
    g = w = 0
    star_g = star_w = -1
    while True:
        if g < len(grant) and grant[g] == "*":
            star_g, star_w = g, w
            g += 1
            continue
        if g < len(grant) and grant[g] == "#":
            end = _segment_end(wanted, w)
            if end > w:
                g, w = g + 1, end
                continue
        elif g < len(grant) and w < len(wanted) and grant[g] == wanted[w]:
            g, w = g + 1, w + 1
            continue
        elif g == len(grant) and w == len(wanted):
            return True
        if star_g == -1 or star_w >= len(wanted):
            return False
        star_w += 1
        g, w = star_g + 1, star_w


def _segment_end(wanted: str, start: int) -> int:
    """Where the whole, starless segment that begins at `start` ends; `start` if there is none."""
    if start > 0 and wanted[start - 1] != ":":
        return start
    end = wanted.find(":", start)
    end = len(wanted) if end == -1 else end
    return start if "*" in wanted[start:end] else end
