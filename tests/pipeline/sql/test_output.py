"""Rows as text."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from arauto.pipeline.sql.output import cell, to_csv, to_json
from arauto.pipeline.sql.run import Answer

VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (7, 7),
    (1.5, 1.5),
    (True, True),
    ('a "quoted", text\n', 'a "quoted", text\n'),
    (b"text", "text"),
    (b"\xff\x00", "0xff00"),
    (datetime(2026, 3, 2, 12, 0, 0, 5_000, tzinfo=UTC), "2026-03-02T12:00:00.005Z"),
    (date(2026, 3, 2), "2026-03-02"),
    (Decimal("1.10"), "1.10"),
    ([1, None, b"x"], [1, None, "x"]),
    ({"k": 1}, {"k": 1}),
    (Row(a=1, b=[2]), {"a": 1, "b": [2]}),
]


@pytest.mark.parametrize(("value", "said"), VALUES)
def test_json_says_each_kind_of_value(value: Any, said: Any) -> None:
    assert json.loads(to_json(Answer(("v",), [(value,)], is_cut=False))) == [{"v": said}]


def test_csv_survives_quotes_and_line_breaks() -> None:
    text = to_csv(Answer(("a", "b"), [('x"\n,y', None), (["p"], 2)], is_cut=False))
    assert list(csv.reader(io.StringIO(text))) == [["a", "b"], ['x"\n,y', ""], ['["p"]', "2"]]


def test_cells_are_short_and_show_what_is_missing() -> None:
    assert (cell(None), cell(1234567.891), cell({"a": 1})) == ("–", "1.23457e+06", '{"a":1}')
