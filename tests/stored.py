"""What a key-value store holds, for tests that look."""

from arauto.storage.base import KeyValueStore

__all__ = ["stored"]


async def stored(
    kv: KeyValueStore, hub: str, prefix: str = "", limit: int = 100
) -> list[tuple[str, bytes | None]]:
    """All pages of a scan in one list."""
    return [pair async for page in kv.scan(hub, prefix, limit) for pair in page]
