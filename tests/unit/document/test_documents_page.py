"""What docs/topics/documents.md shows is what happens."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arauto.codec.events import DocumentChangeRequest, DocumentUpdated, Operation
from arauto.codec.json import JsonCodec
from arauto.codec.unread import operations_of
from arauto.features.document.patch import Document, apply
from arauto.features.document.value import LIMITS
from tests.unit.document.cases import same

_PAGE = (Path(__file__).parents[3] / "docs/topics/documents.md").read_text()


def _rows(first_heading: str) -> Iterator[list[str]]:
    """The cells of the table whose first column has this heading."""
    table = _PAGE.split(f"| {first_heading} |", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def _operation(raw: dict[str, Any]) -> Operation:
    names = {"from": "source"}
    return Operation(**{names.get(name, name): value for name, value in raw.items()})


_EXAMPLES = [[json.loads(cell.strip("`")) for cell in row] for row in _rows("document")]


def test_the_page_has_examples() -> None:
    assert len(_EXAMPLES) == 8


@pytest.mark.parametrize(("before", "operation", "after", "sent"), _EXAMPLES)
def test_the_examples_of_friendly_mode_are_true(
    before: Any, operation: Any, after: Any, sent: Any
) -> None:
    document = Document(before)
    applied = apply(document, [_operation(operation)])
    assert same(document.value, after)
    assert list(applied.operations) == [_operation(raw) for raw in sent]


def test_the_messages_on_the_page_are_valid() -> None:
    asked, told = re.findall(r"```json\n(.*?)```", _PAGE, re.DOTALL)
    request = JsonCodec().decode_request(asked.encode())
    event = JsonCodec().decode_event(told.encode())
    assert isinstance(request, DocumentChangeRequest)
    assert isinstance(event, DocumentUpdated)
    document = Document({"title": "Draft", "tags": []})
    assert apply(document, operations_of(request)).operations == event.operations
    assert document.value == {"title": "Final", "tags": ["done"]}


def test_the_limits_on_the_page_are_the_limits() -> None:
    shown = [re.sub(r"\(.*\)", "", row[1]) for row in _rows("what")]
    numbers = [
        int(text.replace("MiB", "").replace(" ", "")) * (1 << 20 if "MiB" in text else 1)
        for text in shown
    ]
    assert numbers == [
        LIMITS.operations_max,
        LIMITS.nodes_max,
        LIMITS.depth_max,
        LIMITS.text_bytes_max,
        LIMITS.size_bytes_max,
        LIMITS.work_nodes_max,
    ]
