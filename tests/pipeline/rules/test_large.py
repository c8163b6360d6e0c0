"""A tenant's rules that make as much as they can of messages as long as can be: the others do not notice."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arauto.correlation.bounds import MEMORY_BYTES_MAX, WAITING_BYTES_MAX
from arauto.pipeline.rules.packing import SEPARATOR
from arauto.pipeline.rules.processor import held_bytes
from arauto.pipeline.rules.stream import PLAN_VERSION, RULES
from tests.pipeline.rules.support import heartbeat, message, programs, run_stream, write_rows

#: Names that each stand for two of the one before, and the last of them wherever a rule can have it.
_ATTACK = """
rule: joins
version: 1
let: {a: payload.text, b: a || a, c: b || b, d: c || c, e: d || d, f: e || e, g: f || f}
match: length(g) > 0 or payload.n >= 0
emit: {channel: alerts, payload: {g: g, h: g || g, i: upper(g), a: a, j: a || '1', k: a || '2'}}
---
rule: keyed
version: 1
key: [payload.text]
sequence: [{as: one, where: payload.n >= 0}, {as: two, where: payload.n < 0}]
within: 1h
emit: {channel: alerts, payload: {}}
---
rule: keeps
version: 1
key: ["cast(payload.n % 5 as string)"]
buffer: 10000
sequence:
  - {as: one, where: payload.n >= 0}
  - {as: two, where: payload.n >= 0 and payload.text <> one.payload.text}
  - {as: three, where: payload.n < 0}
within: 1h
skip: to_next
emit: {channel: alerts, payload: {one: one.payload.text, two: two.payload.text}}
---
rule: members
version: 1
buffer: 10000
count: {of: payload.text}
window: 10m
when: count(distinct of) >= 1000
emit: {channel: alerts, payload: {}}
---
rule: long_windows
version: 1
key: [payload.text]
count: {}
window: 2m
every: 1s
when: count > 1000
emit: {channel: alerts, payload: {}}
"""
_QUIET = """
rule: quiet
version: 1
sequence: [{as: one, where: payload.n = 1}, {as: two, where: payload.n = 2}]
within: 1h
emit: {channel: alerts, payload: {}}
"""


def test_what_a_tenant_makes_rules_hold_is_bounded_and_another_tenants_alert_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    progress = tmp_path / "checkpoint"
    rules = [*programs(_ATTACK, hub="loud"), *programs(_QUIET)]
    rows = []
    for n in range(300):
        body = f'{{"n": {n}, "text": "{n:05}{"x" * 60_000}"}}'
        rows.append(message(1 + n, n * 10, body, hub="loud"))
    quiet = [message(1_000 + n, 3_000 + n, f'{{"n": {n}}}') for n in (1, 2)]
    write_rows(tmp_path / "in", [[*rows, quiet[0]], [quiet[1]], [heartbeat(2_000, 60_000)]])
    found = run_stream(spark, tmp_path / "in", rules, progress)

    assert [row[3] for row in found if row[2] == "shop" and row[0]] == ["quiet"]
    alerts = [row for row in found if row[3] == "joins" and row[0]]
    assert len(alerts) > 100
    assert max(len(row[11]) for row in alerts) <= 65_536
    told = {(row[3], row[10]) for row in found if row[0] is None}
    assert ("joins", "too_large") in told
    assert ("keeps", "late_or_no_room") in told

    place = str(progress / RULES / f"v{PLAN_VERSION}")
    kept = spark.read.format("statestore").option("stateVarName", "rule").load(place)
    state = kept.select(F.col("key.subject"), F.col("value.packed")).collect()
    held = [(row.subject, row.packed) for row in state if row.subject[0] != SEPARATOR]
    assert max(len(packed) for _, packed in held) < WAITING_BYTES_MAX + MEMORY_BYTES_MAX + 8_192
    # What each hub holds is known, by partition.
    counted = dict.fromkeys(("loud", "shop"), 0)
    for row in state:
        if row.subject[0] == SEPARATOR:
            counted[row.subject.removeprefix(SEPARATOR)] += int(row.packed)
    sums = dict.fromkeys(counted, 0)
    for subject, packed in held:
        sums[subject.partition("/")[0]] += held_bytes(subject, packed)
    assert sums["loud"] > 0
    assert counted == sums
