"""A page of a channel's past, from the store or from live history."""

from collections.abc import Callable

import msgspec

from arauto.codec.events import HistoryRequest
from arauto.hub.channel import Channel
from arauto.hub.epoch import began_ms, is_fully_stored
from arauto.model import Direction, Message, Serial, When
from arauto.storage.base import HistoryQuery

__all__ = ["HistoryPage", "Page", "read_history"]


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked for; `since` and `until` are exclusive, times inclusive, 0 = open."""

    since: Serial | None = None
    until: Serial | None = None
    from_ms: int = 0
    to_ms: int = 0
    limit: int = 0
    direction: Direction = Direction.FORWARD

    @classmethod
    def of(cls, request: HistoryRequest) -> "HistoryPage":
        return cls(
            since=request.since,
            until=request.until,
            from_ms=request.from_ms,
            to_ms=request.to_ms,
            limit=request.limit,
            direction=request.direction,
        )


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was found. `next` continues in the same direction: as `since` forward, as `until` backward.

    `complete` speaks of the part of the range that this page covers: whether it is proven that no
    message of it is missing. Of an epoch that is gone nothing can be proven, nor of what lies between
    two epochs.
    """

    messages: list[Message]
    more: bool
    next: Serial | None
    complete: bool
    looked_len: int
    """How many were looked at, those passed over too."""


async def read_history(
    channel: Channel, page: HistoryPage, keep: Callable[[Message], bool]
) -> Page:
    """Read one page. Messages that `keep` refuses are passed over but still move `next` on.

    Raises:
        StorageError: the store could not be read.
    """
    limit = min(
        page.limit or channel.env.limits.history_page_len, channel.env.limits.history_page_len
    )
    now_ms = channel.env.clock.wall_ms()
    query = HistoryQuery(
        hub=channel.hub.name,
        channel=channel.name,
        now_ms=now_ms,
        since=page.since,
        until=page.until,
        from_ms=page.from_ms,
        to_ms=page.to_ms,
        limit=limit + 1,
        direction=page.direction,
    )
    stored = channel.rules.store is not When.NEVER
    if stored:
        found = await channel.env.storage.journal.history(query)
        looked_len = len(found)
    else:
        found, looked_len = _from_memory(channel, query)
    fitting = _fitting(found[:limit], channel.env.limits.replay_bytes_max)
    more = len(found) > len(fitting)
    found = fitting
    last = found[-1].serial if found else None
    return Page(
        messages=[message for message in found if keep(message)],
        more=more,
        next=last,
        complete=_is_complete(channel, query, found, more=more, stored=stored),
        looked_len=looked_len,
    )


def _is_complete(
    channel: Channel, query: HistoryQuery, found: list[Message], *, more: bool, stored: bool
) -> bool:
    """Whether nothing can be missing up to the last one found, or to the end of the range if that is all."""
    begin, end = query.since, query.until
    if more and query.direction is Direction.FORWARD:
        end = Serial(found[-1].epoch, found[-1].offset + 1)
    elif more:
        begin = Serial(found[-1].epoch, found[-1].offset - 1)
    if stored and channel.rules.store_s:
        # What was kept for a time only may be gone, and leaves no trace.
        return False
    if query.from_ms > began_ms(channel.epoch):
        # All of the range is of this epoch.
        begin = max(begin or Serial(0, 0), Serial(channel.epoch, 0))
    if begin is None:
        return False
    if begin.epoch != channel.epoch:
        # Nobody knows any more for how long its messages were kept: only if all are here, all were.
        ends_within = end is not None and end.epoch == begin.epoch < channel.epoch
        if not ends_within or not is_fully_stored(begin.epoch):
            return False
        return end is not None and len(found) == max(end.offset - begin.offset - 1, 0)
    if begin.offset > channel.serial.offset and channel.serial.epoch == channel.epoch:
        return False  # from a future that was lost
    if stored:
        return is_fully_stored(channel.epoch)
    if begin.offset >= channel.recent_floor:
        return True
    return query.from_ms > 0 and channel.place_at(query.from_ms - 1) is not None


def _fitting(messages: list[Message], bytes_max: int) -> list[Message]:
    """As many of the first ones as have `bytes_max` together, but at least one."""
    for index, message in enumerate(messages):
        bytes_max -= len(message.payload)
        if bytes_max < 0 and index:
            return messages[:index]
    return messages


def _from_memory(channel: Channel, query: HistoryQuery) -> tuple[list[Message], int]:
    """The messages, and how many were looked at."""
    found: list[Message] = []
    looked_len = 0
    recent = channel.recent
    for message in recent.within(query) if recent is not None else ():
        looked_len += 1
        if not message.expires_ms or message.expires_ms > query.now_ms:
            found.append(message)
            if len(found) == query.limit:
                break
    return found, looked_len
