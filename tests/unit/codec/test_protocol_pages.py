"""The protocol pages are true: numbers, names, fields, close codes and every example."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arauto.codec import arauto_pb2 as pb
from arauto.codec.numbers import EventType
from arauto.codec.proto_client import REQUEST_ENCODERS
from arauto.codec.proto_events import EVENT_ENCODERS
from arauto.codec.websocket import close_code, may_reconnect
from arauto.errors import ArautoError, Code
from tests.vectors import generate

PAGES = Path(__file__).resolve().parents[3] / "docs" / "protocol"
README, ERRORS = PAGES / "README.md", PAGES / "errors.md"
_EXAMPLE = re.compile(r"<!-- vector: (\w+) (\w+) -->\n```(\w+)\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(r"<!-- fields: ([\w ]+) -->\n((?:\|.*\n)+)")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


# --- errors ------------------------------------------------------------------------------------------


def error_rows() -> list[list[str]]:
    return [
        row for row in rows(ERRORS.read_text(encoding="utf-8")) if re.fullmatch(r"\d{4}", row[0])
    ]


def test_the_page_of_errors_lists_each_error_once_under_its_number_and_name() -> None:
    listed = [(int(row[0]), row[1]) for row in error_rows()]
    assert listed == [(int(code), f"`{code.name}`") for code in Code]


def test_the_page_of_errors_says_what_may_be_tried_again() -> None:
    for row in error_rows():
        retryable = ArautoError(Code(int(row[0])), "").retryable
        assert row[3] == ("yes" if retryable else "no"), row[1]


def test_every_error_has_a_meaning() -> None:
    assert [row[1] for row in error_rows() if not row[2]] == []


def test_the_page_of_errors_gives_every_close_code() -> None:
    listed = {
        row[0].strip("`"): (int(row[1]), row[2])
        for row in rows(ERRORS.read_text(encoding="utf-8"))
        if len(row) == 3 and re.fullmatch(r"`[A-Z_]+`", row[0])
    }
    assert listed == {
        code.name: (close_code(code), "yes" if may_reconnect(close_code(code)) else "no")
        for code in Code
        if 4000 <= code < 6000
    }


# --- events and fields -------------------------------------------------------------------------------


def test_the_table_of_events_is_complete() -> None:
    text = README.read_text(encoding="utf-8")
    listed = [row for row in rows(text) if len(row) == 4 and re.fullmatch(r"\d+", row[0])]
    sent = {number: record.__name__ for record, (number, _) in REQUEST_ENCODERS.items()}
    received = {number: record.__name__ for record, (number, _) in EVENT_ENCODERS.items()}
    assert listed == [
        [str(int(event)), f"`{event.name.lower()}`", sent.get(event, ""), received.get(event, "")]
        for event in EventType
    ]


def test_every_field_of_every_message_is_described() -> None:
    described: set[str] = set()
    for names, table in _FIELDS.findall(README.read_text(encoding="utf-8")):
        fields = [row[0].split("`")[1] for row in list(rows(table))[2:]]
        for name in names.split():
            described.add(name)
            message = pb.DESCRIPTOR.message_types_by_name[name]
            assert fields == [field.name for field in message.fields], name
    apart = {"Envelope", "Positions", "Value", "CloseRequest"}
    assert described == set(pb.DESCRIPTOR.message_types_by_name) - apart


# --- examples ----------------------------------------------------------------------------------------


def vectors() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (name, item["name"]): item for name, items in generate.vectors().items() for item in items
    }


def examples() -> list[Any]:
    found = []
    for page in sorted(PAGES.glob("*.md")):
        for file, name, kind, body in _EXAMPLE.findall(page.read_text(encoding="utf-8")):
            found.append(pytest.param(file, name, kind, body, id=f"{page.stem}-{file}-{name}"))
    return found


def hex_of(body: str) -> str:
    """The bytes of an annotated dump: each line's leading pairs of digits, up to two spaces."""
    return "".join(line.strip().split("  ")[0].replace(" ", "") for line in body.splitlines())


@pytest.mark.parametrize(("file", "name", "kind", "body"), examples())
def test_an_example_is_what_the_codec_writes(file: str, name: str, kind: str, body: str) -> None:
    vector = vectors()[(file, name)]
    if kind == "hex":
        assert hex_of(body) == vector["proto"]
    elif kind == "json":
        assert json.loads(body) == json.loads(vector["json"])
    else:
        assert body + "\n" == vector["chunk"]


def test_the_json_page_has_an_example_of_every_event_each_way() -> None:
    shown = {
        vectors()[(file, name)]["event"] + " " + file
        for file, name, _, _ in _EXAMPLE.findall((PAGES / "json.md").read_text(encoding="utf-8"))
        if not file.startswith("newer_")
    }
    wanted = {f"{EventType(n).name.lower()} requests" for n, _ in REQUEST_ENCODERS.values()}
    wanted |= {f"{EventType(n).name.lower()} events" for n, _ in EVENT_ENCODERS.values()}
    assert shown == wanted


def test_the_protobuf_page_has_examples() -> None:
    kinds = [kind for _, _, kind, _ in _EXAMPLE.findall((PAGES / "protobuf.md").read_text())]
    assert len(kinds) >= 6
    assert set(kinds) == {"hex"}
