"""The whole configuration: one YAML file, one class per category.

Every field either does something on this node or says that it is reserved. Everything binds to loopback
and everything runs embedded unless the file says otherwise.
"""

from arauto.config.backends import (
    BrokerConfig,
    ClusterConfig,
    DiscoveryConfig,
    JournalConfig,
    KeyValueConfig,
    RedisConfig,
    SqlConfig,
    StorageConfig,
)
from arauto.config.base import Section
from arauto.config.edges import AdminConfig, ConnectionConfig
from arauto.config.operation import AuthConfig, DebugConfig, TelemetryConfig
from arauto.config.pipeline import PipelineConfig
from arauto.config.realtime import (
    ChannelConfig,
    EngineConfig,
    HubConfig,
    LimitsConfig,
    NodeConfig,
    SessionConfig,
)

__all__ = ["Config"]


class Config(Section, frozen=True):
    """A node's configuration. `Config()` is what a node runs with when nothing is configured."""

    node: NodeConfig = NodeConfig()
    engine: EngineConfig = EngineConfig()
    hub: HubConfig = HubConfig()
    session: SessionConfig = SessionConfig()
    channel: ChannelConfig = ChannelConfig()
    limits: LimitsConfig = LimitsConfig()
    connection: ConnectionConfig = ConnectionConfig()
    admin: AdminConfig = AdminConfig()
    auth: AuthConfig = AuthConfig()
    storage: StorageConfig = StorageConfig()
    sql: SqlConfig = SqlConfig()
    key_value: KeyValueConfig = KeyValueConfig()
    redis: RedisConfig = RedisConfig()
    journal: JournalConfig = JournalConfig()
    pipeline: PipelineConfig = PipelineConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    debug: DebugConfig = DebugConfig()
    broker: BrokerConfig = BrokerConfig()
    cluster: ClusterConfig = ClusterConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
