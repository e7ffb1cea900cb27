"""Runs migrations on the connection of `warren.sql.schema.migration`, or writes them as SQL."""

from alembic import context

from warren.sql.dialects.supported import named
from warren.sql.models import Model

connection = context.config.attributes.get("connection")

if connection is None:
    context.configure(
        url=context.config.attributes["url"],
        target_metadata=Model.metadata,
        literal_binds=True,
    )
else:
    # The caller's transaction is the migration's; Alembic must not commit it.
    context.configure(connection=connection, target_metadata=Model.metadata)
context.run_migrations()
for statement in named(context.get_context().dialect.name).after_upgrade:
    context.execute(statement)
