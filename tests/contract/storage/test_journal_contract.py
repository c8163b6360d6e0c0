"""What every journal promises: order, durability, numbering, history, trimming, tenancy."""

import asyncio
import itertools

import pytest

from arauto.errors import Code, StorageError
from arauto.model import Direction, Message, Serial
from arauto.storage.base import JournalEntry, Kind, LastPlace, Storage
from tests.contract.storage.backends import Backend
from tests.contract.storage.journal_helpers import append_all, message, offsets, query

_INT_MAX = 2**63 - 1


async def test_entries_are_numbered_from_one_without_holes_in_append_order(
    storage: Storage,
) -> None:
    assert storage.journal.last_seq == 0
    outcomes = await append_all(storage.journal, [message(i) for i in range(1, 1001)])
    assert outcomes == [None] * 1000
    rows = await storage.journal.read(0, 2000)
    assert [(seq, entry.offset) for seq, entry in rows] == [(i, i) for i in range(1, 1001)]
    assert storage.journal.last_seq == 1000
    assert storage.counters.committed == 1000


async def test_done_is_called_once_each_in_append_order(storage: Storage) -> None:
    called: list[int] = []
    for i in range(300):
        storage.journal.append(message(i + 1), lambda _, i=i: called.append(i))  # type: ignore[misc]
    assert called == [], "never before append returns"
    await storage.journal.flush()
    assert called == list(range(300))


async def test_what_done_was_told_is_readable_at_once(storage: Storage) -> None:
    for i in range(1, 20):
        await append_all(storage.journal, [message(i)])
        assert await offsets(storage.journal) == list(range(1, i + 1))


async def test_every_field_comes_back_as_it_went_in(storage: Storage) -> None:
    entry = JournalEntry(
        kind=Kind.MESSAGE,
        ts_ms=1_700_000_000_123,
        hub="loja-são",
        channel="estoque:ação:日本:🎈",
        epoch=_INT_MAX,
        offset=_INT_MAX,
        session="s'1\"; DROP TABLE journal; --",
        user="Zoë",
        content_type="application/json",
        id="k-1",
        key="latest",
        exclude="u:Zoë",
        headers={"traceparent": "00-ab", "ключ": "значение", "": ""},
        expires_ms=_INT_MAX,
        payload=bytes(range(256)),
        origin="http 2001:db8::7",
    )
    bare = JournalEntry(kind=Kind.HEARTBEAT, ts_ms=0)
    assert await append_all(storage.journal, [entry, bare]) == [None, None]
    assert await storage.journal.read(0, 10) == [(1, entry), (2, bare)]
    found = await storage.journal.history(query(hub=entry.hub, channel=entry.channel))
    assert found == [
        Message(
            entry.hub,
            entry.channel,
            entry.payload,
            _INT_MAX,
            _INT_MAX,
            entry.ts_ms,
            content_type="application/json",
            id="k-1",
            session=entry.session,
            user="Zoë",
            exclude="u:Zoë",
            key="latest",
            headers=entry.headers,
            expires_ms=_INT_MAX,
            origin=entry.origin,
        )
    ]


@pytest.mark.parametrize("size_bytes", [0, 1, 4_000, 70_000, 3_000_000])
async def test_payloads_of_any_size_come_back_whole(storage: Storage, size_bytes: int) -> None:
    payload = bytes(i * 7 % 251 for i in range(size_bytes))
    await append_all(storage.journal, [message(1, payload=payload), message(2)])
    found = await storage.journal.history(query())
    assert [m.payload for m in found] == [payload, b"2"]


async def test_history_leaves_out_other_kinds(storage: Storage) -> None:
    other = [message(9, kind=kind) for kind in Kind if kind is not Kind.MESSAGE]
    await append_all(storage.journal, [*other, message(1)])
    assert await offsets(storage.journal) == [1]
    assert await storage.journal.last("shop", "stock:1") == LastPlace(Serial(7, 1), 1001)


async def test_history_bounds_by_serial_are_exclusive(storage: Storage) -> None:
    await append_all(storage.journal, [message(i) for i in range(1, 11)])
    journal = storage.journal
    assert await offsets(journal, since=3, until=7) == [4, 5, 6]
    assert await offsets(journal, since=3, until=7, back=True) == [6, 5, 4]
    assert await offsets(journal, since=3, until=4) == []
    assert await offsets(journal, since=10) == []
    assert await offsets(journal, until=1) == []
    assert await offsets(journal, since=0) == list(range(1, 11))
    assert await offsets(journal, until=11) == list(range(1, 11))


async def test_history_bounds_by_time_are_inclusive_and_zero_is_open(storage: Storage) -> None:
    await append_all(storage.journal, [message(i) for i in range(1, 11)])
    journal = storage.journal
    assert await offsets(journal, from_ms=1004, to_ms=1006) == [4, 5, 6]
    assert await offsets(journal, from_ms=1004, to_ms=1006, back=True) == [6, 5, 4]
    assert await offsets(journal, from_ms=1009) == [9, 10]
    assert await offsets(journal, to_ms=1002) == [1, 2]
    assert await offsets(journal, from_ms=1011) == []
    assert await offsets(journal, from_ms=1003, since=5, to_ms=1008, until=8) == [6, 7]


async def test_any_range_of_time_finds_exactly_its_messages(storage: Storage) -> None:
    """Long enough for the marks that databases use to find a time, with many messages at one time."""
    entries = [message(i % 200 + 1, epoch=7 + i // 200, ts_ms=1 + i // 3) for i in range(400)]
    await append_all(storage.journal, entries)
    edges = [0, 1, 2, 20, 21, 40, 41, 66, 67, 68, 100, 133, 134, 135]
    for from_ms, to_ms in itertools.product(edges, edges):
        fields = {"from_ms": from_ms, "to_ms": to_ms, "since": Serial(7, 10)}
        expected = [
            e.to_message()
            for e in entries
            if (e.epoch, e.offset) > (7, 10) and from_ms <= e.ts_ms <= (to_ms or 999)
        ]
        assert await storage.journal.history(query(limit=1000, **fields)) == expected
        back = await storage.journal.history(query(limit=5, direction=Direction.BACKWARD, **fields))
        assert back == expected[::-1][:5]


async def test_history_pages_meet_without_gap_or_overlap_in_both_directions(
    storage: Storage,
) -> None:
    await append_all(storage.journal, [message(i) for i in range(1, 24)])
    for direction in Direction:
        seen: list[int] = []
        place: Serial | None = None
        while True:
            bound = {"since" if direction is Direction.FORWARD else "until": place}
            page = await storage.journal.history(query(limit=5, direction=direction, **bound))
            if not page:
                break
            seen += [m.offset for m in page]
            place = page[-1].serial
        expected = list(range(1, 24))
        assert seen == (expected if direction is Direction.FORWARD else expected[::-1])


async def test_history_orders_by_epoch_before_offset(storage: Storage) -> None:
    places = [(7, 1), (7, 9), (8, 1), (8, 2), (10, 1)]
    await append_all(storage.journal, [message(o, epoch=e) for e, o in places])
    found = await storage.journal.history(query())
    assert [(m.epoch, m.offset) for m in found] == places
    after = await storage.journal.history(query(since=Serial(7, 9)))
    assert [(m.epoch, m.offset) for m in after] == places[2:]
    before = await storage.journal.history(
        query(until=Serial(8, 2), direction=Direction.BACKWARD, limit=2)
    )
    assert [(m.epoch, m.offset) for m in before] == [(8, 1), (7, 9)]
    between = await storage.journal.history(query(since=Serial(8, 0), until=Serial(9, 0)))
    assert [(m.epoch, m.offset) for m in between] == [(8, 1), (8, 2)]


async def test_history_leaves_out_what_has_expired(storage: Storage) -> None:
    entries = [message(i, expires_ms=expires) for i, expires in enumerate([0, 4999, 5000, 5001], 1)]
    await append_all(storage.journal, entries)
    assert await offsets(storage.journal, now_ms=5000) == [1, 4]
    assert await offsets(storage.journal, now_ms=1) == [1, 2, 3, 4]


async def test_last_is_the_highest_serial_even_if_expired_and_none_without_messages(
    storage: Storage,
) -> None:
    assert await storage.journal.last("shop", "stock:1") is None
    await append_all(storage.journal, [message(5), message(2, epoch=9, ts_ms=77, expires_ms=1)])
    assert await storage.journal.last("shop", "stock:1") == LastPlace(Serial(9, 2), 77)


async def test_places_names_the_channels_of_a_range_with_messages_after_a_time(
    storage: Storage,
) -> None:
    entries = [
        message(1, channel="a:1", ts_ms=10),
        message(1, channel="a:2", ts_ms=10),
        message(2, channel="a:2", ts_ms=20),
        message(1, channel="a:é", ts_ms=30, expires_ms=31),
        message(1, channel="b:1", ts_ms=40),
        message(1, channel="a:3", ts_ms=50, hub="other"),
    ]
    await append_all(storage.journal, [*entries, JournalEntry(kind=Kind.HEARTBEAT, ts_ms=60)])
    place = storage.journal.places
    names = ("a:", "a:\U0010ffff")
    epoch = entries[0].epoch
    found = await place(entries[0].hub, names, 10, scan_len=10)
    assert found == {
        "a:2": LastPlace(Serial(epoch, 2), 20),
        "a:é": LastPlace(Serial(epoch, 1), 30),
    }
    assert await place(entries[0].hub, names, 30, scan_len=10) == {}
    assert list(await place("other", ("", "\U0010ffff"), 0, scan_len=10) or ()) == ["a:3"]
    assert await place("nobody", names, 0, scan_len=10) == {}


async def test_places_gives_up_where_there_are_too_many_channels(storage: Storage) -> None:
    await append_all(storage.journal, [message(1, channel=f"a:{n}", ts_ms=n) for n in range(1, 6)])
    hub = message(1).hub
    assert await storage.journal.places(hub, ("a:", "a:9"), 9, scan_len=4) is None
    assert await storage.journal.places(hub, ("a:", "a:9"), 9, scan_len=5) == {}
    assert len(await storage.journal.places(hub, ("a:", "a:9"), 0, scan_len=5) or ()) == 5


async def test_hubs_and_channels_do_not_see_each_other(storage: Storage) -> None:
    places = [("a", "b:c"), ("a:b", "c"), ("a", "b"), ("ab", "c"), ("A", "b:c"), ("a", "B:C")]
    await append_all(
        storage.journal, [message(i, hub=h, channel=c) for i, (h, c) in enumerate(places, 1)]
    )
    for i, (hub, channel) in enumerate(places, 1):
        assert await offsets(storage.journal, hub=hub, channel=channel) == [i]
        last = await storage.journal.last(hub, channel)
        assert last is not None
        assert last.serial.offset == i
    for nobody in ("", "a%", "*", "a'--", "_"):
        assert await offsets(storage.journal, hub=nobody, channel="b:c") == []
        assert await offsets(storage.journal, hub="a", channel=nobody) == []


@pytest.mark.parametrize("bad", ["\ud800", "\udfff:x"])
async def test_asking_for_impossible_names_finds_nothing_or_says_so(
    storage: Storage, bad: str
) -> None:
    for call in (offsets(storage.journal, channel=bad), storage.journal.last("shop", bad)):
        try:
            assert not await call
        except StorageError as exc:
            assert exc.code is Code.STORAGE_FAILED  # noqa: PT017 - either answer is fine


async def test_read_pages_by_seq(storage: Storage) -> None:
    await append_all(storage.journal, [message(i) for i in range(1, 8)])
    assert [seq for seq, _ in await storage.journal.read(0, 3)] == [1, 2, 3]
    assert [seq for seq, _ in await storage.journal.read(3, 3)] == [4, 5, 6]
    assert [seq for seq, _ in await storage.journal.read(6, 3)] == [7]
    assert await storage.journal.read(7, 3) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"user": "\ud800"}, "user"),
        ({"headers": {"a": "\udfff"}}, "headers"),
        ({"offset": 2**63}, "offset"),
        ({"ts_ms": 2**70}, "ts_ms"),
    ],
)
async def test_an_entry_that_cannot_be_stored_fails_alone(
    storage: Storage, fields: dict[str, object], field: str
) -> None:
    entries = [message(i) for i in range(1, 1200)]
    entries[500] = message(9999, **fields)
    outcomes = await append_all(storage.journal, entries)
    failed = {at: error for at, error in enumerate(outcomes) if error is not None}
    assert list(failed) == [500]
    assert (failed[500].code, failed[500].field) == (Code.STORAGE_FAILED, field)
    rows = await storage.journal.read(0, 2000)
    assert [seq for seq, _ in rows] == list(range(1, 1199)), "no hole where it would have been"
    assert [e.offset for _, e in rows] == [i for i in range(1, 1200) if i != 501]
    assert storage.counters.failed == 1


async def test_a_callback_that_raises_costs_nobody_else_their_answer(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    def fail(_: StorageError | None) -> None:
        raise RuntimeError("a caller's mistake")

    storage.journal.append(message(1), lambda _: called.append(1))
    storage.journal.append(message(2), fail)
    storage.journal.append(message(3), lambda _: called.append(3))
    await storage.journal.flush()
    assert called == [1, 3]
    assert "a caller's mistake" in caplog.text


async def test_appending_from_a_callback_works(storage: Storage) -> None:
    again: list[StorageError | None] = []
    storage.journal.append(message(1), lambda _: storage.journal.append(message(2), again.append))
    await storage.journal.flush()
    await storage.journal.flush()
    assert again == [None]
    assert await offsets(storage.journal) == [1, 2]


async def test_appending_after_closing_fails_through_done(backend: Backend) -> None:
    storage = await backend.open()
    outcomes = await append_all(storage.journal, [message(1)])
    await storage.close()
    await storage.close()
    storage.journal.append(message(2), outcomes.append)
    backend.clock.run_soon()
    await asyncio.sleep(0)
    assert outcomes[0] is None
    assert outcomes[1] is not None
    assert outcomes[1].code is Code.STORAGE_UNAVAILABLE


async def test_closing_waits_for_what_was_appended(backend: Backend) -> None:
    storage = await backend.open()
    outcomes: list[StorageError | None] = []
    for i in range(1, 101):
        storage.journal.append(message(i), outcomes.append)
    await storage.close()
    await asyncio.sleep(0)
    assert outcomes == [None] * 100


async def test_trim_takes_only_exported_rows_that_nothing_needs(storage: Storage) -> None:
    journal = storage.journal
    entries = [
        message(1, expires_ms=2000),  # 1: expired and not the channel's last: goes
        message(2, kind=Kind.ERROR),  # 2: goes
        message(3, expires_ms=9000),  # 3: not expired yet: stays
        message(4),  # 4: never expires: stays
        message(1, channel="x", expires_ms=10),  # 5: goes, 6 is newer
        message(2, channel="x", expires_ms=10),  # 6: expired, but its channel's last: stays
        message(5, kind=Kind.COUNTERS),  # 7: goes
        message(6, kind=Kind.AUDIT),  # 8: not exported: stays
    ]
    await append_all(journal, entries)
    assert await journal.trim(7, 5000) == 4
    assert [seq for seq, _ in await journal.read(0, 100)] == [3, 4, 6, 8]
    assert await journal.last("shop", "x") == LastPlace(Serial(7, 2), 1002)
    assert await journal.trim(7, 5000) == 0
    assert await journal.trim(7, 9000) == 1, "what has expired since goes on the next round"
    assert [seq for seq, _ in await journal.read(0, 100)] == [4, 6, 8]
    assert await offsets(journal) == [4]


async def test_trim_keeps_an_expired_message_for_its_key(storage: Storage) -> None:
    day_ms = 86_400_000
    await append_all(
        storage.journal,
        [
            message(1, ts_ms=day_ms, expires_ms=day_ms + 1, id="k"),
            message(2, ts_ms=day_ms, expires_ms=day_ms + 1),
            message(3, ts_ms=day_ms),
        ],
    )
    assert await storage.journal.trim(3, day_ms + 10) == 1
    assert [e.offset for _, e in await storage.journal.read(0, 9)] == [1, 3]
    assert await storage.journal.trim(3, 2 * day_ms) == 1
    assert [e.offset for _, e in await storage.journal.read(0, 9)] == [3]


async def test_trim_works_through_more_rows_than_one_step_takes(storage: Storage) -> None:
    channels = [f"c:{i % 300}" for i in range(900)]
    await append_all(
        storage.journal,
        [message(i + 1, channel=c, expires_ms=1 + i % 7) for i, c in enumerate(channels)]
        + [JournalEntry(kind=Kind.COUNTERS, ts_ms=1) for _ in range(4100)],
    )
    assert await storage.journal.trim(10**9, 5000) == 600 + 4100
    kept = await storage.journal.read(0, 10_000)
    assert sorted(e.channel for _, e in kept) == sorted({*channels})


async def test_numbering_goes_on_after_everything_was_trimmed(storage: Storage) -> None:
    beats = [JournalEntry(kind=Kind.HEARTBEAT, ts_ms=i) for i in range(10)]
    await append_all(storage.journal, beats)
    assert await storage.journal.trim(10, 1) == 10
    await append_all(storage.journal, beats[:1])
    assert [seq for seq, _ in await storage.journal.read(0, 10)] == [11]
    assert storage.journal.last_seq == 11
