"""A message to publish, from the caller's terms to the protocol's. Pure."""

from collections.abc import Mapping
from math import inf
from typing import Any, Final, TypedDict

import msgspec

from arauto.client import payload
from arauto.codec.checks import check_items
from arauto.codec.events import Echo, PublishItem
from arauto.errors import ArautoError, Code
from arauto.names import check_channel

__all__ = ["Draft", "PublishOptions", "to_item"]


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "channel": (str,),
    "content_type": (str, type(None)),
    "retain": (bool,),
    "store": (bool,),
    "key": (str,),
    "idempotency_key": (str,),
    "echo": (bool, Echo),
    "ttl_s": (int, float),
    "headers": (Mapping, type(None)),
}


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
    _check_types(draft)
    check_channel(draft.channel)
    data, content_type = payload.encode(draft.data, draft.content_type)
    if bytes_max and len(data) > bytes_max:
        rule = f"a message of this hub has at most {bytes_max} bytes, this one has {len(data)}"
        raise ArautoError(Code.MESSAGE_TOO_LARGE, rule, field="data")
    if not 0 <= draft.ttl_s < inf:
        raise ArautoError(Code.BAD_FIELD, "must be a number from 0 on", field="ttl_s")
    echo = draft.echo
    item = PublishItem(
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
    check_items((item,))
    return item


def _check_types(draft: Draft) -> None:
    """Refuse what no codec could write, before it stands in a queue beside others' messages.

    Raises:
        ArautoError: BAD_FIELD, naming the argument.
    """
    for name, kinds in _TYPES.items():
        if not isinstance(getattr(draft, name), kinds):
            raise _unfit(name, f"must not be {type(getattr(draft, name)).__name__}")
    for name, value in (draft.headers or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _unfit("headers", "must have only text as names and values")
    texts = (draft.idempotency_key, draft.key, *(draft.headers or {}).values())
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise _unfit("", "must have only text that UTF-8 can carry") from None


def _unfit(field: str, rule: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, rule, field=field)
