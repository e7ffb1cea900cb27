"""Executors and schedulers as the registry has them."""

from collections.abc import Sequence

from warren.scheduler.views.process_view import node_view
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.models import Registration
from warren.sql.registry import presence


def registrations(
    database: Database, kind: str, app: str | None = None
) -> tuple[Sequence[Registration], int]:
    """Return the registrations of a kind, and the database's clock in epoch milliseconds.

    Of kind ADMIN these are the schedulers, unless another `app` is given.
    """
    if kind == presence.ADMIN and app is None:
        app = presence.SCHEDULER
    return database.read(
        lambda session: (presence.listing(session, kind, app), database_now_ms(session))
    )


def is_scheduler_alive(database: Database) -> bool:
    rows, now_ms = registrations(database, presence.ADMIN)
    return any(node_view(row, now_ms).is_online for row in rows)
