"""The embedded storage: one SQLite file in the data directory, one writer thread, a few readers."""

from arauto.storage.sqlite.opening import DATABASE_NAME, open_sqlite

__all__ = ["DATABASE_NAME", "open_sqlite"]
