"""Opens the database for short commands, and reads from it what several parts ask."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from warren.broker import topology
from warren.broker.transport import Queue
from warren.errors import CommandError
from warren.scheduler.names import nearest_name
from warren.scheduler.problems import lookup_problem
from warren.settings.settings import Settings
from warren.sql.clock import database_now_ms
from warren.sql.dialects.dialect import is_schema_fault
from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.sql.models import Registration
from warren.sql.registry import presence
from warren.sql.schema import version


@contextmanager
def open_database(settings: Settings, *, for_writing: bool = False) -> Iterator[Database]:
    """Yield the database of the settings, and close it at the end.

    The schema is checked in full only before writing. When reading, it is checked only after an
    error about a missing table or column: the check costs as much as the rest of a short command.
    """
    database = Database(settings.needed_database_url(), pool_size=2, for_writing=for_writing)
    try:
        if for_writing:
            version.check(database)
        yield database
    except NotFound as error:
        if near := nearest_name(database, error):
            raise CommandError(f"{lookup_problem(error)}, did you mean {near!r}?") from error
        raise
    except Exception as error:
        if is_schema_fault(error, database.dialect):
            version.check(database)
        raise
    finally:
        database.close()


def now_ms(database: Database) -> int:
    """Return the database's clock in epoch milliseconds."""
    return database.read(database_now_ms)


def durable_queues(database: Database) -> list[Queue]:
    """Return the queues that outlive processes: of reports, and of the runs of each executor."""
    rows, gone = database.read(
        lambda session: (presence.listing(session, presence.EXECUTOR), presence.read(session))
    )
    places = {(row.app, row.address) for row in rows} | set(gone)
    runs = [topology.run_queue(app, address) for app, address in sorted(places)]
    return [topology.callback_queue(), *runs]


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
