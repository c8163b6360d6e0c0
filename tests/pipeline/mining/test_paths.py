"""Paths into messages."""

import pytest
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.mining.paths import parse_path, value_of, values_of
from tests.pipeline.mining.frames import messages


@pytest.mark.parametrize(
    "text",
    [
        "",
        "payload",
        "payload.",
        "payload[",
        "payload[x]",
        "nowhere.a",
        "channel.x",
        "headers",
        "payload['a\\']",
        "headers.a.b",
        "payload" + ".a" * 17,
    ],
)
def test_what_is_no_path_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ArautoError) as caught:
        parse_path(text)
    assert caught.value.code is Code.BAD_FIELD
    assert repr(text) in caught.value.message


def test_a_path_with_several_values_is_refused_where_one_is_needed() -> None:
    with pytest.raises(ArautoError, match="several values"):
        value_of(parse_path("payload.a[*]"))


@pytest.mark.parametrize(
    ("path", "body", "values"),
    [
        ("payload.items[*].sku", {"items": [{"sku": "a"}, {"sku": 7}, {}]}, ["a", "7", None]),
        ("payload.a[*].b[*]", {"a": [{"b": ["x", "y"]}, {"b": ["z"]}, {"b": 1}]}, ["x", "y", "z"]),
        ("payload.kind", {"kind": "buy"}, ["buy"]),
        ("payload['a b'].c-d", {"a b": {"c-d": True}}, ["true"]),
        ("payload.list[1]", {"list": ["x", "y"]}, ["y"]),
        ("payload.items[*].sku", {"items": "text"}, None),
        ("payload.items[*].sku", "{broken", None),
        ("payload.kind", "{broken", [None]),
        ("channel", {}, ["orders"]),
        ("headers.region", {}, ["eu"]),
        ("headers.other", {}, [None]),
    ],
)
def test_values_at_a_path(spark: SparkSession, path: str, body: object, values: object) -> None:
    frame = messages(spark, [{"body": body, "headers": {"region": "eu"}}])
    row = frame.select(values_of(parse_path(path)).alias("found")).collect()[0]
    assert row["found"] == values
