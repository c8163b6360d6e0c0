"""The sink, with a real Spark and a real node: each row once, whatever is repeated."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from arauto.pipeline.source.datasource import ArautoDataSource
from tests.pipeline.sink.nodes import TOKEN, KeepingNode, free_port
from tests.pipeline.waiting import finished


@pytest.fixture(autouse=True)
def _register(spark: SparkSession) -> None:
    spark.dataSource.register(ArautoDataSource)


def write(frame: DataFrame, url: str, hub: str = "", **options: str) -> None:
    writer = frame.write.format("arauto").mode("append").option("url", url).option("token", TOKEN)
    writer.options(hub=hub, **options).save()


def numbers(spark: SparkSession, count: int, channel: str = "'a:1'") -> DataFrame:
    return spark.range(0, count, 1, 2).selectExpr(
        f"{channel} as channel", "to_json(named_struct('n', id)) as payload"
    )


def published(node: KeepingNode, hub: str, channel: str = "a:1") -> list[int]:
    return sorted(message["data"]["n"] for message in node.history(hub, channel))


def test_every_row_is_published_and_a_repetition_publishes_nothing(
    spark: SparkSession, node: KeepingNode
) -> None:
    for _ in range(2):
        write(numbers(spark, 2_500), node.url, "batch", contentType="application/json")
    assert published(node, "batch") == list(range(2_500))


def test_rows_go_to_the_hub_and_channel_they_name(spark: SparkSession, node: KeepingNode) -> None:
    frame = spark.sql(
        "select concat('to-', id % 2) as hub, concat('c:', id % 3) as channel, "
        "cast('x' as binary) as payload, concat('id', id) as id, 'k' as key, "
        "map('a', 'b') as headers, 'ann' as user from range(6)"
    )
    write(frame, node.url)
    (message,) = node.history("to-1", "c:2")
    assert (message["idempotency_key"], message["key"]) == ("id5", "k")
    wanted = {"a": "b", "x-user": "ann", "x-origin": "pipeline", "x-hops": "1"}
    assert message["headers"].items() >= wanted.items()


def test_rows_of_a_partition_keep_their_order(spark: SparkSession, node: KeepingNode) -> None:
    frame = numbers(spark, 2_000).coalesce(1)
    write(frame, node.url, "order", contentType="application/json")
    got = [message["data"]["n"] for message in node.history("order", "a:1")]
    assert got == list(range(2_000))


def test_a_refused_row_fails_the_query_and_is_named(spark: SparkSession, node: KeepingNode) -> None:
    frame = numbers(spark, 4, "if(id = 2, 'no spaces', 'a:1')")
    with pytest.raises(PySparkException, match=r"1 rows were refused.*refusing/no spaces"):
        write(frame, node.url, "refusing")


def test_as_many_refusals_as_allowed_let_the_rest_through(
    spark: SparkSession, node: KeepingNode
) -> None:
    frame = numbers(spark, 4, "if(id = 2, 'no spaces', 'a:1')")
    write(frame, node.url, "lenient", maxRefused="1", contentType="application/json")
    assert published(node, "lenient") == [0, 1, 3]


def test_refusals_of_all_partitions_count_together(spark: SparkSession, node: KeepingNode) -> None:
    # Two partitions with one bad row each.
    frame = numbers(spark, 4, "if(id in (0, 3), 'no spaces', 'a:1')")
    with pytest.raises(PySparkException, match="2 rows were refused, and maxRefused is 1"):
        write(frame, node.url, "together", maxRefused="1")


def test_a_bad_hub_name_in_a_row_is_that_rows_fault(spark: SparkSession, node: KeepingNode) -> None:
    frame = spark.sql("select 'no spaces' as hub, 'a:1' as channel, 'x' as payload")
    with pytest.raises(PySparkException, match="BAD_HUB_NAME"):
        write(frame, node.url)
    write(frame, node.url, maxRefused="1")


def test_what_feeds_itself_is_left_out_and_stops_nothing(
    spark: SparkSession, node: KeepingNode
) -> None:
    frame = spark.sql(
        "select 'a:1' as channel, string(id) as payload, map('x-hops', string(id)) as headers "
        "from range(7, 9)"
    )
    write(frame, node.url, "loops")
    assert [message["headers"]["x-hops"] for message in node.history("loops", "a:1")] == ["8"]


def test_bad_columns_are_said_before_anything_runs(spark: SparkSession, node: KeepingNode) -> None:
    with pytest.raises(PySparkException, match="price is not a column of the sink"):
        write(spark.sql("select 'a' as channel, 'x' as payload, 1 as price"), node.url, "h")


def test_no_node_fails_the_query_after_retries_and_names_the_address(spark: SparkSession) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PySparkException, match="NODE_UNREACHABLE") as caught:
        write(numbers(spark, 2), url, "h", retrySeconds="1")
    assert url in str(caught.value)
    assert TOKEN not in str(caught.value)


def stream(spark: SparkSession, made: Path, url: str, **options: str) -> StreamingQuery:
    frame = spark.readStream.schema("channel string, payload string").parquet(str(made / "in"))
    return (
        frame.writeStream.format("arauto")
        .options(url=url, token=TOKEN, contentType="application/json", **options)
        .option("checkpointLocation", str(made / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def test_a_stream_that_dies_between_publishing_and_its_commit_publishes_once(
    spark: SparkSession, node: KeepingNode, tmp_path: Path
) -> None:
    numbers(spark, 500).write.parquet(str(tmp_path / "in"))
    finished(lambda: stream(spark, tmp_path, node.url, hub="stream"))
    # What a crash at that moment leaves behind: the batch is planned, and not known to be done.
    commits = tmp_path / "checkpoint" / "commits"
    for name in ("0", ".0.crc"):
        (commits / name).unlink(missing_ok=True)
    again = finished(lambda: stream(spark, tmp_path, node.url, hub="stream"))
    assert [progress["numInputRows"] for progress in again.recentProgress] == [500]
    assert (commits / "0").exists()
    assert published(node, "stream") == list(range(500))


def test_a_stream_that_failed_halfway_goes_on_and_publishes_once(
    spark: SparkSession, node: KeepingNode, tmp_path: Path
) -> None:
    frame = numbers(spark, 500, "if(id = 499, 'no spaces', 'a:1')")
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    with pytest.raises(PySparkException, match="1 rows were refused") as caught:
        finished(lambda: stream(spark, tmp_path, node.url, hub="half"))
    assert TOKEN not in str(caught.value)
    assert len(node.history("half", "a:1")) == 499
    finished(lambda: stream(spark, tmp_path, node.url, hub="half", maxRefused="1"))
    assert published(node, "half") == list(range(499))
