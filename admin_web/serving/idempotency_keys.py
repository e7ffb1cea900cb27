"""Deletes idempotency keys when their time is over; consoles and API processes both store some."""

from warren.scheduler.commands.runs import KEY_MS
from warren.sql.accounts import idempotency
from warren.sql.engine import Database


def delete_expired(database: Database, now_ms: int) -> None:
    """Delete them in short transactions."""
    before_ms = now_ms - KEY_MS
    while database.write(lambda session: idempotency.clean(session, before_ms=before_ms)):
        pass
