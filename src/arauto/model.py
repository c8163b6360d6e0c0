"""The one internal message and the small records around it. Immutable, without behaviour.

Every protocol is decoded to `Message` and every delivery is encoded from it. `msgspec.Struct` is used
because creating one costs a fraction of a frozen dataclass, and one is made per publication.
"""

from enum import IntEnum, StrEnum

import msgspec

__all__ = [
    "BINARY",
    "JSON",
    "RESERVED_HEADERS",
    "TEXT",
    "ContentType",
    "Direction",
    "Grant",
    "Grants",
    "Identity",
    "Member",
    "Message",
    "Serial",
    "SlowPolicy",
    "When",
]

ContentType = str
BINARY: ContentType = ""
TEXT: ContentType = "text/plain"
JSON: ContentType = "application/json"

#: Headers by which the data pipeline marks what it publishes, exactly as it reads them again. Rules and
#: replays leave marked messages out, so clients may not set these: only an administrator publishes them.
RESERVED_HEADERS = frozenset(
    {
        "x-hops",
        "x-origin",
        "x-original-serial",
        "x-original-ts",
        "x-original-user",
        "x-replay",
        "x-rule",
        "x-user",
    }
)


class Serial(msgspec.Struct, frozen=True, order=True, gc=False):
    """A message's place in its channel. Epochs grow with time; offsets grow by one within an epoch.

    Equal epochs mean the same unbroken sequence. `Serial(epoch, 0)` is the place before the first message.
    """

    epoch: int
    offset: int


class Message(msgspec.Struct, frozen=True, gc=False):
    """One immutable record, whatever protocol it came from and whatever protocol it leaves by."""

    hub: str
    channel: str
    payload: bytes
    epoch: int
    offset: int
    ts_ms: int
    """Ingest time at the node that gave the serial; never goes back within a channel."""
    content_type: ContentType = BINARY
    id: str = ""
    """The publisher's idempotency key, or ""."""
    session: str = ""
    """The publishing session, or "" for a service or administrator."""
    user: str = ""
    exclude: str = ""
    """Who must not receive this: "" nobody, "s:<session>" one session, "u:<user>" one user."""
    key: str = ""
    """What this is the latest value of, for the keep-latest policy."""
    headers: dict[str, str] | None = None
    expires_ms: int = 0
    """Absolute wall-clock time after which nobody should see this; 0 = never."""
    retain: bool = False
    store: bool = False
    origin: str = ""
    """Where it came from if no session sent it, as "http 10.0.0.7". For the journal; nobody receives it."""

    @property
    def serial(self) -> Serial:
        return Serial(self.epoch, self.offset)


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Leave to publish to or subscribe to the channels a pattern covers."""

    channel: str
    publish: bool = False
    subscribe: bool = False


class Grants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """All a session was granted at authentication."""

    channels: tuple[Grant, ...] = ()
    rpcs: tuple[str, ...] = ()


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Who a session is: the outcome of an authentication. `expires_ms` 0 = does not expire."""

    user: str
    grants: Grants = Grants()
    extra: dict[str, str] = {}
    expires_ms: int = 0
    issued_ms: int = 0
    """When it was established: a token's `iat`, or when the provider answered; 0 = not known. A revocation
    ends identities established before it."""


class Member(msgspec.Struct, frozen=True, gc=False):
    """One session present in a channel."""

    session: str
    user: str
    joined_ms: int
    extra: dict[str, str] = {}


class When(StrEnum):
    """Whether a per-message feature acts on no message, on marked ones or on every one."""

    NEVER = "never"
    MARKED = "marked"
    ALL = "all"


class SlowPolicy(StrEnum):
    """What happens to a subscriber whose outbox is full."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"
    KEEP_LATEST = "keep_latest"


class Direction(IntEnum):
    """Which way a history page runs."""

    FORWARD = 0
    BACKWARD = 1
