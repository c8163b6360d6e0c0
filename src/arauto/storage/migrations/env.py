"""Runs inside Alembic, on the connection that `arauto.storage.migrate` passes in."""

from alembic import context

from arauto.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
