"""What to replay, and what a message of the past looks like when it is published again. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from arauto.errors import ArautoError, Code
from arauto.limits import IDEMPOTENCY_KEY_BYTES_MAX, TTL_MS_MAX
from arauto.names import check_channel, check_hub, check_id, check_pattern
from arauto.pipeline.node_api import Outgoing

__all__ = [
    "RATE_MAX",
    "SAME",
    "TARGET",
    "Past",
    "ReplaySpec",
    "again",
    "check_spec",
    "duration_s",
    "waves",
]

#: Messages a second, unless asked for more.
RATE_MAX = 500
#: Where messages go, unless asked for another place.
TARGET = "replay:{id}:{channel}"
SAME = "same"

_CHANNELS_MAX = 100
_ID_LEN_MAX = 40
_RATE_PER_S_MAX = 100_000
_SPEED_MIN, _SPEED_MAX = 0.001, 100_000.0


class ReplaySpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One replay. Kept with its progress, so that it can be taken up with nothing but its id."""

    id: str
    hub: str
    channels: tuple[str, ...]
    """Names, patterns and topics."""
    from_ms: int
    to_ms: int
    """Exclusive."""
    target: str = TARGET
    """A channel's name with `{id}` and `{channel}` in it, or `same`."""
    target_hub: str = ""
    """"" = the hub the messages are from."""
    speed: float = 1.0
    """How many times as fast as it happened; 0 = as fast as the rate allows."""
    rate_max: int = RATE_MAX
    derived: bool = False
    """Also what the pipeline or an earlier replay published."""

    @property
    def to_hub(self) -> str:
        return self.target_hub or self.hub

    def target_of(self, channel: str) -> str:
        """Where a channel's messages go."""
        if self.target == SAME:
            return channel
        return self.target.replace("{id}", self.id).replace("{channel}", channel)


class Past(NamedTuple):
    """A message of the lake."""

    ts_ms: int
    node: str
    seq: int
    channel: str
    epoch: int
    offset: int
    user: str
    content_type: str
    key: str
    headers: Mapping[str, str]
    expires_ms: int
    payload: bytes

    @property
    def place(self) -> tuple[int, str, int]:
        """Its place in the order of a replay."""
        return self.ts_ms, self.node, self.seq


def check_spec(spec: ReplaySpec) -> ReplaySpec:
    """Return the spec if it makes sense.

    Raises:
        ArautoError: BAD_FIELD, BAD_HUB_NAME or BAD_CHANNEL_NAME, saying what to change.
    """
    check_id(spec.id, "id")
    if len(spec.id) > _ID_LEN_MAX:
        raise _bad("id", f"must have at most {_ID_LEN_MAX} characters")
    check_hub(spec.hub)
    check_hub(spec.to_hub)
    if not 1 <= len(spec.channels) <= _CHANNELS_MAX:
        raise _bad("channels", f"must be 1 to {_CHANNELS_MAX} names or patterns")
    for channel in spec.channels:
        check_pattern(channel)
    if not 0 <= spec.from_ms < spec.to_ms:
        raise _bad("from", "must lie before the end of the range")
    if spec.speed and not _SPEED_MIN <= spec.speed <= _SPEED_MAX:
        raise _bad("speed", f"must lie between {_SPEED_MIN:g} and {_SPEED_MAX:g}, or be full")
    if not 1 <= spec.rate_max <= _RATE_PER_S_MAX:
        raise _bad("rate", f"must lie between 1 and {_RATE_PER_S_MAX} messages a second")
    _check_target(spec)
    return spec


def _check_target(spec: ReplaySpec) -> None:
    rest = spec.target.replace("{id}", "").replace("{channel}", "")
    if "{" in rest or "}" in rest:
        raise _bad("to", "may hold {id} and {channel}, and no other braces")
    if spec.target != SAME:
        check_channel(spec.target_of("x"))


def again(past: Past, spec: ReplaySpec) -> Outgoing:
    """The message to publish: marked as a replay, with the same id in every attempt."""
    headers = dict(past.headers)
    headers["x-replay"] = spec.id
    headers["x-original-ts"] = str(past.ts_ms)
    headers["x-original-serial"] = f"{past.epoch:016x}-{past.offset}"
    if past.user:
        headers["x-original-user"] = past.user
    # What was to live for a minute then lives for a minute now.
    ttl_ms = max(1, past.expires_ms - past.ts_ms) if past.expires_ms else 0
    return Outgoing(
        channel=spec.target_of(past.channel),
        payload=past.payload,
        content_type=past.content_type,
        id=_id_of(past, spec),
        key=past.key,
        headers=headers,
        ttl_ms=min(ttl_ms, TTL_MS_MAX),
    )


def _id_of(past: Past, spec: ReplaySpec) -> str:
    made = f"replay:{spec.id}:{past.node}:{past.seq}"
    if len(made.encode()) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return made
    return f"replay:{spec.id}:{blake2b(made.encode(), digest_size=20).hexdigest()}"


def waves(messages: Sequence[Outgoing], run_max: int) -> Iterator[list[Outgoing]]:
    """Cut messages, in order, so that no part holds more than `run_max` of one channel.

    A node that refuses one message for now may take the next one of the same request. With one message of
    each channel at a time, none can overtake another of its channel.
    """
    part: list[Outgoing] = []
    seen: dict[str, int] = {}
    for message in messages:
        if seen.get(message.channel, 0) == run_max:
            yield part
            part, seen = [], {}
        part.append(message)
        seen[message.channel] = seen.get(message.channel, 0) + 1
    if part:
        yield part


def duration_s(count: int, first_ms: int, last_ms: int, speed: float, rate_per_s: float) -> float:
    """How long a replay takes at least."""
    spread_s = (last_ms - first_ms) / 1000 / speed if speed else 0.0
    return max(spread_s, count / rate_per_s)


def _bad(field: str, rule: str) -> ArautoError:
    return ArautoError(Code.BAD_FIELD, f"{field} {rule}", field=field)
