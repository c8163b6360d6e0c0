"""How `arauto sub` shows what it receives: as lines for people, or as JSON for scripts.

The JSON is that of the protocol's JSON flavour, event by event, so that one page documents both.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text

from arauto.client import Received, Update
from arauto.client.payload import is_json, is_text
from arauto.codec.events import (
    DocumentGetReply,
    DocumentUpdated,
    Gap,
    Join,
    Leave,
    Occupancy,
    Operation,
    Presence,
    Publication,
)
from arauto.codec.json import JsonCodec
from arauto.errors import ArautoError
from arauto.model import Member, Serial
from arauto.printable import printable

__all__ = [
    "JsonPrinter",
    "Printer",
    "TextPrinter",
    "clock_time",
    "describe_payload",
    "format_serial",
    "parse_serial",
]

_CHANNEL_WIDTH_MAX = 32
_HEX_BYTES = 10
_TEXT_LEN_MAX = 4_000
_MEMBERS_MAX = 8
_INDENT = "  "
_NO_WIDTH = 1_000_000

_highlight_json = JSONHighlighter().highlight


def format_serial(serial: Serial) -> str:
    """A place as `--since` takes it; the epoch is written as it is in JSON."""
    return f"{serial.epoch:016x}:{serial.offset}"


def parse_serial(text: str) -> Serial:
    """The opposite of `format_serial`.

    Raises:
        ValueError: it is not EPOCH:OFFSET.
    """
    epoch, _, offset = text.partition(":")
    if not (epoch and len(epoch) <= 16 and offset.isdecimal() and len(offset) <= 16):
        raise ValueError("must be EPOCH:OFFSET, as `arauto pub` and `arauto sub` print it")
    return Serial(int(epoch, 16), int(offset))


class Printer(Protocol):
    """Shows what a subscription brings. Lines may be held back until `flush`."""

    def message(self, received: Received) -> None: ...

    def document(self, channel: str, update: Update) -> None: ...

    def event(self, event: Join | Leave | Presence | Occupancy) -> None: ...

    def gap(self, gap: Gap) -> None: ...

    def flush(self) -> None: ...


class JsonPrinter:
    """One JSON object per line."""

    def __init__(self) -> None:
        self._encode = JsonCodec().encode_event
        self._out = sys.stdout.buffer

    def message(self, received: Received) -> None:
        self._write(Publication(message=received.message))

    def document(self, channel: str, update: Update) -> None:
        if not update.operations:
            self._write(
                DocumentGetReply(channel=channel, version=update.version, value=update.value)
            )
            return
        self._write(
            DocumentUpdated(
                channel=channel,
                version=update.version,
                operations=update.operations,
                user=update.user,
                ts_ms=update.ts_ms,
            )
        )

    def event(self, event: Join | Leave | Presence | Occupancy) -> None:
        self._write(event)

    def gap(self, gap: Gap) -> None:
        self._write(gap)

    def flush(self) -> None:
        self._out.flush()

    def _write(self, event: Any) -> None:
        self._out.write(self._encode(event) + b"\n")


class TextPrinter:
    """A line per message: time, channel, offset, payload. What does not fit goes below, indented."""

    def __init__(self, console: Console, listed: Iterable[str] = ()) -> None:
        """`listed` are channels whose members are about to be listed: until then their number is not worth a
        line."""
        self._console = console
        self._listed = set(listed)
        self._here: dict[str, int] = {}
        """How many there were, as it was last told."""
        self._channel_width = 0

    def message(self, received: Received) -> None:
        head = self._head(received.ts_ms, received.channel, f"#{received.serial.offset}")
        self._print(head, describe_payload(received))

    def document(self, channel: str, update: Update) -> None:
        head = self._head(update.ts_ms, channel, f"v{update.version}")
        if update.operations:
            self._print(head, _operations(update.operations))
        else:
            self._print(head, _json(update.value))

    def event(self, event: Join | Leave | Presence | Occupancy) -> None:
        if isinstance(event, Occupancy):
            told = self._here.get(event.channel)
            if event.count == told or event.channel in self._listed:
                return
            self._here[event.channel] = event.count
        elif isinstance(event, Presence):
            self._listed.discard(event.channel)
            self._here[event.channel] = event.total
        if isinstance(event, Presence):
            names = [_name(member) for member in event.members[:_MEMBERS_MAX]]
            more = event.total - len(names)
            listed = ", ".join(names) + (f" and {more} more" if more else "")
            said = Text(
                f"{event.total} here: {listed}" if event.total else "nobody here", "magenta"
            )
        elif isinstance(event, Occupancy):
            said = Text(f"{event.count} here", style="magenta")
        else:
            came = isinstance(event, Join)
            verb = "came" if came else "left"
            said = Text(f"{_name(event.member)} {verb}", style="green" if came else "yellow")
        self._print(self._head(0, event.channel, ""), said)

    def gap(self, gap: Gap) -> None:
        missing = f"after #{gap.after.offset} messages are missing"
        if gap.upto > gap.after and gap.upto.epoch == gap.after.epoch:
            missing = f"#{gap.after.offset + 1} to #{gap.upto.offset} are missing"
        self._print(
            self._head(0, gap.channel, ""), Text(f"{missing} ({gap.reason})", "bold yellow")
        )

    def flush(self) -> None:
        self._console.file.flush()

    def _head(self, ts_ms: int, channel: str, mark: str) -> Text:
        width = min(max(self._channel_width, len(channel)), _CHANNEL_WIDTH_MAX)
        self._channel_width = width
        return Text.assemble(
            (clock_time(ts_ms), "dim"),
            " ",
            (printable(channel).ljust(width), "cyan"),
            " ",
            (mark.rjust(4), "dim"),
            " ",
        )

    def _print(self, head: Text, body: Text) -> None:
        width = self._console.width if self._console.is_terminal else _NO_WIDTH
        is_one_line = "\n" not in body.plain
        if is_one_line and head.cell_len + body.cell_len <= width:
            self._console.print(Text.assemble(head, body), soft_wrap=True)
            return
        if not is_one_line or len(_INDENT) + body.cell_len > width:
            body = _laid_out(body)
        lines = body.split("\n", allow_blank=True)
        below = Text("\n").join(Text(_INDENT).append_text(line) for line in lines)
        self._console.print(head, soft_wrap=True)
        self._console.print(below, soft_wrap=True)


def clock_time(ts_ms: int) -> str:
    """The time of day here; now, if there is none."""
    at = datetime.fromtimestamp(ts_ms / 1000).astimezone() if ts_ms else datetime.now().astimezone()
    return at.strftime("%H:%M:%S")


def _name(member: Member) -> str:
    return printable(member.user) or f"somebody ({member.session[:6]})"


def describe_payload(received: Received) -> Text:
    """A message's content for people: JSON and text as they are, other bytes by their beginning."""
    try:
        data = received.data
    except ArautoError:
        # It is not what its publisher said it is.
        return _hex(received.payload)
    if is_json(received.content_type):
        return _json(data)
    if is_text(received.content_type):
        return Text(printable(_shortened(data)))
    return _hex(received.payload)


def _json(value: Any) -> Text:
    text = Text(printable(_shortened(_dumped(value))))
    _highlight_json(text)
    return text


def _dumped(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_bytes_as_text)


def _bytes_as_text(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)


def _hex(payload: bytes) -> Text:
    start = payload[:_HEX_BYTES]
    shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in start)
    more = " …" if len(payload) > len(start) else ""
    count = f"{len(payload)} byte{'s' if len(payload) != 1 else ''}"
    return Text.assemble((count, "dim"), f"  {start.hex(' ')}{more}  ", (shown, "dim"))


def _operations(operations: Sequence[Operation]) -> Text:
    text = Text()
    for at, operation in enumerate(operations):
        if at:
            text.append("; ", "dim")
        text.append(operation.op, "magenta")
        if operation.source:
            text.append(f" {printable(operation.source)} →")
        text.append(f" {printable(operation.path)}")
        if operation.op in ("add", "replace", "test"):
            text.append(" ").append_text(_json(operation.value))
    return text


def _laid_out(body: Text) -> Text:
    """JSON that is longer than a line, over several lines; everything else as it is."""
    try:
        text = Text(printable(_dumped(json.loads(body.plain), indent=2)))
    except ValueError:
        return body
    _highlight_json(text)
    return text


def _shortened(text: str) -> str:
    if len(text) <= _TEXT_LEN_MAX:
        return text
    return f"{text[:_TEXT_LEN_MAX]}… ({len(text) - _TEXT_LEN_MAX} more characters)"
