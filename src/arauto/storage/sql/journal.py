"""The journal on a SQL engine: one table that is both this node's partition and the store of messages.

History reads every partition, because a channel's messages lie where its owner was at the time; `read` and
`trim` touch this node's only.
"""

from collections.abc import Callable, Generator
from functools import partial

from arauto.model import Direction, Message, Serial
from arauto.storage.base import KEYS_KEPT_MS, Done, HistoryQuery, JournalEntry, LastPlace
from arauto.storage.checks import INT_MAX
from arauto.storage.sql.engine import SqlEngine
from arauto.storage.sql.group import Query
from arauto.storage.sql.rows import SELECT_ROWS, Row, entry_of

__all__ = ["SqlJournal"]

# `kind = 1` is written out because the index on messages is partial, and only a literal matches it.
_IN_RANGE = """
    WHERE kind = 1 AND hub = $1 AND channel = $2
      AND (epoch, "offset") > ($3, $4) AND (epoch, "offset") <= ($5, $6)
      AND ts_ms >= $7 AND ts_ms <= $8
      AND (expires_ms = 0 OR expires_ms > $9)"""
_HISTORY_BY_DIRECTION = {
    Direction.FORWARD: f'{SELECT_ROWS} {_IN_RANGE} ORDER BY epoch, "offset" LIMIT $10',
    Direction.BACKWARD: f'{SELECT_ROWS} {_IN_RANGE} ORDER BY epoch DESC, "offset" DESC LIMIT $10',
}
# Signposts (see schema.py) lead near a time: nothing up to the last one before it, and nothing from the
# first one after it, can belong to the range.
_SIGNPOST = """
    SELECT epoch, "offset" FROM journal
    WHERE kind = 1 AND "offset" % 61 = 0 AND hub = $1 AND channel = $2 AND ts_ms {side} $3
    ORDER BY ts_ms {order}, epoch {order}, "offset" {order} LIMIT 1"""
_LAST_BEFORE = _SIGNPOST.format(side="<", order="DESC")
_FIRST_AFTER = _SIGNPOST.format(side=">", order="ASC")
_LAST = """
    SELECT epoch, "offset", ts_ms FROM journal WHERE kind = 1 AND hub = $1 AND channel = $2
    ORDER BY epoch DESC, "offset" DESC LIMIT 1"""
# From name to name by the index, without reading what lies between: the cost is that of the channels,
# not of their messages. One name more than allowed tells that there are too many. The last message is found
# by its key: by channel and place SQLite looked at half the hub's messages for each.
_PLACES = """
    WITH RECURSIVE names(channel, n) AS (
      SELECT (SELECT channel FROM journal WHERE kind = 1 AND hub = $1 AND channel >= $2
              ORDER BY channel LIMIT 1), 1
      UNION ALL
      SELECT (SELECT j.channel FROM journal AS j
              WHERE j.kind = 1 AND j.hub = $1 AND j.channel > names.channel
              ORDER BY j.channel LIMIT 1), n + 1
      FROM names WHERE channel IS NOT NULL AND channel <= $3 AND n <= $4)
    SELECT names.channel, n, last.epoch, last."offset", last.ts_ms
    FROM names CROSS JOIN journal AS last
    WHERE (last.node, last.seq) = (
        SELECT j.node, j.seq FROM journal AS j
        WHERE j.kind = 1 AND j.hub = $1 AND j.channel = names.channel
        ORDER BY j.epoch DESC, j."offset" DESC LIMIT 1)
      AND names.channel <= $3 AND (n > $4 OR last.ts_ms > $5)"""
_READ = f"{SELECT_ROWS} WHERE node = $1 AND seq > $2 ORDER BY seq LIMIT $3"
_TRIMMED = "SELECT trimmed_seq FROM journal_partition WHERE node = $1"
_SET_TRIMMED = "UPDATE journal_partition SET trimmed_seq = $2 WHERE node = $1 AND trimmed_seq < $2"
_TRIM_OTHERS = """
    DELETE FROM journal WHERE node = $1 AND seq > $2 AND seq <= $3 AND kind <> 1 RETURNING seq"""
_EXPIRED = """
    SELECT expires_ms, seq FROM journal AS old
    WHERE kind = 1 AND expires_ms > 0 AND node = $1 AND seq <= $2 AND expires_ms <= $3
      AND (id = '' OR ts_ms <= $7)
      AND (expires_ms, seq) > ($4, $5)
      AND EXISTS (
        SELECT 1 FROM journal AS new WHERE new.kind = 1 AND new.hub = old.hub
          AND new.channel = old.channel AND (new.epoch, new."offset") > (old.epoch, old."offset"))
    ORDER BY expires_ms, seq LIMIT $6"""

_START = Serial(-1, -1)
_END = Serial(INT_MAX, INT_MAX)
_PLACE = ("journal",)
_TRIM_WINDOW = 2_000  # rows per step, so that appends get their turn between steps
_TRIM_LIST = 200
_DELETE_LIST = " ".join(
    (
        "DELETE FROM journal WHERE node = $1 AND seq IN (",
        ", ".join(f"${i + 2}" for i in range(_TRIM_LIST)),
        ") RETURNING seq",
    )
)


class SqlJournal:
    """See `Journal`."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._queue = engine.queue
        # Bound once, because it is called for every stored message.
        self.append: Callable[[JournalEntry, Done], None] = engine.queue.append

    @property
    def last_seq(self) -> int:
        return self._queue.last_seq

    async def flush(self) -> None:
        await self._queue.flush()

    async def history(self, query: HistoryQuery) -> list[Message]:
        since, until = await self._bounds(query)
        # An exclusive end becomes an inclusive one, so that "no end" can be the largest serial there is.
        last = _END if until is None else Serial(until.epoch, until.offset - 1)
        rows = await self._engine.fetch(
            _HISTORY_BY_DIRECTION[query.direction],
            query.hub,
            query.channel,
            since.epoch,
            since.offset,
            last.epoch,
            last.offset,
            query.from_ms,
            query.to_ms or INT_MAX,
            query.now_ms,
            query.limit,
        )
        return [entry_of(row).to_message() for row in rows]

    async def _bounds(self, query: HistoryQuery) -> tuple[Serial, Serial | None]:
        """Return the serials to look between, both exclusive: as asked for, drawn in around the times."""
        since, until = query.since or _START, query.until
        place = (query.hub, query.channel)
        if query.from_ms:
            for epoch, offset in await self._engine.fetch(_LAST_BEFORE, *place, query.from_ms):
                since = max(since, Serial(epoch, offset))
        if query.to_ms:
            for epoch, offset in await self._engine.fetch(_FIRST_AFTER, *place, query.to_ms):
                until = min(until or _END, Serial(epoch, offset))
        return since, until

    async def last(self, hub: str, channel: str) -> LastPlace | None:
        rows = await self._engine.fetch(_LAST, hub, channel)
        return LastPlace(Serial(rows[0][0], rows[0][1]), rows[0][2]) if rows else None

    async def places(
        self, hub: str, names: tuple[str, str], after_ms: int, *, scan_len: int
    ) -> dict[str, LastPlace] | None:
        rows = await self._engine.fetch(_PLACES, hub, *names, scan_len, after_ms)
        if any(row[1] > scan_len for row in rows):
            return None
        return {row[0]: LastPlace(Serial(row[2], row[3]), row[4]) for row in rows}

    async def read(self, after_seq: int, limit: int) -> list[tuple[int, JournalEntry]]:
        rows = await self._engine.fetch(_READ, self._engine.node, after_seq, limit)
        return [(row[1], entry_of(row)) for row in rows]

    async def trim(self, exported_seq: int, now_ms: int) -> int:
        upto = min(exported_seq, self.last_seq)
        return await self._trim_others(upto) + await self._trim_expired(upto, now_ms)

    async def _trim_others(self, upto: int) -> int:
        # What was trimmed before holds messages only, so each call looks at new rows alone.
        node = self._engine.node
        after = (await self._engine.fetch(_TRIMMED, node))[0][0]
        count = 0
        while after < upto:
            end = min(after + _TRIM_WINDOW, upto)
            count += await self._queue.run(partial(_delete_range, node, after, end), _PLACE)
            after = end
        return count

    async def _trim_expired(self, upto: int, now_ms: int) -> int:
        node = self._engine.node
        count = 0
        place = (0, 0)
        while True:
            rows = await self._engine.fetch(
                _EXPIRED, node, upto, now_ms, *place, _TRIM_LIST, now_ms - KEYS_KEPT_MS
            )
            if rows:
                seqs = [row[1] for row in rows]
                count += await self._queue.run(partial(_delete_list, node, seqs), _PLACE)
                place = (rows[-1][0], rows[-1][1])
            if len(rows) < _TRIM_LIST:
                return count

    async def close(self) -> None:
        await self._engine.close()


def _delete_range(node: int, after: int, upto: int) -> Generator[Query, list[Row], int]:
    rows = yield Query(_TRIM_OTHERS, (node, after, upto))
    # Kept with the partition, so that numbering never restarts below what was trimmed away.
    yield Query(_SET_TRIMMED, (node, upto))
    return len(rows)


def _delete_list(node: int, seqs: list[int]) -> Generator[Query, list[Row], int]:
    padded = seqs + [0] * (_TRIM_LIST - len(seqs))  # seq starts at 1: 0 matches nothing
    rows = yield Query(_DELETE_LIST, (node, *padded))
    return len(rows)
