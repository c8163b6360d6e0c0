"""The servers a node can keep its data in."""

from tests.services.fixtures import postgres_server, redis_server

__all__ = ["postgres_server", "redis_server"]
