"""Runs a checked query within its limits."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.sql.check import check_query
from arauto.pipeline.sql.faults import FAULTS, first_line, is_out_of_memory
from arauto.pipeline.sql.plan import check_plan, check_resolved
from arauto.pipeline.sql.views import VIEWS, open_views

__all__ = ["Answer", "Limits", "ask", "run_query"]

T = TypeVar("T")

_CANCEL_EVERY_S = 0.5
#: How long a cancelled query has to come back before nobody waits for it any more.
_GRACE_S = 5.0
_groups = count()
#: Spark's Python side logs every failed query with a page of Java; the error itself says all of it.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may take."""

    rows_max: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool
    """There were more rows than asked for."""


def ask(
    lake: Lake,
    text: str,
    limits: Limits,
    *,
    hub: str | None = None,
    limit: int | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> Answer:
    """Answer a question about a hub, or all of them.

    Args:
        lake: where the tables are.
        text: the query.
        limits: what it may take.
        hub: whose rows it sees; None = everyone's.
        limit: how many rows are wanted; the rest is left out without a complaint.
        from_ms: only rows of this time on.
        to_ms: only rows before this time.

    Raises:
        ArautoError: BAD_QUERY or QUERY_LIMIT.
    """
    check_query(text, VIEWS)
    # A view costs a look at its files, so only those are made that the query might name.
    names = [name for name in VIEWS if name in text.lower()]
    session = _elsewhere(lambda: open_views(lake, hub, names=names, from_ms=from_ms, to_ms=to_ms))
    # Spark's parser works out `VALUES (…)` already, so this check can take as long as a query.
    return _in_time(session, limits, lambda: _checked(session, text, limits, limit))


def run_query(
    session: SparkSession, text: str, limits: Limits, *, limit: int | None = None
) -> Answer:
    """Run a query that was checked.

    Raises:
        ArautoError: BAD_QUERY if Spark refuses it, QUERY_LIMIT if it takes too long or gives too much.
    """
    return _in_time(session, limits, lambda: _answer(session, text, limits, limit))


def _checked(session: SparkSession, text: str, limits: Limits, limit: int | None) -> Answer:
    check_plan(session, text, VIEWS)
    return _answer(session, text, limits, limit)


def _answer(session: SparkSession, text: str, limits: Limits, limit: int | None) -> Answer:
    wanted = limits.rows_max if limit is None else min(limit, limits.rows_max)
    frame = session.sql(text)
    check_resolved(frame)
    rows = frame.limit(wanted + 1).collect()
    is_cut = len(rows) > wanted
    if is_cut and (limit is None or limit > limits.rows_max):
        raise ArautoError(
            Code.QUERY_LIMIT,
            f"the query gives more than {limits.rows_max} rows; say LIMIT in it, or how many are wanted",
        )
    return Answer(tuple(frame.columns), [tuple(row) for row in rows[:wanted]], is_cut)


def _in_time(session: SparkSession, limits: Limits, work: Callable[[], Answer]) -> Answer:
    """Do the work in a thread of its own, and leave it there if it does not end in time.

    Only jobs can be cancelled. Spark works out constants, such as `instr(repeat('a', 100000000), …)`, before
    there is one; that ends when it ends, or with the process. To forbid it that (`ConstantFolding`) would
    move them into tasks, where one that fits no memory ends the whole of Java.
    """
    results: SimpleQueue[Answer | BaseException] = SimpleQueue()
    look = threading.Event()

    def run() -> None:
        try:
            with _deadline(session, limits.timeout_s, look) as is_late:
                try:
                    answer = work()
                except FAULTS as error:
                    raise _translated(error, late=is_late(), limits=limits) from error
            results.put(answer)
        except BaseException as error:
            # Raised below, where somebody waits for it.
            results.put(error)

    threading.Thread(target=run, name="sql-query", daemon=True).start()
    try:
        result = results.get(timeout=limits.timeout_s + _GRACE_S)
    except Empty:
        raise _too_late(limits) from None
    except KeyboardInterrupt:
        look.set()
        with suppress(Empty):
            results.get(timeout=_GRACE_S)
        raise
    if isinstance(result, BaseException):
        raise result
    return result


def _elsewhere(work: Callable[[], T]) -> T:
    """Do something with Spark in a thread of its own.

    Ctrl-C then interrupts the wait for it, and not a conversation with Java in the middle of a word, after
    which the next one would get the rest of this answer.
    """
    results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            results.put((work(), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=run, name="sql-views", daemon=True).start()
    result, error = results.get()
    if error is not None:
        raise error
    return cast("T", result)


@contextmanager
def _deadline(
    session: SparkSession, timeout_s: float, look: threading.Event
) -> Iterator[Callable[[], bool]]:
    """Cancel what runs here when the time is over, again and again: a query may be between two jobs.

    Whoever sets `look` ends the time at once.
    """
    context, group = session.sparkContext, f"arauto-sql-{next(_groups)}"
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        wait_s = timeout_s
        while True:
            look.wait(wait_s)
            look.clear()
            if done.is_set():
                return
            late.set()
            # Spark may have been stopped meanwhile, under a query that nobody waits for any more.
            with suppress(*FAULTS, AttributeError):
                context.cancelJobGroup(group)
            wait_s = _CANCEL_EVERY_S

    watcher = threading.Thread(target=watch, name="sql-deadline", daemon=True)
    context.setJobGroup(group, "arauto pipeline sql", interruptOnCancel=True)
    watcher.start()
    try:
        yield late.is_set
    finally:
        done.set()
        look.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _translated(error: Exception, *, late: bool, limits: Limits) -> ArautoError:
    if late:
        return _too_late(limits)
    if is_out_of_memory(error):
        return ArautoError(
            Code.QUERY_LIMIT, "the query needs more memory than there is; ask for less"
        )
    return ArautoError(Code.BAD_QUERY, first_line(error), field="query")


def _too_late(limits: Limits) -> ArautoError:
    return ArautoError(Code.QUERY_LIMIT, f"the query took longer than {limits.timeout_s:g} s")
