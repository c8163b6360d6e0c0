"""Roll-ups that the pipeline made: keep them, and show them within milliseconds."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import structlog

from arauto.admin.rollups import (
    FUTURE_MS,
    PAGE_LEN_MAX,
    PERIODS,
    ROWS_LEN_MAX,
    Period,
    PeriodName,
    Rollup,
    RollupPage,
    RollupPoint,
    RollupRow,
    RollupsStored,
)
from arauto.clock import Clock
from arauto.codec.checks import bad_field
from arauto.errors import ArautoError, Code
from arauto.names import check_hub
from arauto.storage.base import KeyValueStore

__all__ = ["Analytics"]

_log = structlog.get_logger("arauto.admin")
_A = TypeVar("_A")
_R = TypeVar("_R")

#: Chunks asked of the store at a time.
_WAVE_LEN = 128

_Chunk = dict[int, Rollup]
_Place = tuple[str, str]
"""(hub, key)"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Chunk).decode


class Analytics:
    """The verbs on roll-ups. They are made from the journal, so they are no part of it."""

    def __init__(self, kv: KeyValueStore, clock: Clock) -> None:
        self._kv = kv
        self._clock = clock
        # Chunks are read, changed and written again: one batch at a time.
        self._writing = asyncio.Lock()

    async def store(self, rows: Sequence[RollupRow]) -> RollupsStored:
        """Keep rows, each in place of the one of the same period, hub and start.

        Raises:
            ArautoError: BATCH_TOO_LARGE, BAD_FIELD, BAD_HUB_NAME; StorageError: some may be stored.
        """
        if len(rows) > ROWS_LEN_MAX:
            raise ArautoError(
                Code.BATCH_TOO_LARGE, f"at most {ROWS_LEN_MAX} rows at a time", field="rows"
            )
        now_ms = self._clock.wall_ms()
        for index, row in enumerate(rows):
            _check(row, f"rows[{index}]", now_ms)
        kept = [row for row in rows if PERIODS[row.period].ttl_s(row.start_ms, now_ms) >= 0]
        by_chunk: dict[_Place, list[RollupRow]] = {}
        for row in kept:
            place = (row.hub, PERIODS[row.period].chunk_of(row.start_ms))
            by_chunk.setdefault(place, []).append(row)
        async with self._writing:
            await _in_waves(list(by_chunk.items()), self._merge)
        return RollupsStored(stored=len(kept), skipped=len(rows) - len(kept))

    async def page(
        self, period: PeriodName, hub: str = "", *, from_ms: int = 0, to_ms: int = 0, limit: int
    ) -> RollupPage:
        """Rows from `from_ms` up to, and not at, `to_ms`, oldest first. 0 = the usual range up to now.

        A page spans at most `limit` periods of time, so what is missing costs no more than what is there.

        Raises:
            ArautoError: BAD_HUB_NAME, BAD_FIELD.
        """
        if hub:
            check_hub(hub)
        kind = PERIODS[period]
        now_ms = self._clock.wall_ms()
        to_ms = min(to_ms or now_ms, now_ms + FUTURE_MS)
        start_ms = from_ms or max(0, to_ms - kind.shown_ms)
        start_ms = max(start_ms, kind.oldest_ms(now_ms))
        if from_ms and from_ms >= to_ms:
            raise bad_field("fromMs", "must be before toMs, and not in the future")
        end_ms = min(to_ms, start_ms + min(limit, PAGE_LEN_MAX) * kind.step_ms)
        items = await self._read(kind, hub, start_ms, end_ms) if start_ms < end_ms else []
        return RollupPage(
            period=period, hub=hub, items=items, next=end_ms if start_ms < end_ms < to_ms else 0
        )

    async def _read(self, kind: Period, hub: str, from_ms: int, to_ms: int) -> list[RollupPoint]:
        places = [(hub, key) for key in kind.chunks(from_ms, to_ms)]
        return [
            RollupPoint(start_ms=start_ms, values=chunk[start_ms])
            for chunk in await _in_waves(places, self._chunk)
            for start_ms in sorted(chunk)
            if from_ms <= start_ms < to_ms
        ]

    async def _merge(self, change: tuple[_Place, list[RollupRow]]) -> None:
        place, rows = change
        chunk = await self._chunk(place)
        for row in rows:
            chunk[row.start_ms] = row.values
        kind = PERIODS[rows[0].period]
        ttl_s = kind.ttl_s(max(chunk), self._clock.wall_ms())
        await self._kv.put(*place, _encode(chunk), max(ttl_s, 0))

    async def _chunk(self, place: _Place) -> _Chunk:
        data = await self._kv.get(*place)
        if data is None:
            return {}
        try:
            return _decode(data)
        except msgspec.MsgspecError:
            # It can be made anew from the journal, so it need not stop anything.
            _log.error("stored roll-ups cannot be read", hub=place[0], key=place[1])
            return {}


def _check(row: RollupRow, field: str, now_ms: int) -> None:
    if row.hub:
        check_hub(row.hub)
    step_ms = PERIODS[row.period].step_ms
    if row.start_ms % step_ms:
        raise bad_field(f"{field}.startMs", f"must be a multiple of {step_ms}")
    if row.start_ms > now_ms + FUTURE_MS:
        raise bad_field(f"{field}.startMs", "must not be in the future")


async def _in_waves(items: Iterable[_A], work: Callable[[_A], Awaitable[_R]]) -> list[_R]:
    """Do the same with all of them, a bounded number at a time. The first error is raised when no other of
    its wave is still under way.
    """
    left = list(items)
    results: list[_R] = []
    while left:
        wave, left = left[:_WAVE_LEN], left[_WAVE_LEN:]
        outcomes = await asyncio.gather(*(work(item) for item in wave), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
    return results
