"""One of the rules' queries while the pipeline runs: starts anew when its rules change, rests without any."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

import structlog
from pyspark.sql.streaming.query import StreamingQuery

from arauto.config.addresses import admin_url
from arauto.correlation.program import Program
from arauto.errors import ArautoError
from arauto.pipeline.context import Context
from arauto.pipeline.feed import journal_stream, journal_url
from arauto.pipeline.lake.erasures import begin_anew, read_erasures
from arauto.pipeline.node_api import NodeApi
from arauto.pipeline.rules.allowance import Allowance
from arauto.pipeline.rules.deliver import Delivery
from arauto.pipeline.rules.forget import forgetting, without_erased
from arauto.pipeline.rules.left_out import LeftOut, LeftOutSum, Reason
from arauto.pipeline.rules.registry import RuleSet, kinds_of, rule_set
from arauto.pipeline.rules.reload import Watch, look, restarted
from arauto.pipeline.rules.stream import PLAN_VERSION, RULES, by_query, start_query
from arauto.pipeline.rules.trouble import Trouble
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.worker import is_ours, stop_query

__all__ = ["RuleQuery"]

_log = structlog.get_logger(__name__)

_POLL_S = 3
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
        # One for all starts: PySpark keeps every accumulator for ever.
        self._left_out = spark.accumulator(LeftOut(), LeftOutSum())
        self._checkpoint = context.lake.checkpoint(name, PLAN_VERSION)
        self._trouble = Trouble(self._checkpoint)
        self._is_careful = False
        self._rules: RuleSet | None = None

    def run(self, stop: Event) -> None:
        """Go on until `stop` is set; raises what the query fails with."""
        query: StreamingQuery | None = None
        watch = Watch(frozenset(), time.monotonic() - 3600)
        self._rules = None
        try:
            with NodeApi(self._url, self._token) as api:
                while not stop.is_set():
                    found = self._fetch(api)
                    watch, due = look(watch, found.fingerprint, time.monotonic())
                    if due or self._care_is_over() or self._rules is None:
                        query = self._change(query, found)
                        watch = restarted(found.fingerprint, time.monotonic())
                    _pause(query, stop)
        except Exception as error:
            if is_ours(error):
                self._trouble.excuse()
            raise
        finally:
            if query is not None:
                self._end(query)

    def _care_is_over(self) -> bool:
        return self._is_careful and self._trouble.is_over()

    def _end(self, query: StreamingQuery) -> None:
        was_running = query.isActive
        stop_query(query)
        if was_running:
            self._trouble.excuse()

    def _fetch(self, api: NodeApi) -> RuleSet:
        try:
            return forgetting(rule_set(api.correlations()), read_erasures(self._context.lake.root))
        except ArautoError as error:
            if self._rules is None:
                raise
            # What runs goes on running.
            _log.warning("the node's rules could not be read", error=error.message)
            return self._rules

    def _change(self, query: StreamingQuery | None, found: RuleSet) -> StreamingQuery | None:
        """Let the query have these rules. It is left alone if they are the ones it has."""
        self._tell_problems(found)
        programs = by_query(found.programs)[self._name]
        same = self._rules is not None and not self._care_is_over()
        if (
            self._rules is not None
            and same
            and programs == by_query(self._rules.programs)[self._name]
        ):
            self._rules = found
            return query
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
            return None
        return self._start(found, programs)

    def _start(self, found: RuleSet, programs: Mapping[str, Program]) -> StreamingQuery:
        context = self._context
        care, anew = self._trouble.begin()
        self._is_careful = care.notes is not None
        if anew:
            for hub in anew:
                begin_anew(context.lake.root, hub, time.time_ns() // 1_000_000)
            found = forgetting(found, read_erasures(context.lake.root))
            programs = by_query(found.programs)[self._name]
        rows = journal_stream(
            context.spark,
            journal_url(context.config),
            self._segments,
            rows_max=self._settings.rows_per_batch_max,
            kinds=",".join(map(str, kinds_of(programs.values()))),
            starting="latest",
            idle_s=_IDLE_S,
            settled=True,
        )
        source = without_erased(rows, read_erasures(context.lake.root))
        sink = SinkOptions(url=self._url, token=self._token, refused_max=_REFUSED_MAX)
        table = context.lake.table("matches")
        return start_query(
            context.spark,
            source,
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
            ),
            interval_s=self._settings.rules_interval_s,
            watermark_s=self._settings.watermark_s,
            left_out=self._left_out,
            care=care,
        )

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
