"""Names in the configuration → the parts they stand for. A new part is a class and a line here."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from arauto.clock import Clock
from arauto.config.addresses import postgres_url
from arauto.config.backends import RedisConfig
from arauto.config.schema import Config
from arauto.errors import ArautoError, Code
from arauto.features import history, occupancy, presence, retain, store
from arauto.features.document.channel import DocumentChannel
from arauto.features.unavailable import UnavailableChannel
from arauto.hub.channel import Channel
from arauto.hub.hooks import FeatureSpec
from arauto.hub.hub import Hub
from arauto.storage.base import KeyValueStore, Storage

__all__ = ["CHANNEL_TYPES", "FEATURES", "open_storage"]

#: In the order their hooks run: retained messages come before who is present.
FEATURES: tuple[FeatureSpec, ...] = (
    store.SPEC,
    history.SPEC,
    retain.SPEC,
    presence.SPEC,
    occupancy.SPEC,
)

CHANNEL_TYPES: dict[str, Callable[[Hub, str], Channel]] = {
    "doc": DocumentChannel,
    "notification": UnavailableChannel,
}


async def open_storage(config: Config, clock: Clock) -> Storage:
    """The storage the configuration names.

    Raises:
        StorageError: it cannot be opened.
    """
    storage = await _STORAGES[config.storage.kind](config, clock)
    try:
        return await _KEY_VALUES[config.key_value.kind](config, clock, storage)
    except BaseException:
        await storage.close()
        raise


async def _open_memory(config: Config, clock: Clock) -> Storage:
    from arauto.storage.memory import open_memory

    return open_memory(clock)


async def _open_sqlite(config: Config, clock: Clock) -> Storage:
    from arauto.storage.sqlite.opening import open_sqlite

    return await open_sqlite(Path(config.storage.data_dir), config.node.name, clock)


async def _open_postgres(config: Config, clock: Clock) -> Storage:
    with _extra("postgres"):
        from arauto.storage.postgres.opening import open_postgres

    readers_max = max(1, config.sql.max_connections - 1)
    url = postgres_url(config.storage.postgres)
    return await open_postgres(url, config.node.name, clock, readers_max=readers_max)


_STORAGES: dict[str, Callable[[Config, Clock], Awaitable[Storage]]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "postgres": _open_postgres,
}


async def _same_store(config: Config, clock: Clock, storage: Storage) -> Storage:
    return storage


async def _memory_values(config: Config, clock: Clock, storage: Storage) -> Storage:
    from arauto.storage.memory import MemoryKeyValueStore

    return _with_values(storage, MemoryKeyValueStore(clock))


async def _redis_values(config: Config, clock: Clock, storage: Storage) -> Storage:
    with _extra("redis"):
        from arauto.storage.redis import open_redis

    values = await open_redis(_redis_url(config.redis), counters=storage.counters)
    return _with_values(storage, values)


def _redis_url(redis: RedisConfig) -> str:
    parts = urlsplit(redis.address)
    login = quote(redis.username, safe="")
    if redis.password:
        login += ":" + quote(redis.password, safe="")
    netloc = f"{login}@{parts.netloc}" if login else parts.netloc
    if parts.scheme == "unix":
        return urlunsplit((parts.scheme, netloc, parts.path, f"db={redis.db}", ""))
    return urlunsplit((parts.scheme, netloc, f"/{redis.db}", "", ""))


_KEY_VALUES: dict[str, Callable[[Config, Clock, Storage], Awaitable[Storage]]] = {
    "storage": _same_store,
    "memory": _memory_values,
    "redis": _redis_values,
}


def _with_values(storage: Storage, kv: KeyValueStore) -> Storage:
    async def close() -> None:
        await kv.close()
        await storage.close()

    return replace(storage, kv=kv, close=close)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Say which optional part has to be installed, instead of which module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ArautoError(
            Code.BAD_CONFIG, f"this needs an optional part: pip install 'arauto[{name}]'"
        ) from error
