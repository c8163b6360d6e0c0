"""From rows to messages: ids that are the same each time, and marks of where they come from. Pure."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from arauto.errors import ArautoError, Code
from arauto.model import BINARY, TEXT
from arauto.pipeline.node_api import Outgoing
from arauto.pipeline.sink.options import SinkOptions

__all__ = ["HOPS_MAX", "LoopError", "content_id", "hops_after", "rows_of", "to_message"]

#: How often a message may go from a channel through the pipeline to a channel.
HOPS_MAX = 8

_ORIGIN, _HOPS, _RULE, _USER = "x-origin", "x-hops", "x-rule", "x-user"

Row = Mapping[str, Any]


class LoopError(ArautoError):
    """A message that has come through the pipeline too often: something feeds itself."""


def rows_of(batch: Any) -> Iterator[Row]:
    """The rows of an Arrow record batch."""
    names = batch.schema.names
    columns = [column.to_pylist() for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def to_message(row: Row, options: SinkOptions) -> tuple[str, Outgoing]:
    """The hub and the message of a row.

    Raises:
        LoopError: it has come through too often.
        ArautoError: BAD_FIELD, a needed value is null.
    """
    hub = row.get("hub") or options.hub
    for name, value in (
        ("hub", hub),
        ("channel", row.get("channel")),
        ("payload", row.get("payload")),
    ):
        if value is None or (name == "hub" and not value):
            raise ArautoError(Code.BAD_FIELD, f"{name} is null", field=name)
    payload = row["payload"]
    is_text = isinstance(payload, str)
    content_type = row.get("content_type")
    if content_type is None:
        content_type = options.content_type or (TEXT if is_text else BINARY)
    headers = _marked(dict(row.get("headers") or ()), row, options)
    message = Outgoing(
        channel=row["channel"],
        payload=payload.encode() if is_text else bytes(payload),
        content_type=content_type,
        id=row.get("id") or "",
        key=row.get("key") or "",
        headers=headers,
    )
    if not message.id:
        made = content_id(hub, message, options.id_prefix)
        message = Outgoing(
            message.channel, message.payload, content_type, made, message.key, headers
        )
    return hub, message


def content_id(hub: str, message: Outgoing, prefix: str) -> str:
    """An id made of all that is published, so that the same row has the same id in every attempt."""
    parts = (
        hub,
        message.channel,
        message.content_type,
        message.key,
        sorted((message.headers or {}).items()),
        message.payload,
    )
    return prefix + blake2b(msgspec.msgpack.encode(parts), digest_size=20).hexdigest()


def hops_after(headers: Mapping[str, str]) -> int:
    """How often the message will have come through the pipeline once it is published.

    Raises:
        LoopError: more than `HOPS_MAX` times.
        ArautoError: BAD_FIELD, the header is not a number.
    """
    text = headers.get(_HOPS, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise ArautoError(Code.BAD_FIELD, f"{_HOPS} is not a number", field="headers")
    hops = int(text) + 1
    if hops > HOPS_MAX:
        raise LoopError(
            Code.CONFLICT,
            f"came through the pipeline {HOPS_MAX} times already: it feeds itself",
            field="headers",
        )
    return hops


def _marked(headers: dict[str, str], row: Row, options: SinkOptions) -> dict[str, str]:
    # A map of Spark may hold nulls; a header cannot.
    headers = {name: value for name, value in headers.items() if value is not None}
    headers[_HOPS] = str(hops_after(headers))
    headers[_ORIGIN] = "pipeline"
    if options.rule:
        headers[_RULE] = options.rule
    if row.get("user"):
        headers[_USER] = row["user"]
    return headers
