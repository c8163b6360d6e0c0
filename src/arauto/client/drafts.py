"""A message to publish, from the caller's terms to the protocol's. Pure."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from arauto.client import payload
from arauto.codec.events import Echo, PublishItem
from arauto.errors import ArautoError, Code
from arauto.names import check_channel

__all__ = ["Draft", "PublishOptions", "to_item"]


class PublishOptions(TypedDict, total=False):
    """What `publish` takes beside the channel and the data; see `Draft`."""

    content_type: str
    retain: bool
    store: bool
    key: str
    idempotency_key: str
    echo: bool | Echo
    ttl_s: float
    headers: Mapping[str, str]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish."""

    channel: str
    data: Any
    """Bytes travel as they are, str as text, everything else as JSON (or by `content_type`)."""
    content_type: str | None = None
    retain: bool = False
    """Keep it for new subscribers, where the channel's rules allow."""
    store: bool = False
    """Make it durable before it is delivered and acknowledged, where the rules allow."""
    key: str = ""
    """What this is the latest value of, for channels that keep the latest value per key."""
    idempotency_key: str = ""
    """Makes a retry deliver once; the client makes one up where none is given."""
    echo: bool | Echo = True
    """Whether this session receives it too; `Echo.NOT_USER` leaves out all sessions of this user."""
    ttl_s: float = 0.0
    """How long it is worth delivering; 0 = for ever."""
    headers: Mapping[str, str] | None = None


def to_item(draft: Draft, idempotency_key: str, bytes_max: int) -> PublishItem:
    """The protocol's record of a draft.

    Args:
        draft: what the caller wants published.
        idempotency_key: used if the draft brings none.
        bytes_max: what the hub takes at most; 0 = unknown.

    Raises:
        ArautoError: BAD_CHANNEL_NAME, BAD_FIELD, MESSAGE_TOO_LARGE.
    """
    check_channel(draft.channel)
    data, content_type = payload.encode(draft.data, draft.content_type)
    if bytes_max and len(data) > bytes_max:
        rule = f"a message of this hub has at most {bytes_max} bytes, this one has {len(data)}"
        raise ArautoError(Code.MESSAGE_TOO_LARGE, rule, field="data")
    if not draft.ttl_s >= 0:
        raise ArautoError(Code.BAD_FIELD, "must not be negative", field="ttl_s")
    echo = draft.echo
    return PublishItem(
        channel=draft.channel,
        payload=data,
        content_type=content_type,
        idempotency_key=draft.idempotency_key or idempotency_key,
        key=draft.key,
        echo=echo if isinstance(echo, Echo) else (Echo.ALL if echo else Echo.NOT_SESSION),
        retain=draft.retain,
        store=draft.store,
        # A lifetime too short for the protocol's milliseconds must not become "for ever".
        ttl_ms=max(1, round(draft.ttl_s * 1000)) if draft.ttl_s else 0,
        headers=dict(draft.headers) if draft.headers else None,
    )
