"""Opens the database for short commands."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from warren.errors import CommandError
from warren.scheduler.problems import lookup_problem
from warren.settings.settings import Settings
from warren.sql.clock import database_now_ms
from warren.sql.dialects.dialect import is_schema_fault
from warren.sql.engine import Database
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_names
from warren.sql.registry import apps
from warren.sql.schema import version

#: The most jobs with which an unknown name is compared.
COMPARED = 20_000


@contextmanager
def open_database(settings: Settings, *, for_writing: bool = False) -> Iterator[Database]:
    """Yield the database of the settings, and close it at the end.

    The schema is checked in full only before writing. When reading, it is checked only after an
    error about a missing table or column: the check costs as much as the rest of a short command.
    """
    database = Database(settings.needed_database_url(), pool_size=2)
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


def nearest_name(
    database: Database, error: NotFound, app_ids: Collection[int] | None = None
) -> str:
    """Return the job or app that was probably meant; empty if none has a similar name.

    Those of other apps than `app_ids` are not named; None = all apps are.
    """
    said = str(error.facts.get("name", ""))
    if error.code is LookupFailure.NO_APP_NAMED:
        known = list(database.read(lambda session: apps.ids_by_name(session, app_ids)))
    elif error.code is LookupFailure.NO_JOB_NAMED:
        names = database.read(lambda session: job_names.some(session, app_ids, limit=COMPARED))
        known = [f"{app}/{name}" if "/" in said else name for app, name in names]
    else:
        return ""
    if said in known:  # in another app than the one that was asked for
        return ""
    return next(iter(get_close_matches(said, known, 1)), "")


def now_ms(database: Database) -> int:
    """Return the database's clock in epoch milliseconds."""
    return database.read(database_now_ms)
