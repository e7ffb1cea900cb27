"""How a short command changes jobs and runs: through the scheduler's commands, in a user's name."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from scheduler.commands import Commands
from sql.engine import Database
from warren.access import now_ms, open_database
from warren.settings import Settings


@contextmanager
def open_commands(settings: Settings) -> Iterator[tuple[Commands, Database]]:
    """Give what changes jobs and runs, and the database that it works on."""
    with open_database(settings, for_writing=True) as database:
        yield (
            Commands(
                database,
                lambda: now_ms(database),
                timezone=settings.timezone,
                who=operator(),
            ),
            database,
        )


def operator() -> str:
    """Return who is at work here, for the record of changes: `cli:<user>@<host>`."""
    user = str(os.getuid())
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"cli:{user}@{socket.gethostname()}"[:64]
