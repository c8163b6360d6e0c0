"""SQL and interpreter: two evaluations of one language, held to each other on Spark."""

import math
from random import Random
from typing import Any

import pyspark.sql.functions as F
import pytest
from pyspark.sql import SparkSession

from arauto.correlation.coercion import ExpressionError
from arauto.correlation.expression import Expr
from arauto.correlation.interpreter import evaluate, json_of
from arauto.correlation.parsing import parse
from arauto.correlation.scope import Scope
from arauto.correlation.sql import channels_sql, to_sql
from arauto.names import matches
from arauto.pipeline.rules.compile import decode
from tests.pipeline.rules.expressions import (
    PAYLOADS,
    random_boolean,
    random_number,
    random_text,
)

pytestmark = pytest.mark.timeout(240)

_COLUMNS = (
    "hub string, channel string, user string, session string, content_type string, id string, "
    "key string, kind int, headers map<string,string>, payload binary"
)
_EXPRESSIONS = 240


def _rows() -> list[dict[str, Any]]:
    made = []
    for number, payload in enumerate(PAYLOADS):
        made.append(
            {
                "hub": "shop",
                "channel": ("prices:eur", "orders", "ünï")[number % 3],
                "user": (None, "", "ann")[number % 3],
                "session": "s",
                "content_type": "application/json",
                "id": str(number),
                "key": None,
                "kind": (1, 2, 99)[number % 3],
                "headers": (None, {}, {"color": "red", "n": "1"})[number % 3],
                "payload": bytearray(payload),
            }
        )
    return made


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None


def _expressions() -> list[tuple[str, Expr]]:
    random = Random(20_261_116)
    found: list[tuple[str, Expr]] = []
    makers = (random_boolean, random_number, random_text)
    while len(found) < _EXPRESSIONS:
        text = makers[len(found) % 3](random, random.randrange(4))
        try:
            found.append((text, parse(text, Scope())))
        except ExpressionError:
            # The generator does not know about types; what is refused is no example.
            continue
    return found


def _same(spark_value: Any, ours: Any) -> bool:
    if isinstance(ours, float) and isinstance(spark_value, float):
        return spark_value == ours or (math.isnan(spark_value) and math.isnan(ours))
    return type(spark_value) is type(ours) and spark_value == ours


def test_sql_gives_what_the_interpreter_gives(spark: SparkSession) -> None:
    rows = _rows()
    expressions = _expressions()
    frame = decode(spark.createDataFrame(rows, _COLUMNS), ["shop"])
    columns = [F.expr(to_sql(expr)).alias(f"e{n}") for n, (_, expr) in enumerate(expressions)]
    got = frame.select("id", "text", "json", *columns).collect()
    by_id = {row["id"]: row for row in got}
    wrong = []
    for row in rows:
        text = _text(bytes(row["payload"]))
        seen = {**row, "text": text, "json": json_of(text)}
        from_spark = by_id[row["id"]]
        where = bytes(row["payload"])[:60]
        if (from_spark["text"], from_spark["json"]) != (seen["text"], seen["json"]):
            wrong.append(f"{where!r}: json is {from_spark['json'] is not None} on Spark")
            continue
        for number, (source, expr) in enumerate(expressions):
            ours = evaluate(expr, seen)
            if not _same(from_spark[f"e{number}"], ours):
                wrong.append(
                    f"{source} of {where!r}: Spark {from_spark[f'e{number}']!r}, ours {ours!r}"
                )
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:40])


def test_channel_patterns_in_sql_cover_what_names_cover(spark: SparkSession) -> None:
    random = Random(7)
    parts = ("a", "b", "ab", "é", "x.y", "[", "\\", "$", "(", "1", "-")
    names = ["/", "/a", "/a/b", "/ab", "a", "a:b", "a:b:c", "ab:", ":", "a::b"]
    names += [":".join(random.choices(parts, k=random.randrange(1, 4))) for _ in range(60)]
    patterns = [
        "*",
        "/",
        "/a",
        "#",
        "a:#",
        "#:b",
        "a:*",
        "*:b",
        "a*b",
        "*a*",
        "#:#",
        "#:*",
        "a:#:c",
    ]
    for _ in range(60):
        made = random.choices((*parts, "*", "#", "a*", "*b"), k=random.randrange(1, 4))
        patterns.append(":".join(made))
    patterns = [pattern for pattern in patterns if pattern.count("*") <= 4]
    columns = [F.expr(channels_sql((pattern,))) for pattern in patterns]
    frame = spark.createDataFrame([(name,) for name in names], "channel string")
    for row in frame.select("channel", *columns).collect():
        for pattern, found in zip(patterns, row[1:], strict=True):
            assert found == matches(pattern, row[0]), (pattern, row[0])
