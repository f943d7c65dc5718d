"""Run by alembic. The connection comes with its transaction: all migrations land together or none does."""

from __future__ import annotations

from alembic import context

from twice.ledgers.database.effect_tables import whole_schema
from twice.ledgers.database.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=whole_schema(),
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
