"""Runs migrations on the connection that `sql.schema` hands over, or writes them as SQL."""

from alembic import context

from sql.models import Model

connection = context.config.attributes.get("connection")

if connection is None:
    context.configure(
        url=context.config.get_main_option("sqlalchemy.url"),
        target_metadata=Model.metadata,
        literal_binds=True,
    )
    context.run_migrations()
else:
    # The caller's transaction is the migration's; Alembic must not commit it.
    context.configure(connection=connection, target_metadata=Model.metadata)
    context.run_migrations()
