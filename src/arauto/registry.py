"""Names in the configuration → the parts they stand for. A new part is a class and a line here."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from arauto.clock import Clock
from arauto.config.schema import Config
from arauto.features import history, occupancy, presence, retain, store
from arauto.features.document.channel import DocumentChannel
from arauto.features.unavailable import UnavailableChannel
from arauto.hub.channel import Channel
from arauto.hub.hooks import FeatureSpec
from arauto.hub.hub import Hub
from arauto.storage.base import Storage

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
    return await _KEY_VALUES[config.key_value.kind](config, clock, storage)


async def _open_memory(config: Config, clock: Clock) -> Storage:
    from arauto.storage.memory import open_memory

    return open_memory(clock)


async def _open_sqlite(config: Config, clock: Clock) -> Storage:
    from arauto.storage.sqlite.opening import open_sqlite

    return await open_sqlite(Path(config.storage.data_dir), config.node.name, clock)


_STORAGES: dict[str, Callable[[Config, Clock], Awaitable[Storage]]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
}


async def _same_store(config: Config, clock: Clock, storage: Storage) -> Storage:
    return storage


_KEY_VALUES: dict[str, Callable[[Config, Clock, Storage], Awaitable[Storage]]] = {
    "storage": _same_store,
}
