"""One of the rules' queries while the pipeline runs: starts anew when its rules change, rests without any."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import structlog
from pyspark.sql.streaming.query import StreamingQuery

from arauto.config.addresses import admin_url
from arauto.correlation.program import Program
from arauto.errors import ArautoError
from arauto.pipeline.context import Context
from arauto.pipeline.feed import journal_stream, journal_url
from arauto.pipeline.lake.coverage import Coverage, count, merge, overlap
from arauto.pipeline.lake.erasures import begin_anew, read_erasures
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.rules.allowance import Allowance
from arauto.pipeline.rules.crowding import Crowding
from arauto.pipeline.rules.deliver import Delivery, Outcome, OutcomeSum
from arauto.pipeline.rules.forget import forgetting
from arauto.pipeline.rules.left_out import LeftOut, LeftOutSum, Reason
from arauto.pipeline.rules.place import RulePlace
from arauto.pipeline.rules.registry import RuleSet, kinds_of, rule_set
from arauto.pipeline.rules.reload import (
    Turn,
    Watch,
    changed_hubs,
    had_its_turn,
    look,
    restarted,
)
from arauto.pipeline.rules.stream import COUNTS, PLAN_VERSION, RULES, by_query, start_query
from arauto.pipeline.rules.trouble import Trouble, last_done
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.worker import lies_in_no_row, stop_query

__all__ = ["RuleQuery"]

_log = structlog.get_logger(__name__)

_POLL_S = 1
#: How often heartbeats become a batch once it has been silent for long.
_IDLE_S = 60
#: Alerts that a channel's rules refuse are told, and stop nothing.
_REFUSED_MAX = 1_000_000


class RuleQuery:
    """Keeps one query running with the node's rules.

    Args:
        name: which query.
        context: the configuration, Spark and the lake.
        token: the node's admin token.
        segments: where rows are that have left the journal.
        on_rules: told the rules each time the query starts.
        on_left_out: told how many alerts were not published, because their hub took no more.
        allowance: how many alerts each hub may publish; None = as many as there are.
        on_events_left_out: told what rules left out of what they were to look at, and why.
        on_passing: told for the rules of how many hubs nobody waits, when that changes.
        on_expired: told how many rows retention has taken before any rule saw them.
    """

    def __init__(
        self,
        name: str,
        context: Context,
        token: str,
        segments: Path,
        on_rules: Callable[[str, int], None],
        on_left_out: Callable[[int], None] = lambda _alerts: None,
        allowance: Allowance | None = None,
        on_events_left_out: Callable[[Reason, int], None] = lambda _reason, _count: None,
        on_passing: Callable[[int], None] = lambda _hubs: None,
        on_expired: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self._name = name
        self._context = context
        self._settings = context.config.pipeline
        self._url = admin_url(context.config)
        self._token = token
        self._segments = segments
        self._on_rules = on_rules
        self._on_left_out = on_left_out
        self._allowance = allowance or Allowance(0)
        self._on_events_left_out = on_events_left_out
        spark = context.spark.sparkContext
        # For all starts: PySpark keeps every accumulator for ever.
        self._left_out = spark.accumulator(LeftOut(), LeftOutSum())
        self._outcome = spark.accumulator(Outcome(), OutcomeSum())
        self._checkpoint = context.lake.checkpoint(name, PLAN_VERSION)
        self._trouble = Trouble(self._checkpoint)
        self._place = RulePlace(
            self._checkpoint, partial(journal_url, context.config), segments, on_passing=on_passing
        )
        self._crowding = Crowding(self._checkpoint)
        self._on_expired = on_expired
        self._told: dict[str, Coverage] = {}
        """Rows that are told to have expired."""
        self._is_careful = False
        self._done_before: int | None = None
        self._rules: RuleSet | None = None

    def run(self, stop: Event) -> None:
        """Go on until `stop` is set; raises what the query fails with."""
        query: StreamingQuery | None = None
        watch = Watch(frozenset(), time.monotonic() - 3600)
        self._rules = None
        try:
            with NodeApi(self._url, self._token) as api:
                while not stop.is_set():
                    found = self._fetch(api, watch)
                    if found is not None:
                        query, watch = self._take(query, watch, found)
                    if query is not None and self._name == COUNTS:
                        self._crowding.look(self._context.spark, query)
                    _pause(query, stop)
        except Exception as error:
            if lies_in_no_row(error):
                self._trouble.excuse()
            raise
        finally:
            if query is not None:
                self._end(query)

    def _take(
        self, query: StreamingQuery | None, watch: Watch, found: RuleSet
    ) -> tuple[StreamingQuery | None, Watch]:
        """Run these rules now, if it is time to."""
        place = self._place
        if self._is_same(found):
            self._tell_problems(found)
            if found.fingerprint != watch.running:
                place.update(found)
            self._rules = found
            place.settle()
            return query, replace(watch, running=found.fingerprint, changed_s=None)
        changed = changed_hubs(watch.running, found.fingerprint)
        watch, due = look(watch, found.fingerprint, time.monotonic(), place.passing)
        due = due and had_its_turn(watch, self._turn(query), time.monotonic())
        if due or self._care_is_over() or self._rules is None:
            first = self._rules is None
            query = self._change(query, found, () if first else changed - {""})
            return query, restarted(found.fingerprint, time.monotonic())
        if watch.changed_s is None:
            place.settle()
        return query, watch

    def _is_same(self, found: RuleSet) -> bool:
        """Whether this query runs just these rules of it already."""
        if self._rules is None or self._care_is_over():
            return False
        return found.fingerprint == self._rules.fingerprint or (
            by_query(found.programs)[self._name] == by_query(self._rules.programs)[self._name]
        )

    def _turn(self, query: StreamingQuery | None) -> Turn:
        status = query.status if query is not None else {}
        comes_up = str(status.get("message", "")).startswith("Initializing")
        is_at_work = comes_up or bool(status.get("isTriggerActive"))
        return Turn(is_at_work, self._done_before, last_done(self._checkpoint))

    def _care_is_over(self) -> bool:
        return self._is_careful and self._trouble.is_over()

    def _end(self, query: StreamingQuery) -> None:
        was_running = query.isActive
        stop_query(query)
        if was_running:
            self._trouble.excuse()
        self._place.runs(yes=False)

    def _fetch(self, api: NodeApi, watch: Watch) -> RuleSet | None:
        """The node's rules; None if they are what they were, or cannot be read."""
        is_news = self._place.is_news()
        waits = watch.changed_s is not None or self._rules is None or self._care_is_over()
        if not is_news and not waits:
            return None
        try:
            return forgetting(rule_set(api.correlations()), read_erasures(self._context.lake.root))
        except ArautoError as error:
            if self._rules is None:
                raise
            # What runs goes on running.
            _log.warning("the node's rules could not be read", error=error.message)
            return None

    def _change(
        self, query: StreamingQuery | None, found: RuleSet, changed: Iterable[str]
    ) -> StreamingQuery | None:
        """Let the query have these rules, instead of those it has, for the sake of some hubs."""
        self._tell_problems(found)
        programs = by_query(found.programs)[self._name]
        if query is not None:
            self._end(query)
        _log.info("rules start", query=self._name, rules=len(programs))
        self._rules = found
        self._on_rules(self._name, len(programs))
        if not programs:
            if not found.problems:
                # No rule remembers anything; the next one begins with the rows that come then.
                shutil.rmtree(self._checkpoint, ignore_errors=True)
                self._trouble.forget()
                self._crowding.forget()
            self._place.rest(found)
            self._place.settle(changed)
            return None
        return self._start(found, programs, changed)

    def _start(
        self, found: RuleSet, programs: Mapping[str, Program], changed: Iterable[str]
    ) -> StreamingQuery:
        context = self._context
        care, anew = self._trouble.begin()
        self._is_careful = care.notes is not None
        if anew:
            for hub in anew:
                begin_anew(context.lake.root, hub, time.time_ns() // 1_000_000)
            found = forgetting(found, read_erasures(context.lake.root))
            programs = by_query(found.programs)[self._name]
        since, starting = self._place.begin(found, programs)
        self._place.settle(changed)
        expired = self._place.expired(starting, context.lake.table("journal").state().coverage)
        self._tell_expired(expired)
        rows = journal_stream(
            context.spark,
            journal_url(context.config),
            self._segments,
            rows_max=self._settings.rows_per_batch_max,
            kinds=",".join(map(str, kinds_of(programs.values()))),
            starting=starting,
            idle_s=_IDLE_S,
            settled=True,
            gate=self._place.gate,
            expired=expired,
        )
        sink = SinkOptions(url=self._url, token=self._token, refused_max=_REFUSED_MAX)
        table = context.lake.table("matches")
        self._done_before = last_done(self._checkpoint)
        query = start_query(
            context.spark,
            rows,
            self._name,
            programs,
            self._checkpoint,
            Delivery(
                self._name,
                table,
                sink,
                tuple(programs.values()),
                self._checkpoint,
                self._on_left_out,
                self._allowance,
                self._left_out,
                self._on_events_left_out,
                self._outcome,
            ),
            interval_s=self._settings.rules_interval_s,
            watermark_s=self._settings.watermark_s,
            left_out=self._left_out,
            care=care,
            since=since,
            erasures=read_erasures(context.lake.root),
            room=self._crowding.room,
        )
        self._place.runs(yes=True)
        return query

    def _tell_expired(self, expired: Mapping[str, Coverage]) -> None:
        for node, gone in expired.items():
            told = self._told.get(node, ())
            rows = count(gone) - count(overlap(gone, told))
            self._told[node] = merge((*told, *gone))
            if rows:
                _log.error("rows expired before rules saw them", node=node, rows=rows, places=gone)
                self._on_expired(rows)

    def _tell_problems(self, found: RuleSet) -> None:
        """Once for both queries: nobody knows to which one a rule belongs that cannot be read."""
        if self._name != RULES:
            return
        before = {} if self._rules is None else self._rules.problems
        for name, problem in found.problems.items():
            if before.get(name) != problem:
                _log.warning("a rule does not run", rule=name, problem=problem)


def _pause(query: StreamingQuery | None, stop: Event) -> None:
    if query is None:
        stop.wait(_POLL_S)
    else:
        # Raises what the query failed with.
        ended = query.awaitTermination(_POLL_S)
        if ended and not stop.is_set():
            raise RuntimeError(f"the query {query.name} was stopped by somebody else")
