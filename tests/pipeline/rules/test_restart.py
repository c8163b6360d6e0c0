"""Rules change, the checkpoint stays."""

from pathlib import Path

from pyspark.sql import SparkSession

from arauto.pipeline.lake.erasures import Erasures, note_erasure, read_erasures
from arauto.pipeline.rules.forget import forgetting
from arauto.pipeline.rules.registry import RuleSet
from arauto.pipeline.rules.stream import PLAN_VERSION, RULES
from tests.pipeline.rules import checkpoint
from tests.pipeline.rules.support import (
    T0,
    heartbeat,
    message,
    programs,
    run_stream,
    write_rows,
)

_PAIR = """
rule: {name}
version: {version}
sequence:
  - {{as: one, where: "payload.step = '1'"}}
  - {{as: two, where: "payload.step = '2'"}}
within: 1h
emit: {{channel: alerts, payload: {{n: one.payload.n}}}}
"""
_EACH = """
rule: each
version: 1
match: payload.n > 0
emit: {channel: alerts, payload: {n: payload.n}}
"""
_COUNT = """
rule: counted
version: 1
count: {}
window: 60s
when: count >= 2
emit: {channel: alerts, payload: {n: count}}
"""


def _pair(name: str, version: int = 1) -> str:
    return _PAIR.format(name=name, version=version)


def _step(seq: int, at_s: float, step: int) -> dict[str, object]:
    return message(seq, round(at_s * 1_000), f'{{"step": "{step}", "n": {seq}}}')


def _kept(spark: SparkSession, progress: Path) -> int:
    """How many keys the rules hold something of."""
    place = str(progress / RULES / f"v{PLAN_VERSION}")
    return spark.read.format("statestore").option("stateVarName", "rule").load(place).count()


def test_what_rules_hold_when_a_user_is_erased_is_not_published_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox, progress, lake = tmp_path / "in", tmp_path / "checkpoint", tmp_path / "lake"
    everywhere = [
        *programs(_pair("pair")),
        *programs(_COUNT),
        *programs(_pair("pair"), hub="other"),
    ]
    there = [_step(2, 2, 1) | {"hub": "other"}]
    write_rows(inbox, [[_step(1, 1, 1)], there, [heartbeat(3, 20_000)]])
    assert run_stream(spark, inbox, everywhere, progress) == []

    note_erasure(lake, "shop", "ana", T0 + 30_000)
    rules = forgetting(RuleSet(tuple(everywhere)), read_erasures(lake))
    assert len(rules.fingerprint) == 1
    there = [_step(5, 41, 2) | {"hub": "other"}]
    write_rows(inbox, [[_step(4, 40, 2)], there, [heartbeat(6, 200_000)]])
    found = run_stream(spark, inbox, rules.programs, progress)
    assert [(row[2], row[3], row[11]) for row in found] == [("other", "pair", '{"n":"2"}')]

    # What they held is gone after a day.
    write_rows(inbox, [[heartbeat(7, 90_000_000)], [heartbeat(8, 90_100_000)]])
    assert run_stream(spark, inbox, rules.programs, progress) == []
    assert _kept(spark, progress) == 0


def test_rows_of_an_erased_user_that_were_not_read_yet_are_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    note_erasure(tmp_path, "shop", "ana", T0)
    note_erasure(tmp_path, "shop", "ana", T0 + 10)
    note_erasure(tmp_path, "shop", "bob", T0 + 8 * 86_400_000)
    note_erasure(tmp_path, "other", "ana", T0 + 8 * 86_400_000)
    erasures = read_erasures(tmp_path)
    assert [each[1] for each in erasures.users] == ["bob", "ana"]
    assert erasures.hubs == {"shop": T0 + 8 * 86_400_000, "other": T0 + 8 * 86_400_000}
    # However many were erased, also in other hubs.
    others = tuple(("other", f"u{n}", T0 + 100) for n in range(5_000))
    erasures = Erasures(users=(*others, ("shop", "ana", T0 + 10)))
    rows = [
        message(1, 10, '{"n": 1}', user="ana"),
        message(2, 11, '{"n": 2}', user="ana"),
        message(3, 5, '{"n": 3}', user="bob"),
        message(4, 5, '{"n": 4}', user="ana", hub="other"),
        message(5, 5, '{"n": 5}'),
        heartbeat(6, 5),
    ]
    write_rows(tmp_path / "in", [rows])
    rules = [*programs(_EACH), *programs(_EACH, hub="other")]
    found = run_stream(spark, tmp_path / "in", rules, tmp_path / "progress", erasures=erasures)
    assert sorted(row[11] for row in found) == [f'{{"n":"{n}"}}' for n in (2, 3, 4, 5)]


def test_rules_that_stay_go_on_and_new_versions_start_clean(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox, progress = tmp_path / "in", tmp_path / "checkpoint"

    write_rows(inbox, [[_step(1, 1, 1)], [heartbeat(2, 20_000)]])
    first = programs("---".join((_pair("stays"), _pair("changes"), _pair("goes"), _COUNT)))
    assert run_stream(spark, inbox, first, progress) == []

    # A run without them loses nothing of the state either.
    write_rows(inbox, [[_step(3, 30, 3)]])
    assert run_stream(spark, inbox, programs(_pair("between")), progress) == []

    write_rows(inbox, [[_step(4, 40, 2)], [heartbeat(5, 200_000)]])
    second = programs("---".join((_pair("stays"), _pair("changes", 2), _pair("new"), _COUNT)))
    found = run_stream(spark, inbox, second, progress)
    # The other query stood still meanwhile, and `counted` sees row 3 now.
    assert sorted((row[3], row[11]) for row in found) == [
        ("counted", '{"n":3}'),
        ("stays", '{"n":"1"}'),
    ]

    # What `goes` remembered went at its deadline.
    write_rows(inbox, [[heartbeat(6, 4_000_000)]])
    assert run_stream(spark, inbox, second, progress) == []
    assert _kept(spark, progress) == 0


def test_rules_of_one_path_only_fire_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    late = [_step(9, 3, 3)]
    beats = [[heartbeat(3, 100_000)], [heartbeat(4, 110_000)]]
    write_rows(tmp_path / "in", [[_step(1, 1, 1), _step(2, 2, 2)], *beats, late])
    for text, rule in ((_pair("alone"), "alone"), (_COUNT, "counted")):
        found = run_stream(spark, tmp_path / "in", programs(text), tmp_path / rule)
        # What comes after its window was told changes nothing.
        assert [(row[3], row[9]) for row in found] == [(rule, 2)]


def test_the_kept_checkpoint_of_the_present_plan_starts_and_its_rules_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = checkpoint.KEPT / f"v{PLAN_VERSION}.tar.gz"
    assert kept.is_file(), "the plan changed: keep a checkpoint of it (see checkpoint.py)"
    before = checkpoint.unpack(PLAN_VERSION, tmp_path / "checkpoint")
    write_rows(tmp_path / "in", checkpoint.second_step())
    found = run_stream(spark, tmp_path / "in", programs(checkpoint.RULES), before)
    assert sorted((row[3], row[11]) for row in found) == [
        ("counted", '{"n":2}'),
        ("pair", '{"who":"ann","n":"1"}'),
    ]
