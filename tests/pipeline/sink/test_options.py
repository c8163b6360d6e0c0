"""A sink that cannot work says so before anything runs."""

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from arauto.errors import ArautoError, Code
from arauto.pipeline.sink.options import SinkOptions, check_columns

GIVEN = {"url": "http://127.0.0.1:4040", "token": "secret-token", "hub": "shop"}


def test_names_are_read_in_any_case() -> None:
    options = SinkOptions.read(GIVEN | {"IDPREFIX": "a", "maxrefused": "3", "ContentType": "x/y"})
    assert (options.id_prefix, options.refused_max, options.content_type) == ("a", 3, "x/y")


def test_the_token_may_come_from_the_environment_and_never_shows() -> None:
    given = {"url": GIVEN["url"]}
    options = SinkOptions.read(given, {"ARAUTO_ADMIN__TOKEN": "secret-token"})
    assert options.token == "secret-token"
    assert "secret-token" not in repr(options)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "sqlite:///x"}, "url"),
        ({"token": ""}, "token"),
        ({"hub": "no spaces"}, "hub"),
        ({"maxRefused": "-1"}, "maxRefused"),
        ({"retrySeconds": "soon"}, "retrySeconds"),
        ({"idPrefix": "x" * 65}, "idPrefix"),
        ({"rule": "x" * 129}, "rule"),
    ],
)
def test_a_bad_option_is_named(change: dict[str, str], field: str) -> None:
    with pytest.raises(ArautoError) as caught:
        SinkOptions.read(GIVEN | change, {})
    assert caught.value.field == field


TEXT, BYTES, NUMBER = StringType(), BinaryType(), IntegerType()


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (struct(payload=TEXT), "channel is missing"),
        (struct(channel=TEXT), "payload is missing"),
        (struct(channel=TEXT, payload=struct(a=NUMBER)), "to_json"),
        (struct(channel=TEXT, payload=TEXT, contentType=TEXT), "contentType is not a column"),
        (struct(channel=TEXT, payload=TEXT, headers=TEXT), "map<string,string>, not string"),
        (struct(channel=NUMBER, payload=TEXT), "must be of type string, not int"),
    ],
)
def test_bad_columns_are_named(columns: StructType, words: str) -> None:
    with pytest.raises(ArautoError, match=words) as caught:
        check_columns(columns, SinkOptions.read(GIVEN))
    assert caught.value.code is Code.BAD_CONFIG


def test_a_hub_comes_from_the_column_or_the_option() -> None:
    columns = struct(channel=TEXT, payload=BYTES)
    check_columns(columns, SinkOptions.read(GIVEN))
    with pytest.raises(ArautoError, match="or give the option hub"):
        check_columns(columns, SinkOptions.read(GIVEN | {"hub": ""}))
