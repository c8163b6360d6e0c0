"""The demo's node and hub: open to everyone on this machine, and the shops known by name. Pure."""

from typing import Any

import jwt

from arauto.config.backends import ExportConfig, JournalConfig, StorageConfig
from arauto.config.edges import AdminConfig, ConnectionConfig
from arauto.config.operation import DebugConfig
from arauto.config.pipeline import PipelineConfig
from arauto.config.realtime import EngineConfig, HubConfig, NodeConfig
from arauto.config.schema import Config
from arauto.model import When
from arauto.settings import HubSettings, JwtSettings, Rules

__all__ = ["HUB", "demo_config", "shop_token"]

HUB = "shop"

_ALGORITHM = "HS256"
_TOKEN_LIFE_S = 30 * 86_400


def demo_config(
    *, data_dir: str, port: int, admin_port: int, jwt_secret: str, pipeline: bool
) -> Config:
    """One embedded node that lets anyone on this machine try everything.

    With a `pipeline` beside it, everything that reaches it in intervals does so often: somebody is watching.
    """
    return Config(
        node=NodeConfig(name="demo", shutdown_grace_s=2),
        connection=ConnectionConfig(port=port),
        admin=AdminConfig(port=admin_port),
        storage=StorageConfig(data_dir=data_dir),
        engine=EngineConfig(stats_collect_interval_s=15),
        # Without a pipeline nobody reads the segments of a demo.
        journal=JournalConfig(
            heartbeat_interval_s=1, export=ExportConfig(enabled=pipeline, interval_s=5)
        ),
        pipeline=PipelineConfig(metrics_port=0),
        hub=HubConfig(
            defaults=HubSettings(
                default_public=True,
                jwt=JwtSettings(algorithm=_ALGORITHM, secret=jwt_secret),
            ),
            default_rules=Rules(client_publish=True, store=When.ALL, presence=True),
        ),
        debug=DebugConfig(level="error", format="console"),
    )


def shop_token(name: str, jwt_secret: str, now_ms: int) -> str:
    """What a shop shows to be known by its name."""
    now_s = now_ms // 1000
    claims: dict[str, Any] = {"sub": name, "aud": HUB, "iat": now_s, "exp": now_s + _TOKEN_LIFE_S}
    return jwt.encode(claims, jwt_secret, algorithm=_ALGORITHM)
