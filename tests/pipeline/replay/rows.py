"""Messages for a test's lake."""

from datetime import UTC, datetime, timedelta
from typing import Any

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.schemas import TABLES

__all__ = ["START_MS", "message", "save"]

_START = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
START_MS = int(_START.timestamp() * 1000)


def message(*, seq: int, after_s: float, channel: str, **parts: Any) -> dict[str, Any]:
    """A row of the table of messages, with a JSON payload that tells its seq."""
    payload = b'{"n": %d}' % seq
    return {
        "node": "node-1",
        "seq": seq,
        "ts": _START + timedelta(seconds=after_s),
        "hub": "shop",
        "channel": channel,
        "epoch": 1,
        "offset": seq,
        "user": "ann",
        "content_type": "application/json",
        "headers": {},
        "expires_ms": 0,
        "payload": payload,
        "size_bytes": len(payload),
        **parts,
    }


def save(lake: Lake, rows: list[dict[str, Any]], batch_id: int = 0) -> None:
    columns = TABLES["messages"].columns
    values = [[row.get(name) for name in columns.names] for row in rows]
    frame = lake.spark.createDataFrame(values, columns)
    assert lake.table("messages").append(frame, query="test", batch_id=batch_id)
