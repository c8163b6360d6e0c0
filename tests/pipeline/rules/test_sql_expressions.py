"""SQL and interpreter: two evaluations of one language, held to each other on Spark."""

import math
import time
from random import Random
from typing import Any

import pyspark.sql.functions as F
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
    LIKE_PATTERNS,
    LIKE_TEXTS,
    PAYLOADS,
    random_boolean,
    random_number,
    random_text,
)

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


def test_like_in_sql_covers_what_it_covers_in_the_interpreter(spark: SparkSession) -> None:
    expressions = [parse(f"user like '{pattern}'", Scope()) for pattern in LIKE_PATTERNS]
    columns = [F.expr(to_sql(expr)) for expr in expressions]
    frame = spark.createDataFrame([(text,) for text in LIKE_TEXTS], "user string")
    wrong = []
    covered = dict.fromkeys(LIKE_PATTERNS, 0)
    for user, *found in frame.select("user", *columns).collect():
        for pattern, expr, on_spark in zip(LIKE_PATTERNS, expressions, found, strict=True):
            covered[pattern] += on_spark
            if on_spark is not evaluate(expr, {"user": user}):
                wrong.append(f"{user!r} like {pattern!r}: {on_spark} on Spark")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:40])
    # A pattern that covers nothing here, or everything, would be no example.
    always = {"%", "%%%%"}
    assert {p for p, n in covered.items() if n in (0, len(LIKE_TEXTS))} == always


def test_no_text_keeps_spark_busy_whatever_the_pattern(spark: SparkSession) -> None:
    """If every run of a pattern backtracked, the first of these would take years."""
    patterns = ("%a%a%a%b", "%a_a%a_a%a_b%a", "%%%%b_", f"%{'a' * 40}%{'a' * 40}b%a", "%a%")
    likes = [to_sql(parse(f"payload like '{pattern}'", Scope())) for pattern in patterns]
    stars = channels_sql(("*a*a*a*b",))
    # Beyond the basic plane characters differ in width, for which Java has ways of its own.
    rows = [("a" * 65_536, "a" * 65_536), ("a\U0001f600" * 32_768, "a\U0001f600" * 32_768)]
    frame = spark.createDataFrame(rows, "text string, channel string")
    columns = [F.expr(sql) for sql in (*likes, stars)]
    started = time.monotonic()
    found = frame.select(*columns).collect()
    assert time.monotonic() - started < 20
    assert [tuple(row) for row in found] == [(False, False, False, False, True, False)] * 2


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
