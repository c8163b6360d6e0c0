"""Configuration of running a node: tokens, logs, metrics and traces."""

from typing import Annotated, Literal

from arauto.config.base import RESERVED, Bytes, Count, Interval, Ratio, Seconds, Section

__all__ = ["AuthConfig", "AuthSecretConfig", "DebugConfig", "SessionAuthConfig", "TelemetryConfig"]


class SessionAuthConfig(Section, frozen=True):
    """Tokens the node gives to authenticated sessions."""

    secret: str = ""
    """Signs session tokens; at least 32 random bytes for HS256, 48 for HS384, 64 for HS512. Empty = a
    random one at each start (development only), so tokens end with the process."""


class AuthSecretConfig(Section, frozen=True):
    """Tokens of administrators."""

    secret: Annotated[str, RESERVED] = ""
    """Reserved for the full admin API; ignored today. Signs administrators' tokens."""


class AuthConfig(Section, frozen=True):
    """Tokens the node issues, and how it may reach auth providers."""

    algorithm: Literal["HS256", "HS384", "HS512"] = "HS256"
    """How the node signs its own tokens."""
    issuer: str = "arauto"
    """Who the tokens say they are from. Tokens of another issuer are refused."""
    token_ttl_s: Interval = 300
    """How long a session's token is valid. Shorter limits what a stolen token can do; clients renew it
    by authenticating again."""
    clock_skew_s: Seconds = 30
    """How far the clocks of token issuers may be off."""
    jwks_refresh_s: Interval = 300
    """How long keys fetched from a hub's JWKS are used before they are fetched again."""
    provider_allow_private_networks: bool = False
    """Let auth provider and JWKS addresses of hubs lead to loopback and private networks. Leave it off
    where tenants may set them, or they can reach what only the node should reach."""
    provider_allowlist: tuple[str, ...] = ()
    """Hosts and networks, as `auth.internal:8443`, `10.0.0.7` or `10.0.0.0/24`, that auth providers may
    use even though they are private."""
    provider_response_bytes_max: Bytes = 65_536
    """Size of an auth provider's answer."""
    session: SessionAuthConfig = SessionAuthConfig()
    admin: AuthSecretConfig = AuthSecretConfig()


class DebugConfig(Section, frozen=True):
    """Logs and inspection."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important log lines that are written. `debug` costs speed."""
    format: Literal["json", "console"] = "json"
    """`json` is one object per line, for machines; `console` is coloured text, for people."""
    profiling: Annotated[bool, RESERVED] = False
    """Reserved for profiling on the admin port; ignored today."""


class TelemetryConfig(Section, frozen=True):
    """Metrics and traces."""

    metrics: bool = True
    """Serve Prometheus metrics at `/metrics` on the admin port."""
    metrics_hubs_max: Count = 50
    """Hubs that get a series of their own; all others are summed up as `_other`. Bounds what tenants can
    add to the monitoring system."""
    otlp_endpoint: str = ""
    """Full URL that traces are sent to with OTLP over HTTP, as `http://127.0.0.1:4318/v1/traces`.
    Empty = no traces."""
    otlp_headers: dict[str, str] = {}
    """HTTP headers for that endpoint, such as an API key."""
    trace_sample_ratio: Ratio = 0.0
    """Share of publications without a trace of their own that start one. Publications that carry a
    sampled `traceparent` are always traced."""
    trace_spans_per_s_max: Count = 1_000
    """Spans recorded per second at most, so that clients cannot flood the tracing backend; 0 = no
    limit."""
