"""What a started node tells its operator: what is open, to whom, and how to close it. Pure."""

from collections.abc import Iterator

import msgspec

from arauto.config.schema import Config
from arauto.hosts import is_loopback

__all__ = ["Line", "describe"]


class Line(msgspec.Struct, frozen=True):
    """One thing that is open."""

    name: str
    value: str
    hints: tuple[str, ...]
    """What to know about it, and how to change it."""
    is_open: bool = False
    """Whether more than this machine, or more than those who were let in, can use it."""


def describe(config: Config, *, port: int, admin_port: int, made_up_token: str) -> Iterator[Line]:
    """Yield what there is to say, the most asked for first.

    Args:
        config: what the node runs with.
        port: the client port in use.
        admin_port: the admin port in use.
        made_up_token: the admin token, if the node made one up; else "".
    """
    connection = config.connection
    scheme = "wss" if connection.tls.cert_file else "ws"
    yield Line(
        "clients",
        f"{scheme}://{_host(connection.host)}:{port}",
        (
            "WebSocket /v1/ws, SSE /v1/sse, HTTP /v1/publish",
            _reach(connection.host, "connection"),
        ),
        not is_loopback(connection.host),
    )
    access = "bearer token: admin.token of the configuration"
    if made_up_token:
        access = f"bearer token {made_up_token}, for this run; admin.token sets one"
    yield Line(
        "admin",
        f"http://{_host(config.admin.host)}:{admin_port}",
        (access, _reach(config.admin.host, "admin")),
        not is_loopback(config.admin.host),
    )
    yield _storage(config)
    yield _hubs(config)
    yield _channels(config)


def _storage(config: Config) -> Line:
    storage = config.storage
    if storage.kind == "sqlite":
        return Line("storage", f"SQLite in {storage.data_dir}", ("storage.dataDir moves it",))
    if storage.kind == "memory":
        forgotten = "all is forgotten at the end; storage.kind changes that"
        return Line("storage", "memory", (forgotten,))
    postgres = storage.postgres
    where = f"{_host(postgres.host)}:{postgres.port}/{postgres.database}"
    return Line("storage", f"PostgreSQL at {where}", ("storage.postgres moves it",))


def _hubs(config: Config) -> Line:
    if config.engine.allow_dynamic_hubs:
        return Line(
            "hubs",
            "made on first use, by anyone who can connect",
            ("engine.allowDynamicHubs: false closes that",),
            is_open=True,
        )
    opens = "engine.allowDynamicHubs: true opens that"
    return Line("hubs", "only those an administrator made", (opens,))


def _channels(config: Config) -> Line:
    defaults, rules = config.hub.defaults, config.hub.default_rules
    readable = defaults.default_public or rules.public
    writable = readable and rules.client_publish
    if writable:
        value = "anyone may subscribe and publish"
    elif readable:
        value = "anyone may subscribe; publishing needs a grant"
    else:
        value = "closed: subscribing and publishing need a grant or rules"
    changes = "hub.defaults.defaultPublic and hub.defaultRules.clientPublish change that"
    return Line("channels", value, (changes,), is_open=readable)


def _reach(host: str, category: str) -> str:
    if is_loopback(host):
        return "only from this machine"
    return f"open to the network; {category}.host closes that"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
