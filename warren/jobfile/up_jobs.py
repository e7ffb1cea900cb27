"""The job file of `warren up`: checked before anything is created, applied once executors run."""

import time
from dataclasses import replace
from pathlib import Path

from sqlalchemy.orm import Session

from warren.actions.local_client import client_on
from warren.errors import CommandError
from warren.jobfile.apply import apply, print_changes, warnings_about
from warren.jobfile.reader import JobFile, read_job_file
from warren.route_plugins import route_names
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.job_files.file_changes import Change
from warren.settings.settings import Settings
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.engine import Database
from warren.sql.jobs import jobs
from warren.sql.registry import apps
from warren.views.terminal import visible

#: The app if neither the job file nor the database has one.
DEFAULT_APP = "default"


class UpJobs:
    """The jobs of a job file, if there is one.

    Args:
        file: a job file to apply at each start.
        seed: one to apply only if no job was ever created.

    Raises:
        CommandError: both are given, or the file is invalid.

    """

    def __init__(self, *, file: Path | None, seed: Path | None) -> None:
        if file and seed:
            raise CommandError("expected one of --apply and --seed, got both")
        self._path = file or seed
        self._is_seed = seed is not None
        self._wanted = _read(self._path) if self._path else None
        self._changes: list[Change] = []

    def app(self, database: Database) -> str:
        """Return the first app of the file, else of the database."""
        if self._wanted and self._wanted.apps:
            return self._wanted.apps[0].name
        if self._wanted and self._wanted.specs:
            return self._wanted.specs[0].app
        known = database.read(apps.ids_by_name)
        return min(known, key=lambda name: known[name], default=DEFAULT_APP)

    def prepare(self, settings: Settings, database: Database) -> None:
        """Check that the file can be applied as a whole, and create its apps.

        Executors of unknown apps are refused, so apps come first.

        Raises:
            JobFileError: it cannot be applied; nothing was changed.
            ValueError: the same.

        """
        if self._is_seed and not database.read(_is_untouched):
            print(visible(f"{self._path} is applied at the first start only; skipped"))
            self._wanted = None
        if self._wanted is None:
            return
        _apply(settings, database, self._wanted, dry_run=True)
        self._changes = _apply(settings, database, replace(self._wanted, specs=()))

    def apply(self, settings: Settings, database: Database) -> None:
        """Apply the file and print its changes."""
        if self._wanted is None:
            return
        self._changes += _apply(settings, database, self._wanted)
        warnings = warnings_about(database, self._wanted, self._changes)
        print_changes(self._changes, warnings, dry_run=False, as_json=False)


def _read(path: Path) -> JobFile:
    return read_job_file(path, now_ms=time.time_ns() // 1_000_000, added_routes=route_names())


def _is_untouched(session: Session) -> bool:
    made = audit_log.listing(session, AuditFilter(action=Action.JOB_CREATE, limit=1))
    return not made and not jobs.is_any(session)


def _apply(
    settings: Settings, database: Database, wanted: JobFile, *, dry_run: bool = False
) -> list[Change]:
    return apply(client_on(database, settings), wanted, dry_run=dry_run, prune=False)
