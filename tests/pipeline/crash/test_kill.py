"""`kill -9` at any moment: every journal row once in bronze, every alert once on its channel."""

import contextlib
import os
import random
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rules.batch import matches_batch
from tests.pipeline.crash.world import ALERTS, HUB, RULES, World
from tests.pipeline.waiting import LAST_RESORT_S

#: `make chaos-pipeline` kills more often.
_KILLS = int(os.environ.get("PIPELINE_KILLS", "2"))
_SEED = int(os.environ.get("PIPELINE_SEED", "1"))
#: After this all windows and sequences are over.
_LONGEST_MS = 6_000


@pytest.mark.timeout(2 * LAST_RESORT_S + 200 * _KILLS)
def test_nothing_is_lost_and_nothing_comes_twice_when_the_pipeline_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(_SEED)
    world = World(tmp_path)
    try:
        world.start_node()
        world.start_pipeline()
        world.until(world.rules_started, "the rules have begun")
        world.start_traffic()
        for number in range(_KILLS):
            _kill(world, number, chance)
            world.start_pipeline()
        world.end_traffic()
        lake = Lake(spark, world.lake)
        over_ms = int(time.time() * 1000) + _LONGEST_MS
        world.until(lambda: world.rules_watermark_ms() > over_ms, "the rules have decided all")
        # What they found is in the journal now.
        end = _last_seq(world)
        world.until(lambda: _covered(lake) >= end, "bronze has every row")
        world.stop_pipeline()
        _check_bronze(lake)
        _check_alerts(lake)
    finally:
        world.close()


def _kill(world: World, number: int, chance: random.Random) -> None:
    """Every third time between a batch's write and its commit, else after a few batches more; every other
    of those a single process first."""
    before = world.written_batches()
    world.until(lambda: bool(world.written_batches() - before), "a batch was written")
    if number % 3:
        _wait_for_commits(world, chance.randrange(1, 4))
        if number % 2:
            world.kill_one(chance)
            # What is left goes on or ends; either way the next life takes over.
            seen = world.commits()
            world.until(lambda: world.pipeline_ended or world.commits() > seen, "on or over")
    world.kill_all()


def _wait_for_commits(world: World, more: int) -> None:
    commits = world.commits()
    world.until(lambda: world.commits() >= commits + more, "a few batches more")


def _last_seq(world: World) -> int:
    with contextlib.closing(sqlite3.connect(world.directory / "data" / "arauto.db")) as database:
        return int(database.execute("SELECT max(seq) FROM journal").fetchone()[0])


def _covered(lake: Lake) -> int:
    ranges = lake.table("journal").state().coverage.get("n1", ())
    return ranges[-1][1] if ranges else 0


def _check_bronze(lake: Lake) -> None:
    state = lake.table("journal").state()
    ((first, last),) = state.coverage["n1"]
    rows = lake.table("journal").read()
    found = rows.agg(
        F.count("*").alias("rows"), F.countDistinct("node", "seq").alias("places")
    ).collect()[0]
    assert (first, last) == (1, found.rows)
    assert found.rows == found.places


def _check_alerts(lake: Lake) -> None:
    """Each once on its channel, and exactly those that the whole history gives in one go."""
    rows = lake.table("journal").read()
    programs = [compile_rule(HUB, load_rule(text)) for text in RULES.values()]
    expected = matches_batch(rows, programs, until_ms=1 << 50).select("id", "rule").collect()
    assert {row.rule for row in expected} == set(RULES)
    wanted = {row.id for row in expected}
    sent = rows.where((F.col("kind") == 1) & (F.col("channel") == ALERTS)).select("id").collect()
    assert [id for id, count in Counter(row.id for row in sent).items() if count > 1] == []
    assert {row.id for row in sent} == wanted
    kept = [row.id for row in lake.table("matches").read().select("id").collect()]
    assert sorted(kept) == sorted(wanted)
