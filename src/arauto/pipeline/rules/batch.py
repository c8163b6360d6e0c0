"""The same rules over history: a dry run, and the proof that streaming gives what the past gives."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa  # type: ignore[import-untyped]
import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from arauto.correlation.matcher import advance
from arauto.correlation.matches import event_match
from arauto.correlation.program import Event, Match, Program
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.events import counted_events, happened, packed_events
from arauto.pipeline.rules.output import MATCHES, arrow_matches, match_row
from arauto.pipeline.rules.packing import split_subject, unpack
from arauto.pipeline.rules.stream import COUNTS, RULES, by_query
from arauto.pipeline.rules.windows import totals, totals_matches

__all__ = ["matches_batch"]

#: Events given to the matcher at a time, about: bounds what a key with a long history takes.
_CHUNK_LEN = 1_000


def matches_batch(rows: DataFrame, programs: Iterable[Program], *, until_ms: int) -> DataFrame:
    """The matches in a frame of journal rows, with the columns of the table `matches`.

    Args:
        rows: a batch frame.
        programs: the rules.
        until_ms: how far time has come: what would be decided later is not decided.

    Raises:
        ArautoError: BAD_RULE if there are too many rules.
    """
    chosen = by_query(programs)
    windowed, others = Carried(chosen[COUNTS]), Carried(chosen[RULES])
    # An event at `until_ms` may still have others at the same time to come.
    past = rows.where(F.unix_millis("ts") < until_ms)
    ended = totals(happened(counted_events(past, windowed))).where(F.col("end_ms") <= until_ms)
    ordered = (
        happened(packed_events(past, others))
        .repartition("subject")
        .sortWithinPartitions("subject", "ms", "node", "seq")
        .select("subject", "packed")
    )

    def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        programs = others.programs
        for subject, found in groupby(_rows(batches), key=itemgetter(0)):
            ref, key = split_subject(subject)
            ordered_events = (unpack(packed)[0] for _, packed in found)
            program = programs[ref]
            made = _matches(program, key, ordered_events, until_ms)
            yield from arrow_matches(match_row(program, match) for match in made)

    return totals_matches(ended, windowed).union(ordered.mapInArrow(match, MATCHES))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _matches(
    program: Program, key: str, ordered: Iterable[Event], until_ms: int
) -> Iterator[Match]:
    """All matches of one key, whose events come in order."""
    if program.path == "stateless":
        yield from (event_match(program, key, event) for event in ordered if event.bits & 1)
        return
    state: bytes | None = None
    chunk: list[Event] = []
    for event in ordered:
        # Cut where time moves on, so that nothing has to wait, and no buffer limits what waits.
        if len(chunk) >= _CHUNK_LEN and event.ts_ms > chunk[-1].ts_ms:
            outcome = advance(program, key, state, chunk, event.ts_ms)
            state, chunk = outcome.state, []
            yield from outcome.matches
        chunk.append(event)
    yield from advance(program, key, state, chunk, until_ms).matches
