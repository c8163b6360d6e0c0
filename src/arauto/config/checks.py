"""Rules that need more than one field, or the file system. `build.py` has already checked each field alone.

Every rule is a function that yields findings; `check` runs them all. A finding names all fields it looked
at: if one of them was already found wrong, the finding would be about a default and is left out.
"""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from arauto.config.schema import Config
from arauto.errors import ArautoError
from arauto.hosts import is_host, is_loopback
from arauto.names import check_id
from arauto.settings import JwtSettings

__all__ = ["Finding", "check", "is_origin"]

_ADMIN_TOKEN_LEN_MIN = 16
_SESSION_SECRET_BYTES_MIN = {"HS256": 32, "HS384": 48, "HS512": 64}
_WELL_KNOWN = ("secret", "password", "changeme", "change-me", "admin", "token", "test", "example")


class Finding(msgspec.Struct, frozen=True):
    """A rule that is broken (or, as a warning, one that had better not be)."""

    paths: tuple[str, ...]
    """The fields looked at; the problem is reported at the first, or where that has its default, at the next
    one that is written."""
    message: str
    warning: bool = False
    missing: bool = False
    """Whether the first field should be written, so that no other one is to blame."""


def check(config: Config) -> Iterator[Finding]:
    """Yield everything that is wrong with, or questionable about, the fields taken together."""
    for rule in (
        _secrets,
        _production,
        _exposure,
        _ports,
        _tls,
        _timing,
        _sizes,
        _storage,
        _hub_defaults,
        _jwt,
        _addresses,
        _origins,
        _hosts,
    ):
        yield from rule(config)


def _secrets(config: Config) -> Iterator[Finding]:
    secret, algorithm = config.auth.session.secret, config.auth.algorithm
    least = _SESSION_SECRET_BYTES_MIN[algorithm]
    if secret and len(secret.encode()) < least:
        yield Finding(
            ("auth.session.secret", "auth.algorithm"), f"{algorithm} needs at least {least} bytes"
        )


def _production(config: Config) -> Iterator[Finding]:
    if config.node.mode != "production":
        return
    secret, token = config.auth.session.secret, config.admin.token
    for path, value in (("auth.session.secret", secret), ("admin.token", token)):
        if not value:
            yield Finding((path, "node.mode"), "must be set in production", missing=True)
        elif _is_guessable(value):
            yield Finding(
                (path, "node.mode"), "is a well-known or repetitive value; use a random one"
            )
    if token and len(token) < _ADMIN_TOKEN_LEN_MIN:
        yield Finding(
            ("admin.token", "node.mode"),
            f"needs at least {_ADMIN_TOKEN_LEN_MIN} characters in production",
        )
    if token and token == secret:
        yield Finding(
            ("admin.token", "auth.session.secret"), "must not be the same as auth.session.secret"
        )
    if config.storage.kind == "memory":
        yield Finding(
            ("storage.kind", "node.mode"), "memory forgets everything at each restart", warning=True
        )


def _is_guessable(value: str) -> bool:
    folded = value.lower()
    left = folded
    for word in (*_WELL_KNOWN, "arauto"):
        left = left.replace(word, "")
    # "changeme-changeme-123" is a few known words and little else; "aaaaaaaa…" has no variety.
    return (len(left.strip("-_.!0123456789")) < 4 and left != folded) or len(set(value)) < 6


def _exposure(config: Config) -> Iterator[Finding]:
    if not is_loopback(config.admin.host):
        yield Finding(
            ("admin.host",),
            "the admin port speaks plain HTTP; open it to a network only behind a TLS proxy",
            warning=True,
        )
    open_plain = not is_loopback(config.connection.host) and not config.connection.tls.cert_file
    if open_plain and config.node.mode == "production":
        yield Finding(
            ("connection.host", "connection.tls.certFile"),
            "clients connect without TLS; set connection.tls or put a TLS proxy in front",
            warning=True,
        )
    if open_plain and config.node.mode == "development":
        yield Finding(
            ("connection.host", "node.mode"),
            "open to the network in development mode; production mode checks the secrets",
            warning=True,
        )


def _ports(config: Config) -> Iterator[Finding]:
    client, admin = config.connection, config.admin
    for path, host in (("connection.host", client.host), ("admin.host", admin.host)):
        if not host or any(char.isspace() or char in "/:@" for char in host.strip("[]")):
            try:
                ipaddress.ip_address(host.strip("[]"))
            except ValueError:
                yield Finding((path,), "expected an address or host name, without port or scheme")
    anywhere = {"0.0.0.0", "::", "[::]"}  # noqa: S104  # nosec B104 - compared, not bound
    same_host = client.host == admin.host or bool({client.host, admin.host} & anywhere)
    if client.port and client.port == admin.port and same_host:
        yield Finding(
            ("admin.port", "connection.port", "admin.host", "connection.host"),
            f"clashes with connection.port; both are {admin.port}",
        )


def _tls(config: Config) -> Iterator[Finding]:
    tls = config.connection.tls
    paths = ("connection.tls.certFile", "connection.tls.keyFile")
    for path, other, file, other_file in (
        (*paths, tls.cert_file, tls.key_file),
        (*paths[::-1], tls.key_file, tls.cert_file),
    ):
        if file and not other_file:
            yield Finding((path, other), f"needs {other} beside it")
        if file and not Path(file).is_file():
            yield Finding((path,), "no such file")


def _timing(config: Config) -> Iterator[Finding]:
    session, engine = config.session, config.engine
    if session.pong_timeout_s >= session.ping_interval_s:
        yield Finding(
            ("session.pongTimeoutS", "session.pingIntervalS"),
            f"must be below session.pingIntervalS ({session.ping_interval_s:g})",
        )
    if engine.session_metrics_interval_s > engine.stats_collect_interval_s:
        yield Finding(
            ("engine.sessionMetricsIntervalS", "engine.statsCollectIntervalS"),
            f"must not be above engine.statsCollectIntervalS ({engine.stats_collect_interval_s:g})",
        )
    for path, value, least in (
        ("session.pingIntervalS", session.ping_interval_s, 1),
        ("engine.statsCollectIntervalS", engine.stats_collect_interval_s, 1),
        ("engine.sessionMetricsIntervalS", engine.session_metrics_interval_s, 1),
        ("hub.settingsRefreshS", config.hub.settings_refresh_s, 1),
        ("journal.heartbeatIntervalS", config.journal.heartbeat_interval_s, 1),
        ("journal.export.intervalS", config.journal.export.interval_s, 1),
        ("auth.tokenTtlS", config.auth.token_ttl_s, 10),
    ):
        if value < least:
            yield Finding(
                (path,), f"must be at least {least} s, or the node is busy with nothing else"
            )


def _sizes(config: Config) -> Iterator[Finding]:
    message = config.hub.defaults.quotas.message_bytes_max
    connection = config.connection
    quota_path = "hub.defaults.quotas.messageBytesMax"
    for path, size in (
        ("connection.ws.sendBufferBytes", connection.ws.send_buffer_bytes),
        ("connection.sse.sendBufferBytes", connection.sse.send_buffer_bytes),
        ("connection.ws.maxMessageBytes", connection.ws.max_message_bytes),
    ):
        if size < message:
            yield Finding((path, quota_path), f"must hold one message of {quota_path} ({message})")
    # A buffer that a message fills has doubled beyond it.
    room, least = connection.ws.read_buffers_bytes_max, 3 * connection.ws.max_message_bytes
    if 0 < room < least:
        yield Finding(
            ("connection.ws.readBuffersBytesMax", "connection.ws.maxMessageBytes"),
            f"must be at least three times connection.ws.maxMessageBytes ({least}), or 0 for no limit",
        )
    strangers = config.hub.strangers
    for name, size in (
        ("liveHistoryBytesMax", strangers.live_history_bytes_max),
        ("retainedBytesMax", strangers.retained_bytes_max),
        ("backlogsBytesMax", strangers.backlogs_bytes_max),
    ):
        if 0 < size < message:
            yield Finding(
                (f"hub.strangers.{name}", quota_path),
                f"must hold one message of {quota_path} ({message}), or be 0 for no lower quota",
            )
    if config.sql.idle_connections > config.sql.max_connections:
        yield Finding(
            ("sql.idleConnections", "sql.maxConnections"),
            f"must not be above sql.maxConnections ({config.sql.max_connections})",
        )
    length, most = config.hub.default_rules.live_history_len, config.engine.max_live_history_size
    if length > most:
        yield Finding(
            ("hub.defaultRules.liveHistoryLen", "engine.maxLiveHistorySize"),
            f"must not be above engine.maxLiveHistorySize ({most})",
        )
    if connection.http.body_bytes_max > connection.ws.max_message_bytes * 64:
        yield Finding(
            ("connection.http.bodyBytesMax", "connection.ws.maxMessageBytes"),
            "is far above connection.ws.maxMessageBytes; each request may take that much memory",
            warning=True,
        )


def _storage(config: Config) -> Iterator[Finding]:
    storage = config.storage
    if storage.kind != "memory" and not storage.data_dir:
        yield Finding(("storage.dataDir", "storage.kind"), "must name a directory")
    elif (
        storage.data_dir and Path(storage.data_dir).exists() and not Path(storage.data_dir).is_dir()
    ):
        yield Finding(("storage.dataDir",), "is not a directory")
    if storage.kind == "postgres":
        for name in ("host", "user", "database"):
            if not getattr(storage.postgres, name):
                yield Finding((f"storage.postgres.{name}", "storage.kind"), "must not be empty")
    if config.key_value.kind == "redis" and not config.redis.address:
        yield Finding(("redis.address", "keyValue.kind"), "must not be empty")
    if config.key_value.kind == "memory" and storage.kind != "memory":
        yield Finding(
            ("keyValue.kind", "storage.kind"),
            "memory forgets document changes and restore states at each restart",
            warning=True,
        )


def _hub_defaults(config: Config) -> Iterator[Finding]:
    defaults = config.hub.defaults
    for name, value, may_be_empty in (
        ("userChannelNamespace", defaults.user_channel_namespace, not defaults.user_channel),
        ("defaultRules", defaults.default_rules, True),
    ):
        if value or not may_be_empty:
            try:
                check_id(value, name)
            except ArautoError as error:
                yield Finding((f"hub.defaults.{name}", "hub.defaults.userChannel"), error.message)
    provider = defaults.auth_provider
    if provider is not None:
        path = "hub.defaults.authProvider"
        if not _is_url(provider.url, ("http", "https")):
            yield Finding((f"{path}.url",), "expected an http:// or https:// URL")
        limit_s = config.hub.authenticate_request_timeout_s
        if provider.timeout_s > limit_s:
            yield Finding(
                (f"{path}.timeoutS", "hub.authenticateRequestTimeoutS"),
                f"is above hub.authenticateRequestTimeoutS ({limit_s:g}), which wins",
                warning=True,
            )
    if not defaults.allow_anonymous and provider is None and defaults.jwt is None:
        yield Finding(
            (
                "hub.defaults.allowAnonymous",
                "hub.defaults.authProvider",
                "hub.defaults.jwt",
            ),
            "refuses anonymous sessions, but there is no authProvider and no jwt to authenticate with",
        )


def _jwt(config: Config) -> Iterator[Finding]:
    jwt = config.hub.defaults.jwt
    if jwt is None:
        return
    path = "hub.defaults.jwt"
    sources = [name for name, value in _key_sources(jwt).items() if value]
    if len(sources) != 1:
        said = " and ".join(sources) or "none"
        names = ", ".join(_key_sources(jwt))
        yield Finding((path,), f"needs exactly one of {names}; found {said}")
    if jwt.jwks_file and not Path(jwt.jwks_file).is_file():
        yield Finding((f"{path}.jwksFile",), "no such file")
    if jwt.jwks_url and not _is_url(jwt.jwks_url, ("http", "https")):
        yield Finding((f"{path}.jwksUrl",), "expected an http:// or https:// URL")
    allowed = (("HS256",) if jwt.secret else ()) + (("RS256", "EdDSA") if jwt.public_key else ())
    if allowed and jwt.algorithm not in allowed:
        yield Finding(
            (f"{path}.algorithm",), f"must be {' or '.join(allowed)} for {' and '.join(sources)}"
        )
    if jwt.secret and len(jwt.secret.encode()) < _SESSION_SECRET_BYTES_MIN["HS256"]:
        yield Finding((f"{path}.secret",), "HS256 needs at least 32 bytes")


def _key_sources(jwt: JwtSettings) -> dict[str, str]:
    return {
        "secret": jwt.secret,
        "publicKey": jwt.public_key,
        "jwksFile": jwt.jwks_file,
        "jwksUrl": jwt.jwks_url,
    }


def _addresses(config: Config) -> Iterator[Finding]:
    if config.redis.address and not _is_url(config.redis.address, ("redis", "rediss", "unix")):
        yield Finding(("redis.address",), "expected redis://host:port or rediss://host:port")
    elif "@" in config.redis.address:
        yield Finding(
            ("redis.address",), "put the credentials into redis.username and redis.password"
        )
    endpoint = config.telemetry.otlp_endpoint
    if endpoint and not _is_url(endpoint, ("http", "https")):
        yield Finding(("telemetry.otlpEndpoint",), "expected an http:// or https:// URL")
    if config.telemetry.trace_sample_ratio and not endpoint:
        yield Finding(
            ("telemetry.traceSampleRatio", "telemetry.otlpEndpoint"),
            "has no effect without telemetry.otlpEndpoint",
            warning=True,
        )


def _origins(config: Config) -> Iterator[Finding]:
    lists = (
        ("connection.allowedOrigins", config.connection.allowed_origins),
        ("hub.defaults.allowedOrigins", config.hub.defaults.allowed_origins),
    )
    for path, origins in lists:
        for i, origin in enumerate(origins):
            at = (f"{path}[{i}]",)
            if origin == "*":
                yield Finding(at, "any web page may connect", warning=True)
            elif not is_origin(origin):
                yield Finding(at, "expected scheme://host or scheme://host:port, in lower case")


def _hosts(config: Config) -> Iterator[Finding]:
    lists = (
        ("connection.allowedHosts", config.connection.allowed_hosts),
        ("admin.allowedHosts", config.admin.allowed_hosts),
    )
    for path, hosts in lists:
        for i, host in enumerate(hosts):
            if not is_host(host):
                yield Finding(
                    (f"{path}[{i}]",), "expected a host name alone, without scheme and port"
                )


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname or parts.scheme == "unix")
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Whether this is a web origin as browsers write it: scheme, host and port, if not the usual one."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises on a bad one
    except ValueError:
        return False
    bare = f"{parts.scheme}://{parts.netloc}"
    return (
        bool(parts.hostname)
        and bare == text == text.lower()
        and "@" not in text
        and "*" not in text
    )
