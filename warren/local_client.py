"""What the commands of this program act through: its database, on behalf of its user."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from warren.database_access import now_ms, open_database
from warren.scheduler.actor import MAX_NAME_LENGTH, Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.names import Resolver
from warren.settings.settings import Settings
from warren.sql.engine import Database


@dataclass(frozen=True, slots=True)
class LocalClient:
    """What a short command needs: the database, all commands, and a resolver of names."""

    database: Database
    commands: Commands
    ids: Resolver


@contextmanager
def open_client(settings: Settings) -> Iterator[LocalClient]:
    """Yield a client that may write, and acts on behalf of the user who runs the command."""
    with open_database(settings, for_writing=True) as database:
        yield client_on(database, settings)


def client_on(database: Database, settings: Settings) -> LocalClient:
    return LocalClient(database, Commands(context_on(database, settings)), Resolver(database))


def context_on(database: Database, settings: Settings) -> CommandContext:
    """Return the context of commands: the user who runs this program, with every right."""
    return CommandContext(
        database=database,
        now_ms=lambda: now_ms(database),
        actor=Actor(who=operator()),
        timezone=settings.timezone,
    )


def operator() -> str:
    """Return who runs this program, for the audit log: `cli:<user>@<host>`."""
    user = str(os.getuid())
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"cli:{user}@{socket.gethostname()}"[:MAX_NAME_LENGTH]
