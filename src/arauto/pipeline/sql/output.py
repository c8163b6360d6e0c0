"""Rows as text: JSON and CSV for programs, short cells for people. Pure."""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec

from arauto.pipeline.sql.run import Answer

__all__ = ["cell", "to_csv", "to_json", "utc_text"]

_KINDS_AS_THEY_ARE = (str, int, float, bool, type(None))


def to_json(answer: Answer) -> str:
    """An array with an object for each row. Times are ISO 8601, bytes text if they are that, else hex."""
    rows = [dict(zip(answer.columns, map(_plain, row), strict=False)) for row in answer.rows]
    return msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n"


def to_csv(answer: Answer) -> str:
    """RFC 4180 with a line of names; null is empty, what has parts is JSON."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(answer.columns)
    writer.writerows([[_flat(value) for value in row] for row in answer.rows])
    return out.getvalue()


def cell(value: Any) -> str:
    """A value in a table for people."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(_flat(value))


def utc_text(time: datetime) -> str:
    """A time that Spark handed out, in ISO 8601."""
    # It is the machine's local time, whatever the session's zone is, and does not say so.
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flat(value: Any) -> Any:
    plain = _plain(value)
    if isinstance(plain, list | dict):
        return msgspec.json.encode(plain).decode()
    return "" if plain is None else plain


def _plain(value: Any) -> Any:
    """What JSON can say."""
    if isinstance(value, _KINDS_AS_THEY_ARE):
        return value
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return "0x" + bytes(value).hex()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "asDict"):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(_plain(name)): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value)
