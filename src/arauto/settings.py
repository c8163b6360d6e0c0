"""What an administrator can set on a hub and its channels. Immutable records, without behaviour.

They are stored as JSON, shown by the admin API, and given defaults by the configuration file. Names are
camelCase outside (YAML, JSON) and snake_case inside. Unknown fields are refused, so a typing error is
an error and not a silent default.
"""

from typing import Annotated

import msgspec

from arauto.model import SlowPolicy, When

__all__ = [
    "AuthProvider",
    "ChannelSettings",
    "HubSettings",
    "JwtSettings",
    "NamespaceSettings",
    "Quotas",
    "Rules",
]

# The upper ends keep every sum and product made of them exact and storable; a hundred years is long enough.
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_155_760_000)]


class _Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Rules(_Setting, frozen=True, kw_only=True):
    """Named settings of channels. The most specific wins whole: channel, then namespace, then hub."""

    public: bool = False
    """Any session may subscribe without a grant."""
    allow_anonymous: bool = True
    """Sessions that have not authenticated may use the channel (as far as `public` or grants go)."""
    client_publish: bool = False
    """Any session that may subscribe may also publish; an explicit publish grant overrides False."""
    retain: When = When.MARKED
    """Keep the last (marked) message and give it to each new subscriber."""
    retain_s: _Seconds = 86_400
    """How long a retained message is kept; 0 = for ever."""
    store: When = When.NEVER
    """Write (marked) messages to the store before they are delivered."""
    store_s: _Seconds = 0
    """How long stored messages are kept; 0 = for ever."""
    push: bool = False
    """Messages marked for push also go to registered devices."""
    presence: bool = False
    """Subscribers see who else is subscribed."""
    occupancy: bool = False
    """Subscribers see how many are subscribed."""
    live_history_len: _Count = 100
    """Messages kept in memory for quick reconnects; 0 = none."""
    live_history_s: _Seconds = 300
    """How long a message stays in live history; 0 = until pushed out."""
    slow_policy: SlowPolicy = SlowPolicy.DISCONNECT
    """What happens to subscribers that do not keep up."""
    idempotency_s: _Seconds = 300
    """How long an idempotency key is remembered."""
    message_ttl_s: _Seconds = 0
    """Default expiry of messages that name none; 0 = never."""
    document_strict: bool = False
    """Documents follow RFC 6902 to the letter: missing parents are an error, not created."""


class NamespaceSettings(_Setting, frozen=True, kw_only=True):
    """Binds a namespace to rules."""

    rules: str


class ChannelSettings(_Setting, frozen=True, kw_only=True):
    """Binds one channel to rules and carries its metadata."""

    rules: str = ""
    metadata: dict[str, str] = {}


class Quotas(_Setting, frozen=True, kw_only=True):
    """What one hub may use; 0 = no limit. Changed live."""

    sessions_max: _Count = 100_000
    """Sessions connected at once."""
    channels_max: _Count = 100_000
    """Channels open at once."""
    subscriptions_per_session_max: _Count = 1_000
    """Subscriptions one session may hold."""
    message_bytes_max: _Count = 65_536
    """Size of one publication's payload."""
    messages_per_s: _Count = 0
    """Publications per second over the whole hub."""
    session_messages_per_s: _Count = 1_000
    """Requests per second from one session; large ones count as several, 200 heartbeats are free."""
    live_history_bytes_max: _Bytes = 268_435_456
    """Memory that the live history of all channels takes together; then the oldest messages of the hub go."""
    idempotency_bytes_max: _Bytes = 268_435_456
    """Memory that idempotency keys take together; then those of the hub go early that are over first."""
    retained_bytes_max: _Bytes = 268_435_456
    """Memory that retained messages take together; a message beyond it is delivered and not retained."""
    backlogs_bytes_max: _Bytes = 268_435_456
    """Memory that what waits for slow readers takes together; whoever wants more is treated as full."""
    documents_bytes_max: _Bytes = 268_435_456
    """Memory that open documents take together; opening and growing beyond it are refused."""


class AuthProvider(_Setting, frozen=True, kw_only=True):
    """Where the hub's sessions are authenticated: an HTTP service that answers with identity and grants."""

    url: str = ""
    """Address of the service, http:// or https://."""
    headers: dict[str, str] = {}
    """Headers sent with each request, such as a key the service asks for."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0
    """How long the service may take; then the session is told that it did not answer."""


class JwtSettings(_Setting, frozen=True, kw_only=True):
    """How tokens of this hub's own issuer are verified on the node, without asking anyone.

    Exactly one key source; each key has exactly one algorithm.
    """

    algorithm: str = ""
    """HS256, RS256 or EdDSA for `secret` / `publicKey`; keys of a JWKS name their own."""
    secret: str = ""
    """Shared key for HS256; at least 32 random bytes."""
    public_key: str = ""
    """PEM."""
    jwks_file: str = ""
    """File with a JSON Web Key Set."""
    jwks_url: str = ""
    """Address of a JSON Web Key Set, fetched and kept for a while."""
    issuer: str = ""
    """Required `iss`; any if empty."""
    audience: str = ""
    """Required `aud`; the hub's name if empty."""


class HubSettings(_Setting, frozen=True, kw_only=True):
    """One hub."""

    default_public: bool = False
    """Channels without rules of their own are public."""
    allow_anonymous: bool = True
    """Sessions may stay unauthenticated; otherwise they have a deadline."""
    user_channel: bool = True
    """Authenticated sessions are subscribed to `<namespace>:<user>` by the server."""
    user_channel_namespace: str = "u"
    """Namespace of the user channels."""
    default_rules: str = ""
    """Id of the rules for channels that no channel or namespace setting names; "" = built in."""
    auth_provider: AuthProvider | None = None
    jwt: JwtSettings | None = None
    allowed_origins: tuple[str, ...] = ()
    """Extra web origins that may connect to this hub, beside the node's list."""
    quotas: Quotas = Quotas()
