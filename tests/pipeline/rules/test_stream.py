"""The rules query as a whole: streaming, batch and the matcher alone find the same."""

import re
from pathlib import Path
from random import Random

import msgspec
from pyspark.sql import SparkSession

from arauto.pipeline.rules.batch import matches_batch
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.rules.expressions import PAYLOADS
from tests.pipeline.rules.support import (
    T0,
    expected,
    heartbeat,
    message,
    programs,
    row_tuple,
    run_stream,
    traffic,
    write_rows,
)


def test_stream_batch_and_matcher_agree_on_every_kind_of_rule_whatever_clients_send(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Invalid UTF-8, JSON thousands of levels deep, numbers beyond all bounds: they stop nothing.
    named = [p.replace(b'"a"', b'"price"').replace(b'"b"', b'"symbol"') for p in PAYLOADS]
    # As they are, for rules that find nothing in them, and once more with the fields that rules look at.
    poison = [message(1_000 + n, n * 50, body) for n, body in enumerate((*PAYLOADS, *named))]
    rows = sorted(traffic(250) + poison, key=lambda row: row["ts"])
    end_ms = rows[-1]["ts"] - T0 + 60_000
    # Out of order by up to two seconds, which is within the watermark.
    random = Random(3)
    shuffled = sorted(rows, key=lambda row: row["ts"] + random.randrange(2_000))
    batches = [shuffled[start : start + 90] for start in range(0, len(shuffled), 90)]
    write_rows(tmp_path / "in", [*batches, [heartbeat(9_999, end_ms)]])
    compiled = programs()
    # The watermark stays five seconds behind the heartbeat.
    until_ms = T0 + end_ms - 5_000
    wanted = sorted(expected(rows, compiled, until_ms))
    assert {row[3] for row in wanted} == {program.rule for program in compiled}

    streamed = run_stream(spark, tmp_path / "in", compiled, tmp_path / "checkpoint")
    assert sorted(streamed) == wanted

    frame = spark.createDataFrame([row_tuple(row) for row in shuffled], JOURNAL)
    found = matches_batch(frame, compiled, until_ms=until_ms).collect()
    assert sorted(map(tuple, found)) == wanted


def test_numbers_of_payloads_are_keys_texts_and_payloads_by_their_digits(
    spark: SparkSession, tmp_path: Path
) -> None:
    digits = {
        "1795066120.4674747": "1795066120.4674747",
        "0.0001": "0.0001",
        "12345678.9": "12345678.9",
        "1e3": "1000",
        "38.70": "38.7",
        "9007199254740993": "9007199254740993",
    }
    compiled = programs("""
rule: digits
key: [payload.n]
match: "payload.n like '%' and payload.n not in ('12345678.9') or payload.n = '12345678.9'"
emit: {channel: alerts, payload: {n: payload.n, said: "'n=' || payload.n"}}
""")
    rows = [message(n, n * 100, f'{{"n": {sent}}}') for n, sent in enumerate(digits, 1)]
    wanted = {(f'["{text}"]', f'{{"n":"{text}","said":"n={text}"}}') for text in digits.values()}

    write_rows(tmp_path / "in", [rows, [heartbeat(99, 60_000)]])
    streamed = run_stream(spark, tmp_path / "in", compiled, tmp_path / "checkpoint")
    frame = spark.createDataFrame([row_tuple(row) for row in rows], JOURNAL)
    found = matches_batch(frame, compiled, until_ms=T0 + 50_000)
    alone = expected(rows, compiled, T0 + 50_000)
    key, payload = found.columns.index("key"), found.columns.index("payload")
    for matches in (streamed, map(tuple, found.collect()), alone):
        assert {(match[key], match[payload]) for match in matches} == wanted


def test_the_plan_does_not_grow_with_the_rules(spark: SparkSession) -> None:
    rows = spark.createDataFrame([row_tuple(row) for row in traffic(3)], JOURNAL)
    many = [
        msgspec.structs.replace(each, hub=f"hub{n}", ref=f"{each.ref}{n}")
        for n in range(40)
        for each in programs()
    ]
    plans = []
    for compiled in (programs(), many):
        frame = matches_batch(rows, compiled, until_ms=T0)
        plan = frame._jdf.queryExecution().optimizedPlan().toString()
        # Spark numbers columns from one plan to the next.
        plans.append(re.sub(r"#[0-9]+L?", "", plan))
    assert plans[0] == plans[1]
