"""Configuration of what the node stores in and talks to: databases, journal, broker, cluster."""

from typing import Annotated, Literal

import msgspec

from arauto.config.base import (
    RESERVED,
    Count,
    FilePath,
    Interval,
    Port,
    PositiveCount,
    Seconds,
    Section,
)

__all__ = [
    "BrokerConfig",
    "ClusterConfig",
    "DiscoveryConfig",
    "ExportConfig",
    "JournalConfig",
    "KeyValueConfig",
    "MembershipConfig",
    "PostgresConfig",
    "RedisConfig",
    "RpcConfig",
    "SqlConfig",
    "StorageConfig",
]


class PostgresConfig(Section, frozen=True):
    """PostgreSQL server; used if `storage.kind` is `postgres`."""

    host: str = "127.0.0.1"
    """Host name, address, or directory of a Unix socket."""
    port: Port = 5432
    """Port of the server."""
    user: str = "arauto"
    """User to log in as."""
    password: str = ""
    """Password of that user."""
    database: str = "arauto"
    """Database to use; its tables are created and migrated by the node."""
    ssl_mode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    """`require` encrypts; only `verify-ca` and `verify-full` also make sure who answers."""


class StorageConfig(Section, frozen=True):
    """Where stored messages, settings and documents live."""

    kind: Literal["sqlite", "postgres", "memory"] = "sqlite"
    """`sqlite` needs nothing else; `postgres` is for several nodes; `memory` forgets everything when the
    node stops."""
    data_dir: FilePath = "./arauto-data"
    """Directory of the SQLite database and of exported journal segments, relative to where the node was
    started."""
    postgres: PostgresConfig = PostgresConfig()


class SqlConfig(Section, frozen=True):
    """The pool of connections to an SQL server."""

    idle_connections: Annotated[Count, RESERVED] = 2
    """Reserved; ignored today. Connections kept open while there is nothing to do."""
    max_connections: PositiveCount = 10
    """Connections open at once; what needs another waits. Stay below the server's own limit, all nodes
    together."""
    connection_max_lifetime_s: Annotated[Seconds, RESERVED] = 1_800
    """Reserved; ignored today. Age at which a connection is replaced; 0 = never. Lets load balancers and
    failovers take hold."""


class KeyValueConfig(Section, frozen=True):
    """Where restore states, retained messages and document operations live."""

    kind: Literal["storage", "redis", "memory"] = "storage"
    """`storage` uses what `storage.kind` names; `redis` shares them between nodes; `memory` forgets them
    when the node stops, also document changes made since the last snapshot."""


class RedisConfig(Section, frozen=True):
    """Redis or Valkey server; used if `keyValue.kind` is `redis`."""

    address: str = "redis://127.0.0.1:6379"
    """`redis://host:port`, or `rediss://host:port` for TLS. Credentials go into the fields below."""
    username: str = ""
    """User to log in as; empty = the server's default user."""
    password: str = ""
    """Password of that user."""
    db: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    """Number of the database to use."""
    request_timeout_s: Annotated[Interval, RESERVED] = 5
    """Reserved; ignored today. How long one command may take before it counts as failed."""


class ExportConfig(Section, frozen=True):
    """Rolling the journal into Parquet segments for the data pipeline."""

    enabled: bool = True
    """Off, nothing but expired messages ever leaves the journal, which then grows without end."""
    interval_s: Interval = 60
    """How often committed rows are rolled into a segment. Shorter reaches the pipeline sooner and makes
    more, smaller files."""
    rows_max: PositiveCount = 100_000
    """Rows in one segment. Memory use while exporting grows with it."""


class JournalConfig(Section, frozen=True):
    """The durable record of messages, sessions, errors and counters."""

    heartbeat_interval_s: Interval = 10
    """How often a row is written on an idle node, so that the pipeline knows that time has passed. While
    others are written, and for three seconds after, it is every second."""
    subscriptions: bool = True
    """Record who subscribed to what: to channels whose rules store messages, and to patterns and topics.
    Needed to tell later to whom a message went."""
    export: ExportConfig = ExportConfig()


class BrokerConfig(Section, frozen=True):
    """NATS server for services, RPC and streams. Reserved; nothing here is used yet."""

    host: Annotated[str, RESERVED] = ""
    """Reserved for services over NATS; ignored today. `nats://host:port`."""
    user: Annotated[str, RESERVED] = ""
    """Reserved for services over NATS; ignored today. User to log in as."""
    password: Annotated[str, RESERVED] = ""
    """Reserved for services over NATS; ignored today. Password of that user."""
    subject: Annotated[str, RESERVED] = "arauto"
    """Reserved for services over NATS; ignored today. Prefix of every subject."""


class MembershipConfig(Section, frozen=True):
    """Gossip between nodes."""

    secret_key: Annotated[str, RESERVED] = ""
    """Reserved for the cluster; ignored today. Key shared by all nodes, signs gossip."""


class RpcConfig(Section, frozen=True):
    """Calls between nodes."""

    secret_key: Annotated[str, RESERVED] = ""
    """Reserved for the cluster; ignored today. Key shared by all nodes, authenticates calls."""


class ClusterConfig(Section, frozen=True):
    """Several nodes as one. Reserved; nothing here is used yet."""

    membership: MembershipConfig = MembershipConfig()
    rpc: RpcConfig = RpcConfig()


class DiscoveryConfig(Section, frozen=True):
    """How nodes find each other. Reserved; nothing here is used yet."""

    type: Annotated[Literal["none", "static", "udp", "dns", "aws_ecs"], RESERVED] = "none"
    """Reserved for the cluster; ignored today. Where to look for other nodes."""
