"""From when on a rule sees rows: from those that were written after it was set, whenever it begins to run.

The journal says where it was set. On the same node rows are compared by their place, since clocks are set
back at times; on other nodes by their time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import structlog

from arauto.errors import ArautoError, Code
from arauto.pipeline.source.journal import Journal, RuleChange
from arauto.pipeline.source.offsets import Offsets, Place
from arauto.storage.incarnation import first_seq_of

__all__ = ["RuleId", "Since", "find_since", "not_before", "starting_place"]

_log = structlog.get_logger(__name__)

#: Rows looked at for the place where a rule was set, by node; and at a time.
_LOOK_BACK_ROWS = 1_000_000
_LOOK_ROWS = 50_000
#: Clocks of nodes may differ by so much when a place is looked for by its time.
_SLACK_MS = 60_000

RuleId = tuple[str, str]


class Since(msgspec.Struct, frozen=True):
    """Rows of `node` after `seq`, and of other nodes from `ts_ms` on."""

    node: str
    seq: int
    ts_ms: int

    def covers(self, node: str, seq: int, ts_ms: int) -> bool:
        return seq > self.seq if node == self.node else ts_ms >= self.ts_ms


def find_since(journal: Journal, rules: Iterable[RuleId]) -> dict[RuleId, Since]:
    """Where each rule was set last. One that was set before all that is looked at has no entry."""
    wanted = set(rules)
    found: dict[RuleId, Since] = {}
    for node, place in journal.places().items():
        missing = set(wanted)
        for change in _changes(journal, node, place):
            rule = (change.hub, change.rule)
            if change.is_set and rule in missing:
                missing.remove(rule)
                known = found.get(rule)
                if known is None or known.ts_ms < change.ts_ms:
                    found[rule] = Since(node, change.seq, change.ts_ms)
            if not missing:
                break
    return found


def _changes(journal: Journal, node: str, place: Place) -> Iterator[RuleChange]:
    """The changes of rules that a node wrote, the last one first, as far back as can be looked at."""
    upto, first = place.last, max(first_seq_of(node) - 1, place.last - _LOOK_BACK_ROWS)
    while upto > first:
        after = max(first, upto - _LOOK_ROWS)
        if after < place.trimmed < upto:
            # What is in the database does not depend on the segments.
            after = place.trimmed
        try:
            yield from reversed(journal.rule_changes(node, after, upto))
        except (ArautoError, FileNotFoundError) as error:
            if isinstance(error, ArautoError) and error.code is not Code.STORAGE_CORRUPT:
                raise
            # Rules that were set before are as good as very old ones. None is to wait for a good copy.
            _log.warning(
                "rules are not looked for in what cannot be read", node=node, error=str(error)
            )
            return
        upto = after


def not_before(
    journal: Journal, found: Mapping[RuleId, Since | None], planned: Offsets
) -> dict[RuleId, Since | None]:
    """From when on rules see rows of a stream that has come so far without them.

    A stream that waits for rules has not passed the place where they were set. One that did not wait goes on
    behind what it has planned, which it may have to read again.
    """
    seen = dict(found)
    planned_ms: dict[str, int] = {}
    for rule, since in found.items():
        last = planned.get(since.node, 0) if since is not None else 0
        if since is not None and last > since.seq:
            if since.node not in planned_ms:
                planned_ms[since.node] = journal.time_ms(since.node, last)
            seen[rule] = Since(since.node, last, max(since.ts_ms, planned_ms[since.node]))
    return seen


def starting_place(
    journal: Journal, rules: Iterable[RuleId], since: Mapping[RuleId, Since | None]
) -> Offsets:
    """Where a stream has to begin so that these rules see all they are to see.

    A rule that was set before all that was looked at begins with what the database still has of that.
    """
    known = [since.get(rule) for rule in rules]
    return {node: _before(journal, node, place, known) for node, place in journal.places().items()}


def _before(journal: Journal, node: str, place: Place, known: Sequence[Since | None]) -> int:
    """The last row of a node that none of the rules need see."""
    last = min((each.seq for each in known if each and each.node == node), default=place.last)
    if None in known:
        last = min(last, place.last, max(place.trimmed, place.last - _LOOK_BACK_ROWS))
    # The one that was set first elsewhere stands for all of those.
    times = [each.ts_ms for each in known if each and each.node != node]
    if not times:
        return last
    low, high = first_seq_of(node) - 1, last
    while low < high:
        middle = (low + high + 1) // 2
        if journal.time_ms(node, middle) < min(times) - _SLACK_MS:
            low = middle
        else:
            high = middle - 1
    return low
