"""Applies job files and jobs that are declared in code, and puts each change into words.

The jobs of `warren up` are those of its job file and those that its handlers declare: they are
checked before anything is created, and applied once executors run.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy.orm import Session

from warren.errors import CommandError, JobFileError
from warren.jobfile.declared import declared_in
from warren.jobfile.reader import JobFile, read_job_files
from warren.jobfile.sources import NO_VALUES, GivenValues, Source, read_sources
from warren.local_client import context_on
from warren.route_plugins import route_names
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.commands.job_files import JobFileCommands
from warren.scheduler.jobs.places import BY_FILE, Origin, module_of
from warren.scheduler.jobs.rules import check_new_app_name
from warren.scheduler.problems import Refused
from warren.scheduler.views.job_view import applied_view
from warren.scheduler.views.job_warnings import file_warnings
from warren.settings.settings import Settings
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.jobs import job_rows
from warren.sql.registry import apps
from warren.terminal.changes import print_applied
from warren.terminal.output import visible

#: The app if neither the job file nor the handlers nor the database have one.
DEFAULT_APP = "default"
#: A job that moves from code to a file, or back, moves at the next start.
_OF_FILE = Origin(take_over=True)


def apply(
    context: CommandContext,
    file: JobFile,
    *,
    dry_run: bool,
    prune: bool,
    origin: Origin = BY_FILE,
) -> list[Change]:
    """Apply job files that have been read; return every change.

    Raises:
        JobFileError: a job's app is neither in the file nor in the database, it is declared
            elsewhere, it cannot have its children or param, or it is to be started and can never
            fire.

    """
    hint = "; first: warren apps add NAME" if module_of(origin.place) else "; name it under 'apps'"
    app_ids = context.actor.app_ids
    known = context.database.read(lambda session: apps.ids_by_name(session, app_ids))
    file.check_apps(known, hint=hint)
    try:
        return JobFileCommands(context).apply(
            file.apps,
            file.specs,
            dry_run=dry_run,
            prune=prune,
            origin=origin,
            limits=file.limits,
            calendars=file.calendars,
        )
    except Refused as refused:
        if not refused.problems[0].field.startswith(("jobs/", "limits/")):
            raise
        raise file.refused(refused.problems) from refused


def warnings_about(
    database: Database, file: JobFile, changes: Sequence[Change]
) -> list[tuple[str, str]]:
    """Return warnings about the jobs of a file: pairs of APP/NAME and a sentence."""
    changed = {change.name for change in changes if change.action is not ChangeAction.UNCHANGED}
    return database.read(
        lambda session: file_warnings(session, file.specs, changed, database_now_ms(session))
    )


class UpJobs:
    """The jobs of a job file, if there is one, and those that handlers declare.

    Args:
        file: a job file to apply at each start.
        seed: one to apply only if no job was ever created.
        values: those of `${NAME}` in it.
        sources: the modules and files of the handlers.

    Raises:
        CommandError: both files are given, or one is invalid.
        HandlersError: the handlers cannot be imported.

    """

    def __init__(
        self,
        *,
        file: Path | None,
        seed: Path | None,
        values: GivenValues,
        sources: Sequence[str],
    ) -> None:
        if file and seed:
            raise CommandError("expected one of --apply and --seed, got both")
        self._path = file or seed
        self._is_seed = seed is not None
        self._wanted = _read(read_sources([self._path]), values) if self._path else None
        self._declared = declared_in(sources) if sources else None
        #: What is to be applied, each with where it is declared.
        self._parts: list[tuple[JobFile, Origin]] = []
        self._changes: list[Change] = []

    def app(self, database: Database) -> str:
        """Return the first app of the file, else of the declared jobs, else of the database."""
        if self._wanted and self._wanted.apps:
            return self._wanted.apps[0].name
        if self._wanted and self._wanted.specs:
            return self._wanted.specs[0].app
        declared = self._declared.jobs if self._declared else ()
        if named := [str(each.job["app"]) for each in declared if each.job.get("app")]:
            return named[0]
        known = database.read(apps.ids_by_name)
        return min(known, key=lambda name: known[name], default=DEFAULT_APP)

    def prepare(self, settings: Settings, database: Database, app: str) -> None:
        """Check that everything can be applied as a whole, and create the apps.

        `app` is that of declared jobs that name none. Executors of unknown apps are refused, so
        apps come first.

        Raises:
            JobFileError: something cannot be applied; nothing was changed.
            ValueError: the same.

        """
        if self._is_seed and not database.read(_is_untouched):
            print(visible(f"{self._path} is applied at the first start only; skipped"))
            self._wanted = None
        names = [app]
        if self._wanted is not None:
            self._parts.append((self._wanted, _OF_FILE))
        if self._declared and self._declared.jobs:
            declared = replace(self._declared, app=app)
            in_code = _read([declared.job_file()])
            self._refuse_both(in_code)
            self._parts.append((in_code, declared.origin(take_over=True)))
            names += in_code.app_lines
        if self._wanted is not None:
            _apply(settings, database, self._wanted, _OF_FILE, dry_run=True)
            self._changes = _apply(settings, database, replace(self._wanted, specs=()), _OF_FILE)
        known = database.read(apps.ids_by_name)
        for name in names:
            if name not in known:
                check_new_app_name(name)
        database.write(lambda session: [apps.ensure(session, name) for name in names])

    def apply(self, settings: Settings, database: Database) -> None:
        """Apply the file and the declared jobs, and print the changes."""
        if not self._parts:
            return
        # Apps, calendars and limits of the file were applied before; they are not reported twice.
        told = {(change.what, change.name) for change in self._changes}
        for file, origin in self._parts:
            applied = _apply(settings, database, file, origin)
            self._changes += [each for each in applied if (each.what, each.name) not in told]
        warnings = [
            warning
            for file, _origin in self._parts
            for warning in warnings_about(database, file, self._changes)
        ]
        over = [line for file, _origin in self._parts for line in file.over_lines()]
        print_applied(applied_view(self._changes, warnings, over=over))

    def _refuse_both(self, in_code: JobFile) -> None:
        """Raise JobFileError if the job file has jobs that are declared in code too."""
        in_file = {(spec.app, spec.name) for spec in self._wanted.specs} if self._wanted else set()
        both = [
            f"{in_code.at(lines['name'])}: job {spec.app}/{spec.name} is in {self._path} too; "
            "declare it in one place"
            for spec, lines in zip(in_code.specs, in_code.job_lines, strict=True)
            if (spec.app, spec.name) in in_file
        ]
        if both:
            raise JobFileError(both)


def _read(sources: Sequence[Source], values: GivenValues = NO_VALUES) -> JobFile:
    now_ms = time.time_ns() // 1_000_000
    return read_job_files(sources, values, now_ms=now_ms, added_routes=route_names())


def _is_untouched(session: Session) -> bool:
    made = audit_log.listing(session, AuditFilter(action=Action.JOB_CREATE, limit=1))
    return not made and not job_rows.is_any(session)


def _apply(
    settings: Settings,
    database: Database,
    wanted: JobFile,
    origin: Origin,
    *,
    dry_run: bool = False,
) -> list[Change]:
    context = context_on(database, settings)
    return apply(context, wanted, dry_run=dry_run, prune=False, origin=origin)
