"""PostgreSQL storage: shared by all nodes of a cluster, one journal partition and one writer per node."""

from arauto.storage.postgres.opening import open_postgres

__all__ = ["open_postgres"]
