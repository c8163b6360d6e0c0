"""Alembic migrations, run by `arauto.storage.migrate`."""
