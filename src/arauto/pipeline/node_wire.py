"""What goes to the admin API and comes back: records, their JSON, requests of the right size. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from arauto.errors import ArautoError, Code
from arauto.limits import BATCH_LEN_MAX
from arauto.model import When

__all__ = [
    "CorrelationRecord",
    "Correlations",
    "History",
    "Hubs",
    "Outcome",
    "Outgoing",
    "Problem",
    "Published",
    "Retry",
    "Stored",
    "batches",
    "error_of",
    "of_one_hub",
]

#: A request's body stays well below `admin.bodyBytesMax`, whose default is 4 MiB.
_BODY_BYTES_MAX = 2 * 1024 * 1024
#: What a message's JSON takes beside its payload, at most nearly always.
_FRAME_BYTES = 512

#: See `of_one_hub`.
_OF_ONE_HUB = frozenset(
    {
        Code.RATE_LIMITED,
        Code.TOO_MANY_SESSIONS,
        Code.TOO_MANY_CHANNELS,
        Code.HUB_RATE_LIMITED,
        Code.TOO_MANY_PENDING,
        Code.HUB_CLOSED,
        Code.STORAGE_SHARE_FULL,
    }
)


@dataclass(frozen=True, slots=True)
class Retry:
    """How long to keep trying."""

    attempts_max: int = 8
    total_s: float = 30.0
    first_s: float = 0.1
    most_s: float = 5.0

    def delay_s(self, attempt: int, chance: float) -> float:
        """How long to wait after the `attempt`th failure (from 1): doubling, and spread by `chance`."""
        most = min(self.most_s, self.first_s * 2.0 ** (attempt - 1))
        return float(most * (0.5 + 0.5 * chance))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. Without an `id` a retry may publish it twice."""

    channel: str
    payload: bytes
    content_type: str = ""
    id: str = ""
    key: str = ""
    headers: Mapping[str, str] | None = None
    ttl_ms: int = 0

    def wire(self) -> dict[str, Any]:
        """As the API wants it. Base64 keeps every payload byte for byte."""
        item: dict[str, Any] = {"channel": self.channel, "base64": b64encode(self.payload).decode()}
        more = {
            "content_type": self.content_type,
            "idempotency_key": self.id,
            "key": self.key,
            "headers": dict(self.headers or {}),
            "ttl_ms": self.ttl_ms,
        }
        return item | {name: value for name, value in more.items() if value}

    @property
    def size_bytes(self) -> int:
        """About how much of a request it takes."""
        headers = sum(len(name) + len(value) for name, value in (self.headers or {}).items())
        return len(self.payload) * 4 // 3 + len(self.channel) + headers + _FRAME_BYTES


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message."""

    error: ArautoError | None = None
    duplicate: bool = False
    """It was published before, by an earlier attempt."""


class CorrelationRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A correlation rule as the node keeps it."""

    hub: str
    id: str
    text: str
    enabled: bool
    version: str
    """Changes with any part of it."""
    rule_version: int = 0
    owner: str = ""
    warnings: list[str] = []
    """What it waits for in vain; told when it is set."""


class HubName(msgspec.Struct):
    name: str


class Hubs(msgspec.Struct):
    items: list[HubName]
    next: str


class Stored(msgspec.Struct):
    store: list[When]


class Problem(msgspec.Struct):
    code: int
    message: str
    field: str = ""


class Item(msgspec.Struct):
    duplicate: bool = False
    error: Problem | None = None


class Published(msgspec.Struct):
    results: list[Item]


class Message(msgspec.Struct):
    idempotency_key: str = ""


class Serial(msgspec.Struct):
    epoch: str
    offset: int


class History(msgspec.Struct):
    messages: list[Message]
    more: bool
    next: Serial | None = None


class Exported(msgspec.Struct, rename="camel"):
    sealed_seq: int


class Correlations(msgspec.Struct):
    items: list[CorrelationRecord]
    next: str


def batches(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Cut messages into requests the API takes, by number and by size. One too large goes alone."""
    batch: list[Outgoing] = []
    size_bytes = 0
    for message in messages:
        more_bytes = message.size_bytes
        if batch and (len(batch) == BATCH_LEN_MAX or size_bytes + more_bytes > _BODY_BYTES_MAX):
            yield batch
            batch, size_bytes = [], 0
        batch.append(message)
        size_bytes += more_bytes
    if batch:
        yield batch


def of_one_hub(error: ArautoError) -> bool:
    """Whether it is a refusal that may pass, and that only one hub suffers.

    It may be at its quota for good, or closed in a node that holds no more hubs, so no other waits for it.
    """
    if error.code is Code.OVERLOADED:
        # Said of connections, it is everybody's.
        return error.field == "hub"
    return error.code in _OF_ONE_HUB


def error_of(problem: Problem | None) -> ArautoError | None:
    if problem is None:
        return None
    try:
        code = Code(problem.code)
    except ValueError:
        # A newer node may know more numbers; what it says is still worth reading.
        return ArautoError(Code.SERVER_ERROR, f"[{problem.code}] {problem.message}")
    return ArautoError(code, problem.message, field=problem.field)
