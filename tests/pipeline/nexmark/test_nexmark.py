"""Nexmark through the rules query, against plain Python."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame, SparkSession

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rules
from arauto.pipeline.rules.output import MATCHES
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.nexmark import naive
from tests.pipeline.nexmark.generator import HUB, Happening, generate, rows_of
from tests.pipeline.rules.support import T0, heartbeat, run_stream, write_rows

Find = Callable[[Sequence[Happening]], list[naive.Found]]

_RULES = Path(__file__).with_name("rules.yaml")
#: What comes from a payload as it is comes as text.
_BODY = (
    "auction string, bidder string, price double, bids long, ends long, "
    "start long, bottom long, end long, mean long, time long, drop long"
)


@pytest.fixture(scope="module")
def happenings() -> list[Happening]:
    return generate(900)


@pytest.fixture(scope="module")
def inbox(happenings: list[Happening], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nexmark") / "in"
    rows = rows_of(happenings)
    # A heartbeat much later closes all windows and sequences.
    end = heartbeat(10_000, rows[-1]["ts"] - T0 + 7_200_000)
    write_rows(made, [rows[:450], rows[450:], [end]])
    return made


@pytest.fixture(scope="module")
def matches(
    spark: SparkSession, inbox: Path, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    programs = [compile_rule(HUB, rule) for rule in load_rules(_RULES.read_text())]
    found = run_stream(spark, inbox, programs, tmp_path_factory.mktemp("checkpoint"))
    frame = spark.createDataFrame(found, MATCHES)
    return frame.withColumn("body", F.from_json("payload", _BODY)).cache()


def _found(matches: DataFrame, rule: str, *measures: str) -> list[tuple[int, ...]]:
    columns = [F.col(f"body.{name}").cast("long") for name in ("auction", "bidder", *measures)]
    rows = matches.where(F.col("rule") == rule).select("first_seq", "last_seq", *columns)
    return _sorted(rows)


def _sorted(rows: DataFrame) -> list[tuple[Any, ...]]:
    """All rows; one that came twice is there twice."""
    return sorted(map(tuple, rows.collect()))


def _expected(happenings: list[Happening], find: Find) -> list[tuple[int, ...]]:
    found = []
    for bids in naive.bids_by_pair(happenings):
        body = bids[0].body
        for first, last, *measures in find(bids):
            found.append((first, last, body["auction"], body["bidder"], *measures))
    assert len(found) > 20
    return sorted(found)


def test_q0_passes_every_bid_on(matches: DataFrame, happenings: list[Happening]) -> None:
    rows = matches.where("rule = 'q0'").select(
        "first_seq",
        F.col("body.auction").cast("long"),
        F.col("body.bidder").cast("long"),
        "body.price",
    )
    wanted = [
        (bid.seq, bid.body["auction"], bid.body["bidder"], float(bid.body["price"]))
        for bids in naive.bids_by_pair(happenings)
        for bid in bids
    ]
    assert _sorted(rows) == sorted(wanted)


def test_q5_finds_the_hottest_auctions(matches: DataFrame, happenings: list[Happening]) -> None:
    counted = matches.where("rule = 'q5'").select("body.*")
    most = counted.groupBy("ends").agg(F.max("bids").alias("bids"))
    hottest = counted.join(most, ["ends", "bids"]).select(
        "ends", F.col("auction").cast("long"), "bids"
    )
    assert _sorted(hottest) == sorted(naive.hot_items(happenings, 10_000, 2_000))


def test_q7_finds_the_highest_bids(
    spark: SparkSession, inbox: Path, matches: DataFrame, happenings: list[Happening]
) -> None:
    top = matches.where("rule = 'q7'").select("body.ends", "body.price")
    bids = spark.read.schema(JOURNAL).parquet(str(inbox)).where("channel = 'bids'")
    priced = bids.select(
        "seq",
        F.unix_millis("ts").alias("ms"),
        F.get_json_object(F.col("payload").cast("string"), "$.price").cast("double").alias("price"),
    )
    inside = (F.col("ms") >= F.col("ends") - 10_000) & (F.col("ms") < F.col("ends"))
    found = (
        top.join(priced, "price").where(inside).select("ends", "seq", F.col("price").cast("long"))
    )
    assert _sorted(found) == sorted(naive.highest(happenings, 10_000))


def test_q8_finds_new_people_with_auctions(matches: DataFrame, happenings: list[Happening]) -> None:
    rows = matches.where("rule = 'q8'").select(
        "body.ends", F.get_json_object("key", "$[0]").cast("long")
    )
    wanted = naive.new_sellers(happenings, 10_000)
    assert len(wanted) > 5
    assert _sorted(rows) == sorted(wanted)


def test_cep_q0_finds_falling_prices(matches: DataFrame, happenings: list[Happening]) -> None:
    wanted = _expected(happenings, naive.falling)
    assert _found(matches, "cep0", "start", "bottom", "end") == wanted


@pytest.mark.parametrize(("rule", "skip"), [("cep1", "past_last"), ("cep2", "to_next")])
def test_cep_q1_and_q2_find_periods_with_a_mean_below_a_limit(
    matches: DataFrame, happenings: list[Happening], rule: str, skip: naive.Skip
) -> None:
    wanted = _expected(happenings, lambda bids: naive.mean_below(bids, 10_000, skip))
    assert _found(matches, rule, "start", "end", "mean") == wanted


def test_cep_q3_finds_steep_drops(matches: DataFrame, happenings: list[Happening]) -> None:
    wanted = _expected(happenings, lambda bids: naive.steep_drop(bids, 50, 5_000))
    assert _found(matches, "cep3", "time", "drop") == wanted
