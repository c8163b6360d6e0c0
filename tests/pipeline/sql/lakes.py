"""A lake of two hubs whose rows lie in the same files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import TABLES

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
#: Must never come out of a query of another hub.
SECRET = "mall-secret-4711"


def make_lake(spark: SparkSession, root: Path) -> Lake:
    lake = Lake(spark, root)
    columns = TABLES["messages"].columns
    rows = []
    for seq in range(20):
        hub, text = ("shop", f"{seq}") if seq % 2 else ("mall", SECRET)
        row = {
            "node": "n1", "seq": seq, "ts": NOON + timedelta(minutes=seq), "hub": hub,
            "channel": f"{hub}:{seq % 3}", "user": f"{hub}-user", "text": text, "size_bytes": seq,
            "payload": text.encode(), "is_json": hub == "shop", "headers": {"h": hub},
        }  # fmt: skip
        rows.append(tuple(row.get(name) for name in columns.names))
    frame = spark.createDataFrame(rows, columns).coalesce(1)
    assert lake.table("messages").append(frame, query="test", batch_id=0)
    return lake
