"""Does errands on this installation's database, in the name of the user who runs the command."""

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warren.database_access import open_database
from warren.errands.desk import Desk, do
from warren.errands.table import ERRANDS, READ
from warren.local_client import context_on
from warren.settings.settings import Settings
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.terminal.output import Output

#: Errands about files alone.
_WITHOUT_DATABASE = {"jobs.check"}


class DatabaseSender:
    """Opens the database for the first errand, and again for the first that writes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = ExitStack()
        self._opened: dict[bool, Database] = {}

    def __enter__(self) -> Self:
        """Return the sender; the database is closed at the end of the block."""
        self._held.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close the database."""
        return self._held.__exit__(kind, error, trace)

    def send(self, name: str, /, **options: Any) -> Output:
        """Do an errand and return its output."""
        if name in _WITHOUT_DATABASE:
            database = Database(file_url(Path(os.devnull)))  # it is never opened
            self._held.callback(database.close)
        else:
            database = self._database(for_writing=ERRANDS[name].scope != READ)
        context = context_on(database, self._settings)
        desk = Desk(context=context, zone=self._settings.zone)
        return do(desk, name, options)

    def _database(self, *, for_writing: bool) -> Database:
        if True in self._opened:  # what may be written may be read
            return self._opened[True]
        if for_writing not in self._opened:
            opened = open_database(self._settings, for_writing=for_writing)
            self._opened[for_writing] = self._held.enter_context(opened)
        return self._opened[for_writing]
