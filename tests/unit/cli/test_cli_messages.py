"""How messages look: for people on one line if they fit, for scripts as in the JSON flavour."""

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from arauto.cli.messages import JsonPrinter, TextPrinter, format_serial, parse_serial
from arauto.client import Received, Update
from arauto.codec.events import (
    DocumentGetReply,
    DocumentUpdated,
    Event,
    Gap,
    Join,
    Leave,
    Occupancy,
    Operation,
    Presence,
    Publication,
)
from arauto.codec.json import JsonCodec
from arauto.limits import EPOCH_MAX, UINT53_MAX
from arauto.model import BINARY, JSON, TEXT, Member, Message, Serial

_TS_MS = 1_700_000_000_000


def received(payload: bytes, content_type: str = JSON, channel: str = "stock:1") -> Received:
    return Received(
        Message(
            hub="shop",
            channel=channel,
            payload=payload,
            epoch=5,
            offset=17,
            ts_ms=_TS_MS,
            content_type=content_type,
        )
    )


class Screen:
    """A terminal of a given width, and what was written to it."""

    def __init__(
        self, width: int = 80, *, is_terminal: bool = True, listed: tuple[str, ...] = ()
    ) -> None:
        self._out = io.StringIO()
        console = Console(
            file=self._out, width=width, force_terminal=is_terminal, color_system=None
        )
        self.printer = TextPrinter(console, listed)

    @property
    def lines(self) -> list[str]:
        return self._out.getvalue().splitlines()

    @property
    def text(self) -> str:
        return self._out.getvalue()


# --- for people ---------------------------------------------------------------------------------------


def test_a_message_is_a_line_with_time_channel_offset_and_payload() -> None:
    screen = Screen()
    screen.printer.message(received(b'{"level":7}'))
    [line] = screen.lines
    assert re.fullmatch(r'\d\d:\d\d:\d\d stock:1  #17 \{"level": 7\}', line)


def test_a_payload_too_long_for_the_line_goes_below() -> None:
    screen = Screen(width=40)
    screen.printer.message(received(b'{"level":7,"name":"Kettle"}'))
    assert screen.lines[1] == '  {"level": 7, "name": "Kettle"}'


def test_json_too_long_for_any_line_is_laid_out() -> None:
    screen = Screen(width=30)
    screen.printer.message(received(b'{"level":7,"name":"A very long name"}'))
    assert json.loads("\n".join(screen.lines[1:])) == {"level": 7, "name": "A very long name"}
    assert all(len(line) <= 30 for line in screen.lines)


def test_where_nobody_watches_a_message_stays_on_one_line() -> None:
    screen = Screen(width=30, is_terminal=False)
    screen.printer.message(received(json.dumps({"text": "x" * 200}).encode()))
    assert len(screen.lines) == 1


def test_text_is_shown_as_text() -> None:
    screen = Screen()
    screen.printer.message(received("Olá".encode(), TEXT))
    assert screen.lines[0].endswith("#17 Olá")


def test_lines_of_a_text_stand_below_each_other() -> None:
    screen = Screen()
    screen.printer.message(received(b"one\ntwo", TEXT))
    assert screen.lines[1:] == ["  one", "  two"]


def test_other_bytes_are_shown_by_their_beginning() -> None:
    screen = Screen()
    screen.printer.message(received(b"\x00AB\xff" + bytes(100), BINARY))
    assert "104 bytes  00 41 42 ff 00 00 00 00 00 00 …  ·AB·······" in screen.lines[0]


@pytest.mark.parametrize(("payload", "kind"), [(b"{", JSON), (b"\xff", TEXT)])
def test_a_payload_that_is_not_what_it_says_is_shown_as_bytes(payload: bytes, kind: str) -> None:
    screen = Screen()
    screen.printer.message(received(payload, kind))
    assert f"1 byte  {payload.hex()}" in screen.text


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"\x1b[2J\x1b]0;owned\x07", TEXT),
        (json.dumps({"\x1b[2J": "\x9b2J\u202e"}, ensure_ascii=False).encode(), JSON),
        (b"\x1b[2J", BINARY),
        (b"[red]not markup[/red]", TEXT),
    ],
)
def test_a_hostile_payload_stays_text(payload: bytes, kind: str) -> None:
    screen = Screen()
    screen.printer.message(received(payload, kind))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", screen.text)
    if b"[red]" in payload:
        assert "[red]not markup[/red]" in screen.text


def test_an_enormous_text_is_cut() -> None:
    screen = Screen()
    screen.printer.message(received(b"x" * 1_000_000, TEXT))
    assert len(screen.text) < 6_000
    assert "996000 more characters" in screen.text


def test_channels_of_different_length_keep_the_columns() -> None:
    screen = Screen()
    screen.printer.message(received(b"1", channel="a-long-channel"))
    screen.printer.message(received(b"2", channel="short"))
    first, second = screen.lines
    assert first.index("#17") == second.index("#17")


def test_who_is_there_is_told_by_name() -> None:
    members = (
        Member(session="s1", user="porto", joined_ms=1),
        Member(session="s2abcdefgh", user="", joined_ms=2),
    )
    screen = Screen()
    screen.printer.event(Presence(channel="shops", members=members, total=5))
    screen.printer.event(Join(channel="shops", member=members[0]))
    screen.printer.event(Leave(channel="shops", member=members[1]))
    screen.printer.event(Occupancy(channel="shops", count=3))
    screen.printer.event(Presence(channel="shops", members=(), total=0))
    assert [line.split(maxsplit=2)[2] for line in screen.lines] == [
        "5 here: porto, somebody (s2abcd) and 3 more",
        "porto came",
        "somebody (s2abcd) left",
        "3 here",
        "nobody here",
    ]


def test_how_many_are_there_is_told_once() -> None:
    member = Member(session="s1", user="porto", joined_ms=1)
    screen = Screen(listed=("shops",))
    screen.printer.event(Occupancy(channel="shops", count=1))
    screen.printer.event(Presence(channel="shops", members=(member,), total=1))
    screen.printer.event(Occupancy(channel="shops", count=1))
    screen.printer.event(Join(channel="shops", member=member))
    screen.printer.event(Occupancy(channel="shops", count=2))
    screen.printer.event(Occupancy(channel="other", count=2))
    assert [line.split(maxsplit=2)[2] for line in screen.lines] == [
        "1 here: porto",
        "porto came",
        "2 here",
        "2 here",
    ]


@pytest.mark.parametrize(
    ("upto", "said"),
    [
        (Serial(5, 9), "#4 to #9 are missing (slow)"),
        (Serial(6, 2), "after #3 messages are missing (slow)"),
        (Serial(5, 3), "after #3 messages are missing (slow)"),
    ],
)
def test_a_gap_is_told_in_place(upto: Serial, said: str) -> None:
    screen = Screen()
    screen.printer.gap(Gap(channel="stock:1", after=Serial(5, 3), upto=upto, reason="slow"))
    assert screen.lines[0].endswith(said)


def test_a_document_is_shown_whole_and_then_by_its_changes() -> None:
    screen = Screen()
    screen.printer.document("doc:b", Update(version=1, value={"a": 1, "raw": b"xyz"}))
    changes = (
        Operation(op="add", path="/b", value=2),
        Operation(op="move", path="/c", source="/b"),
        Operation(op="remove", path="/c"),
    )
    screen.printer.document("doc:b", Update(version=2, value={}, operations=changes, ts_ms=_TS_MS))
    assert screen.lines[0].endswith('v1 {"a": 1, "raw": "<3 bytes>"}')
    assert screen.lines[1].endswith("v2 add /b 2; move /b → /c; remove /c")


# --- for scripts --------------------------------------------------------------------------------------


def printed_as_json(monkeypatch: pytest.MonkeyPatch, *calls: tuple[str, Any]) -> list[Event]:
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", out)
    printer = JsonPrinter()
    for name, arguments in calls:
        getattr(printer, name)(*arguments)
    printer.flush()
    assert isinstance(out.buffer, io.BytesIO)
    lines = out.buffer.getvalue().splitlines()
    return [JsonCodec().decode_event(line) for line in lines]


def test_json_lines_are_events_of_the_json_flavour(monkeypatch: pytest.MonkeyPatch) -> None:
    message = received(b'{"level":7}').message
    gap = Gap(channel="a", after=Serial(1, 1), upto=Serial(1, 4), reason="slow")
    join = Join(channel="a", member=Member(session="s", user="u", joined_ms=1))
    change = Operation(op="add", path="/b", value=2)
    [published, missing, joined, whole, changed] = printed_as_json(
        monkeypatch,
        ("message", (Received(message),)),
        ("gap", (gap,)),
        ("event", (join,)),
        ("document", ("doc:b", Update(version=1, value={"a": b"x"}))),
        ("document", ("doc:b", Update(version=2, value={}, operations=(change,), ts_ms=9))),
    )
    assert isinstance(published, Publication)
    assert (published.message.payload, published.message.serial) == (b'{"level":7}', Serial(5, 17))
    assert (missing, joined) == (gap, join)
    assert whole == DocumentGetReply(channel="doc:b", version=1, value={"a": b"x"})
    assert changed == DocumentUpdated(channel="doc:b", version=2, operations=(change,), ts_ms=9)


# --- places ---------------------------------------------------------------------------------------------


@given(st.integers(0, EPOCH_MAX), st.integers(0, UINT53_MAX))
def test_a_place_is_read_as_it_was_printed(epoch: int, offset: int) -> None:
    assert parse_serial(format_serial(Serial(epoch, offset))) == Serial(epoch, offset)


@pytest.mark.parametrize(
    "text", ["", ":", "5", "5:", ":5", "g:1", "1:-1", "1:1:1", "1" * 17 + ":1", "1:" + "1" * 17]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_serial(text)
