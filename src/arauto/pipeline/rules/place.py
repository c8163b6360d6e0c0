"""Where one of the rules' queries is in the journal: how far its rules are known, and from where they see.

What is decided here is on disk before the query starts, so that a batch that is done again has the same rows.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import structlog

from arauto.correlation.program import Program
from arauto.errors import ArautoError
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.rules.known import Known, KnownRule, read_known, touch_known, write_known
from arauto.pipeline.rules.patience import Patience
from arauto.pipeline.rules.registry import RuleSet
from arauto.pipeline.rules.since import RuleId, Since, find_since, not_before, starting_place
from arauto.pipeline.rules.trouble import done_upto, planned
from arauto.pipeline.source.gate import Gate, open_gate, unknown_changes
from arauto.pipeline.source.journal import Journal, RuleChange
from arauto.pipeline.source.offsets import Offsets

__all__ = ["RulePlace"]

_log = structlog.get_logger(__name__)

#: A change is a row of the journal. If that could not be written, the node is asked all the same.
_ASK_S = 5.0
#: No commit takes longer, unless the disk hangs.
_COMMIT_S = 1.0


class RulePlace:
    """Of one query.

    Args:
        checkpoint: the query's.
        url: says which database holds the journal.
        segments: where rows are that have left it.
        patience: for which hubs rows wait.
        on_passing: told for how many hubs nobody waits, when that changes.
    """

    def __init__(
        self,
        checkpoint: Path,
        url: Callable[[], str],
        segments: Path,
        patience: Patience | None = None,
        on_passing: Callable[[int], None] = lambda _hubs: None,
    ) -> None:
        self._checkpoint = checkpoint
        self._url = url
        self._segments = segments
        self._known: Offsets | None = None
        self._ends: Offsets | None = None
        """Up to where the journal was looked at for changes."""
        self._changed: set[str] = set()
        """Hubs with changes behind what is known."""
        self._asked_s = 0.0
        self._is_blind = False
        self._patience = patience or Patience()
        self._waited: set[str] = set()
        """Hubs for which rows wait, or the query starts anew."""
        self.passing: frozenset[str] = frozenset()
        """Hubs that nobody waits for now."""
        self._shown: frozenset[str] = frozenset()
        self._on_passing = on_passing
        self.gate = checkpoint.with_name(f"{checkpoint.name}.gate.json")

    def is_news(self) -> bool:
        """Whether it is time to ask for the node's rules. To be called before each time that is done."""
        changed = True
        self.passing = self._patience.over()
        try:
            with self._opened() as journal:
                ends = {node: place.last for node, place in journal.places().items()}
                if self._known is not None:
                    # What waits may wait for minutes: no row is looked at twice.
                    changes = unknown_changes(journal, self._ends or self._known, ends)
                    self._changed |= {each.hub for each in changes}
                    self._waited |= {each.hub for each in self._new(changes) if each.is_set}
                    changed = not self._changed <= self.passing
                self._ends = ends
            self._is_blind = False
        except ArautoError as error:
            self._ends = None
            if not self._is_blind:
                _log.warning("the journal could not be looked at", error=error.message)
            self._is_blind = True
        now_s = time.monotonic()
        if not changed and now_s - self._asked_s < _ASK_S:
            self.settle()
            return False
        self._asked_s = now_s
        if self._known is not None:
            # Before, the file tells of a pipeline that may have been killed.
            touch_known(self._checkpoint)
        return True

    def settle(self, changed: Iterable[str] = ()) -> None:
        """The rules that run are those of the node, as it was when `is_news` was called last, but for hubs
        that nobody waits for.

        Args:
            changed: hubs for which the query starts anew.
        """
        if self._ends is not None:
            self._patience.spend((self._waited | {*changed}) - self.passing)
            self._waited.clear()
            self._changed.clear()
            self._pass(self._patience.over())
            self._known = self._ends
            open_gate(self.gate, Gate(self._ends, self.passing))
        touch_known(self._checkpoint)

    def update(self, found: RuleSet) -> None:
        """What the node holds has changed, and what of it runs here has not."""
        known, versions = read_known(self._checkpoint), _versions(found)
        rules = tuple(
            msgspec.structs.replace(each, version=versions.get((each.hub, each.rule), each.version))
            for each in known.rules
        )
        self._write(msgspec.structs.replace(known, rules=rules, problems=found.problems))

    def begin(
        self, found: RuleSet, programs: Mapping[str, Program]
    ) -> tuple[Mapping[str, Since], str]:
        """(from when on each rule sees rows, by the name of its state; where a stream without a checkpoint
        starts)."""
        versions = _versions(found)
        mine = {(each.hub, each.rule) for each in programs.values()}
        known = read_known(self._checkpoint)
        since = known.since_of(versions)
        with self._opened() as journal:
            come = _found(journal, mine - since.keys())
            # Without a rule that is known, that was lost, and these may have planned what was begun.
            begun = planned(self._checkpoint) if known.rules else {}
            since |= not_before(journal, come, begun)
            place = starting_place(journal, mine, since)
        rules = [
            KnownRule(hub=hub, rule=rule, version=versions[hub, rule], since=since[hub, rule])
            for hub, rule in sorted(mine)
        ]
        self._write(Known(rules=tuple(rules), problems=found.problems, passing=self.passing))
        seen = {ref: since[each.hub, each.rule] for ref, each in programs.items()}
        by_ref = {ref: each for ref, each in seen.items() if each is not None}
        return by_ref, msgspec.json.encode(place).decode()

    def expired(self, starting: str, seen: Mapping[str, Coverage]) -> dict[str, Coverage]:
        """Rows that the query would read next, or where it starts, and that retention has taken.

        Args:
            starting: where a stream without a checkpoint starts.
            seen: what the lake holds.
        """
        start = done_upto(self._checkpoint)
        if start is None:
            start = msgspec.json.decode(starting, type=Offsets)
        with self._opened() as journal:
            return journal.expired(start, seen)

    def runs(self, *, yes: bool) -> None:
        """The query has started, or ended."""
        known = read_known(self._checkpoint)
        running_ms = time.time_ns() // 1_000_000 if yes else 0
        self._write(msgspec.structs.replace(known, running_ms=running_ms))

    def rest(self, found: RuleSet) -> None:
        """There are no rules to run."""
        self._write(Known(problems=found.problems, passing=self.passing))

    def _new(self, changes: list[RuleChange]) -> list[RuleChange]:
        """Those that the query's rules are not from already: the node keeps a rule, which is seen, a moment
        before the journal tells of it. They cost no second wait; but the node has to be asked, since it may
        hold a later one than it did."""
        if not changes:
            return changes
        since = {(each.hub, each.rule): each.since for each in read_known(self._checkpoint).rules}
        return [each for each in changes if not _is_from(each, since.get((each.hub, each.rule)))]

    def _pass(self, passing: frozenset[str]) -> None:
        self.passing = passing
        if passing != self._shown:
            for hub in sorted(passing - self._shown):
                _log.warning("a hub's rules change too often to wait for them", hub=hub)
            self._on_passing(len(passing))
            self._write(msgspec.structs.replace(read_known(self._checkpoint), passing=passing))

    def _write(self, known: Known) -> None:
        self._shown = known.passing
        write_known(self._checkpoint, known)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Journal]:
        journal = Journal(self._url(), self._segments, frozenset())
        try:
            yield journal
        finally:
            journal.close()


def _versions(found: RuleSet) -> dict[RuleId, str]:
    return {(hub, rule): version for hub, rule, version in found.fingerprint if rule}


def _is_from(change: RuleChange, since: Since | None) -> bool:
    return (
        since is not None
        and change.is_set
        and since.node == change.node
        and change.seq <= since.seq
    )


def _found(journal: Journal, rules: Iterable[RuleId]) -> dict[RuleId, Since | None]:
    found: dict[RuleId, Since | None] = dict.fromkeys(rules)
    found |= find_since(journal, found)
    missing = [rule for rule, since in found.items() if since is None]
    if missing:
        # The node keeps a rule first, and a moment later it is in the journal.
        time.sleep(_COMMIT_S)
        found |= find_since(journal, missing)
    return found
