"""What changed between two runs."""

from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.mining.difference import difference

COLUMNS = "kind string, items string, implies string, support long, total long, lift double"


def run(
    spark: SparkSession, *rows: tuple[str, str, str | None, int, int, float | None]
) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def test_new_gone_and_changed_patterns_are_told_and_the_same_are_not(spark: SparkSession) -> None:
    before = run(
        spark,
        ("set", "same", None, 10, 100, None),
        ("set", "gone", None, 10, 100, None),
        ("set", "more", None, 10, 100, None),
        ("rule", "lift", "x", 10, 100, 2.0),
        ("rule", "near", "x", 10, 100, 2.0),
    )
    after = run(
        spark,
        ("set", "same", None, 21, 200, None),  # a share of 0.105 is within a fifth of 0.10
        ("set", "new", None, 10, 200, None),
        ("set", "more", None, 40, 200, None),
        ("rule", "lift", "x", 20, 200, 3.0),
        ("rule", "near", "x", 20, 200, 2.3),
    )
    told = {row["items"]: row for row in difference(before, after, 0.2).collect()}
    assert {items: row["change"] for items, row in told.items()} == {
        "gone": "gone",
        "new": "new",
        "more": "changed",
        "lift": "changed",
    }
    assert (told["more"]["support_before"], told["more"]["support_after"]) == (0.1, 0.2)
    assert (told["lift"]["lift_before"], told["lift"]["lift_after"]) == (2.0, 3.0)


def test_without_a_run_before_everything_is_new(spark: SparkSession) -> None:
    after = run(spark, ("set", "a", None, 1, 1, None))
    assert [row["change"] for row in difference(run(spark), after, 0.2).collect()] == ["new"]
