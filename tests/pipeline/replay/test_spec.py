"""What is replayed, where to, and how a replayed message is marked."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import ArautoError
from arauto.limits import IDEMPOTENCY_KEY_BYTES_MAX
from arauto.model import RESERVED_HEADERS
from arauto.pipeline.node_api import Outgoing
from arauto.pipeline.replay.spec import Past, ReplaySpec, again, check_spec, duration_s, waves

SPEC = ReplaySpec(id="r1", hub="shop", channels=("a:*",), from_ms=1, to_ms=2)
PAST = Past(
    ts_ms=1_000,
    node="node-1",
    seq=7,
    channel="a:1",
    epoch=255,
    offset=3,
    user="ann",
    content_type="text/plain",
    key="k",
    headers={"x-a": "b"},
    expires_ms=61_000,
    payload=b"hello",
)


def changed(**changes: Any) -> ReplaySpec:
    return msgspec.structs.replace(SPEC, **changes)


def test_a_message_is_published_again_with_its_content_and_the_marks_of_a_replay() -> None:
    assert again(PAST, SPEC) == Outgoing(
        channel="replay:r1:a:1",
        payload=b"hello",
        content_type="text/plain",
        id="replay:r1:node-1:7",
        key="k",
        headers={
            "x-a": "b",
            "x-replay": "r1",
            "x-original-ts": "1000",
            "x-original-serial": "00000000000000ff-3",
            "x-original-user": "ann",
        },
        ttl_ms=60_000,
    )


def test_no_client_can_set_what_a_replay_marks_messages_with() -> None:
    marks = again(PAST._replace(headers={}), SPEC).headers
    assert marks
    assert marks.keys() <= RESERVED_HEADERS


def test_another_replay_of_the_same_message_has_another_id() -> None:
    assert again(PAST, SPEC).id != again(PAST, changed(id="r2")).id


def test_ids_of_nodes_with_long_names_stay_within_the_limit_and_differ() -> None:
    ids = {again(PAST._replace(node="n" * 200, seq=seq), SPEC).id for seq in range(3)}
    assert len(ids) == 3
    assert all(len(each.encode()) <= IDEMPOTENCY_KEY_BYTES_MAX for each in ids)


def test_what_never_expired_does_not_expire() -> None:
    assert again(PAST._replace(expires_ms=0), SPEC).ttl_ms == 0


@pytest.mark.parametrize(
    ("target", "channel"),
    [("same", "a:1"), ("copy:{channel}", "copy:a:1"), ("all:{id}", "all:r1"), ("one", "one")],
)
def test_the_target_is_a_template(target: str, channel: str) -> None:
    assert changed(target=target).target_of("a:1") == channel


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "no spaces"}, "id"),
        ({"id": "x" * 41}, "id"),
        ({"hub": ""}, "hub"),
        ({"target_hub": "no spaces"}, "hub"),
        ({"channels": ()}, "channels"),
        ({"channels": ("a",) * 101}, "channels"),
        ({"channels": ("a b",)}, "channel"),
        ({"from_ms": 2}, "from"),
        ({"speed": -1.0}, "speed"),
        ({"speed": float("nan")}, "speed"),
        ({"speed": 1e9}, "speed"),
        ({"rate_max": 0}, "rate"),
        ({"target": "x:{name}"}, "to"),
        ({"target": "with space"}, "channel"),
        ({"target": "{channel}*"}, "channel"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ArautoError) as caught:
        check_spec(changed(**changes))
    assert caught.value.field == field


def test_a_spec_that_makes_sense_is_taken() -> None:
    assert check_spec(SPEC) == SPEC
    assert check_spec(changed(speed=0.0, target="same", channels=("/a", "b:#:c"))).speed == 0


@pytest.mark.parametrize(
    ("speed", "rate", "lasts_s"), [(1, 500, 60), (2, 500, 30), (0, 500, 2), (100, 10, 100)]
)
def test_a_replay_lasts_as_long_as_speed_or_rate_say(
    speed: float, rate: float, lasts_s: float
) -> None:
    assert duration_s(1_000, 0, 60_000, speed, rate) == lasts_s


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 4))
def test_waves_keep_the_order_and_hold_no_more_of_a_channel_than_allowed(
    channels: list[str], run_max: int
) -> None:
    messages = [Outgoing(channel, b"", id=str(n)) for n, channel in enumerate(channels)]
    parts = list(waves(messages, run_max))
    assert [message for part in parts for message in part] == messages
    for part in parts:
        names = [message.channel for message in part]
        assert all(names.count(name) <= run_max for name in names)
