"""Stored values and the checksums beside them."""

from arauto.errors import Code, StorageError
from arauto.storage.sql.rows import Row, checksum

__all__ = ["checked"]


def checked(row: Row, table: str, *key: str | int) -> bytes:
    """Return the value of a row that starts with (value, crc), if it is what was stored under this key.

    Raises:
        StorageError: STORAGE_CORRUPT.
    """
    value: bytes = row[0]
    if checksum(table, *key, value) != row[1]:
        raise StorageError(Code.STORAGE_CORRUPT, f"a stored {table} value is damaged")
    return value
