"""A page of a channel's past, from the store or from live history."""

from collections.abc import Callable

import msgspec

from arauto.hub.channel import Channel
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


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was found. `next` continues in the same direction: as `since` forward, as `until` backward."""

    messages: list[Message]
    more: bool
    next: Serial | None
    complete: bool


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
    if channel.rules.store is When.NEVER:
        found, complete = _from_memory(channel, query)
    else:
        found = await channel.env.storage.journal.history(query)
        # What was kept for a time only may be gone, and leaves no trace.
        complete = bool(channel.epoch & 1) and not channel.rules.store_s
    fitting = _fitting(found[:limit], channel.env.limits.replay_bytes_max)
    more = len(found) > len(fitting)
    found = fitting
    last = found[-1].serial if found else None
    return Page(
        messages=[message for message in found if keep(message)],
        more=more,
        next=last,
        complete=complete,
    )


def _fitting(messages: list[Message], bytes_max: int) -> list[Message]:
    """As many of the first ones as have `bytes_max` together, but at least one."""
    for index, message in enumerate(messages):
        bytes_max -= len(message.payload)
        if bytes_max < 0 and index:
            return messages[:index]
    return messages


def _from_memory(channel: Channel, query: HistoryQuery) -> tuple[list[Message], bool]:
    floor = Serial(channel.epoch, channel.recent_floor)
    found = [m for m in channel.recent_after(0) if _wanted(m, query)]
    if query.direction is Direction.BACKWARD:
        found.reverse()
    # Whole only if the range starts where memory does, or later; a time range alone cannot prove that.
    complete = floor.offset == 0 if query.since is None else query.since >= floor
    return found[: query.limit], complete


def _wanted(message: Message, query: HistoryQuery) -> bool:
    serial = message.serial
    return (
        (query.since is None or serial > query.since)
        and (query.until is None or serial < query.until)
        and (not query.from_ms or message.ts_ms >= query.from_ms)
        and (not query.to_ms or message.ts_ms <= query.to_ms)
        and (not message.expires_ms or message.expires_ms > query.now_ms)
    )
