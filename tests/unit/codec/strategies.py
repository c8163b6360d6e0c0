"""Hypothesis strategies for every record of the protocol, within the rules a server checks."""

import json
from typing import Any

from hypothesis import strategies as st

from arauto.codec import events as ev
from arauto.limits import EPOCH_MAX, HISTORY_PAGE_LEN_MAX, TTL_MS_MAX, UINT53_MAX
from arauto.model import (
    JSON,
    RESERVED_HEADERS,
    TEXT,
    Direction,
    Grant,
    Grants,
    Member,
    Message,
    Serial,
)

uint53 = st.integers(0, UINT53_MAX)
ids = st.one_of(st.just(0), st.integers(1, 300), uint53)
any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=24)
plain = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=24)
names = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=24)
serials = st.builds(Serial, st.integers(0, EPOCH_MAX), uint53)
positions = st.dictionaries(any_text, serials, max_size=4)
header_names = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(
    lambda name: name not in RESERVED_HEADERS
)
headers = st.none() | st.dictionaries(header_names, plain, min_size=1, max_size=4)
extra = st.dictionaries(any_text, any_text, max_size=3)

plain_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(any_text, children, max_size=4)
    ),
    max_leaves=8,
)
json_bytes = plain_json.map(lambda value: json.dumps(value).encode())
#: A payload and what its publisher says it is, which need not be true.
contents = st.one_of(
    st.tuples(st.binary(max_size=300), st.just("")),
    st.tuples(json_bytes, st.just(JSON)),
    st.tuples(any_text.map(str.encode), st.just(TEXT)),
    st.tuples(st.binary(max_size=40), st.sampled_from([JSON, TEXT, "image/png", "a/b; c=d"])),
)

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text
    | st.binary(max_size=20),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.one_of(any_text, st.sampled_from(["$binary", "$literal"])), children, max_size=3
        )
    ),
    max_leaves=12,
)
operations = st.one_of(
    st.builds(
        ev.Operation, op=st.sampled_from(["add", "replace", "test"]), path=any_text, value=values
    ),
    st.builds(ev.Operation, op=st.just("remove"), path=any_text),
    st.builds(ev.Operation, op=st.sampled_from(["move", "copy"]), path=any_text, source=any_text),
)


def tuples_of(
    strategy: st.SearchStrategy[Any], min_size: int = 1
) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, min_size=min_size, max_size=4).map(tuple)


@st.composite
def publish_items(draw: st.DrawFn) -> ev.PublishItem:
    payload, content_type = draw(contents)
    return ev.PublishItem(
        channel=draw(any_text),
        payload=payload,
        content_type=content_type,
        idempotency_key=draw(plain),
        key=draw(plain),
        echo=draw(st.sampled_from(ev.Echo)),
        retain=draw(st.booleans()),
        store=draw(st.booleans()),
        push=draw(st.booleans()),
        ttl_ms=draw(st.just(0) | st.integers(0, TTL_MS_MAX)),
        headers=draw(headers),
    )


@st.composite
def messages(draw: st.DrawFn) -> Message:
    payload, content_type = draw(contents)
    return Message(
        hub="",
        channel=draw(any_text),
        payload=payload,
        epoch=draw(st.integers(0, EPOCH_MAX)),
        offset=draw(uint53),
        ts_ms=draw(uint53),
        content_type=content_type,
        id=draw(plain),
        session=draw(any_text),
        user=draw(any_text),
        key=draw(plain),
        headers=draw(headers),
        expires_ms=draw(uint53),
        retain=draw(st.booleans()),
        store=draw(st.booleans()),
    )


subscribe_items = st.one_of(
    st.builds(ev.SubscribeItem, channel=any_text, since=st.none() | serials),
    st.builds(ev.SubscribeItem, channel=any_text, positions=positions),
)

requests: st.SearchStrategy[ev.Request] = st.one_of(
    st.builds(ev.Ping, id=ids),
    st.builds(ev.Pong, id=ids),
    st.builds(ev.CloseRequest),
    st.builds(ev.RestoreRequest, id=ids, key=names, positions=positions),
    st.builds(
        ev.AuthRequest, id=ids, credentials=st.binary(max_size=40) | any_text.map(str.encode)
    ),
    st.builds(ev.SubscribeRequest, id=ids, items=tuples_of(subscribe_items)),
    st.builds(ev.UnsubscribeRequest, id=ids, channels=tuples_of(any_text)),
    st.builds(ev.PublishRequest, id=ids, items=tuples_of(publish_items())),
    st.builds(ev.PresenceRequest, id=ids, channel=any_text),
    st.builds(ev.OccupancyRequest, id=ids, channel=any_text),
    st.builds(
        ev.HistoryRequest,
        id=ids,
        channel=any_text,
        since=st.none() | serials,
        until=st.none() | serials,
        from_ms=uint53,
        to_ms=uint53,
        limit=st.integers(0, HISTORY_PAGE_LEN_MAX),
        direction=st.sampled_from(Direction),
    ),
    st.builds(
        ev.RpcRequest, id=ids, method=names, payload=st.binary(max_size=40), timeout_ms=uint53
    ),
    st.builds(ev.StreamRequest, id=ids, stream=names, payload=st.binary(max_size=40)),
    st.builds(ev.DocumentGetRequest, id=ids, channel=any_text),
    st.builds(
        ev.DocumentChangeRequest,
        id=ids,
        channel=any_text,
        operations=tuples_of(operations),
        if_version=st.just(-1) | uint53,
    ),
    st.builds(ev.MarkReadRequest, id=ids, channel=any_text, notifications=tuples_of(names)),
)

errors = st.builds(
    ev.ErrorEvent,
    id=ids,
    code=st.integers(1000, 8999),
    message=any_text,
    field=any_text,
    retryable=st.booleans(),
)
grants = st.builds(
    Grants,
    channels=tuples_of(
        st.builds(Grant, channel=any_text, publish=st.booleans(), subscribe=st.booleans()), 0
    ),
    rpcs=tuples_of(any_text, 0),
)
members = st.builds(Member, session=any_text, user=any_text, joined_ms=uint53, extra=extra)
results = st.builds(
    ev.SubscribeResult,
    channel=any_text,
    error=st.none() | errors,
    serial=st.none() | serials,
    recovered=st.booleans(),
    recovered_count=uint53,
    positions=st.none() | positions,
    unrecovered=tuples_of(any_text, 0),
)

events: st.SearchStrategy[ev.Event] = st.one_of(
    st.builds(ev.Ping, id=ids),
    st.builds(ev.Pong, id=ids),
    errors,
    st.builds(
        ev.SessionInfo,
        hub=any_text,
        session=any_text,
        node=any_text,
        authenticated=st.booleans(),
        user=any_text,
        allow_anonymous=st.booleans(),
        user_channel=st.booleans(),
        default_public=st.booleans(),
        auth_deadline_ms=uint53,
        ping_interval_ms=uint53,
        message_bytes_max=uint53,
    ),
    st.builds(ev.RestoreKey, key=any_text, ttl_ms=uint53),
    st.builds(
        ev.Restored,
        id=ids,
        session=any_text,
        user=any_text,
        grants=grants,
        extra=extra,
        results=tuples_of(results, 0),
        expires_in_ms=uint53,
    ),
    st.builds(
        ev.AuthReply,
        id=ids,
        success=st.booleans(),
        user=any_text,
        token=any_text,
        token_expires_ms=uint53,
        grants=grants,
        extra=extra,
        error=st.none() | errors,
        expires_in_ms=uint53,
    ),
    st.builds(ev.SubscribeReply, id=ids, results=tuples_of(results, 0)),
    st.builds(
        ev.UnsubscribeReply, id=ids, channels=tuples_of(any_text, 0), error=st.none() | errors
    ),
    st.builds(ev.Publication, message=messages()),
    st.builds(
        ev.Ack,
        id=ids,
        results=tuples_of(
            st.builds(
                ev.AckItem,
                serial=st.none() | serials,
                duplicate=st.booleans(),
                error=st.none() | errors,
            )
        ),
    ),
    st.builds(ev.Join, channel=any_text, member=members),
    st.builds(ev.Leave, channel=any_text, member=members),
    st.builds(ev.Presence, id=ids, channel=any_text, members=tuples_of(members, 0), total=uint53),
    st.builds(ev.Occupancy, id=ids, channel=any_text, count=uint53),
    st.builds(
        ev.HistoryReply,
        id=ids,
        channel=any_text,
        messages=tuples_of(messages(), 0),
        more=st.booleans(),
        next=st.none() | serials,
        complete=st.booleans(),
        serial=st.none() | serials,
    ),
    st.builds(ev.Gap, channel=any_text, after=serials, upto=serials, reason=any_text),
    st.builds(ev.DocumentInfo, channel=any_text, version=uint53),
    st.builds(ev.DocumentGetReply, id=ids, channel=any_text, version=uint53, value=values),
    st.builds(ev.DocumentChangeReply, id=ids, channel=any_text, version=uint53),
    st.builds(
        ev.DocumentUpdated,
        channel=any_text,
        version=uint53,
        operations=tuples_of(operations, 0),
        user=any_text,
        ts_ms=uint53,
    ),
)
