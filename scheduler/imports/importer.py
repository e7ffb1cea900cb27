"""Runs an import from beginning to end, in an order in which it may stop after any part.

First the run ids are raised, so that no new run gets the id and the log of an imported one. Then
come apps and jobs, all stopped, then users and days. Last, the jobs that were started at the source
are started here, when their children exist.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.imports.decisions import Decider
from warren.scheduler.imports.import_outcomes import Outcome
from warren.scheduler.imports.items import ImportedRun, ImportItems
from warren.scheduler.imports.job_import import JobImport
from warren.scheduler.imports.past_runs import PastRunImport
from warren.scheduler.imports.take_over import TakeOver
from warren.scheduler.imports.user_import import StorePasswords, UserImport
from warren.sql.batch import chunks
from warren.sql.imports import origins, past_runs
from warren.sql.imports.origins import APP, JOB


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import.

    Attributes:
        source: the name of the source.
        overwrite: whether the source wins if an item was changed here.
        today: the present day in the source's time zone.
        store_passwords: stores the passwords of new users; None = new users are disabled.
        take_over: whether to start the jobs that are started at the source.

    """

    source: str
    overwrite: bool
    today: date
    store_passwords: StorePasswords | None = None
    take_over: bool = False


class Importer:
    """Imports on behalf of one actor."""

    def __init__(self, context: CommandContext, options: ImportOptions) -> None:
        self._context = context
        self._options = options
        self._users = UserImport(context, options.source, overwrite=options.overwrite)
        self._past = PastRunImport(context)
        self._take_over = TakeOver(context, options.source)

    def preview(self, items: ImportItems) -> list[Outcome]:
        """Return what `write` would do, without writing anything."""
        return [
            *self._jobs(items).preview(items),
            *self._users.preview(items.users),
            *self._past.days(items.days, today=self._options.today, is_preview=True),
            *(self._take_over.preview(items) if self._options.take_over else ()),
        ]

    def write(self, items: ImportItems) -> list[Outcome]:
        """Import everything except runs; return what was done.

        Raises:
            ValueError: the last import brought an app with the same id but another name.

        """
        jobs = self._jobs(items)
        jobs.check(items)  # before anything is written
        self._past.raise_run_ids(items.highest_run_id)
        outcomes: Sequence[Outcome] = jobs.write(items)
        return [
            *outcomes,
            *self._users.write(items.users, self.targets(APP), self._options.store_passwords),
            *self._past.days(items.days, today=self._options.today, is_preview=False),
            *(self._take_over.write(items) if self._options.take_over else ()),
        ]

    def preview_runs(self, items: Iterable[ImportedRun]) -> tuple[int, int]:
        """Return how many of these runs are not here yet, and how many of their ids are."""
        new = taken = 0
        for chunk in chunks(items):
            ids = [one.source_id for one in chunk]
            known = self._context.database.read(partial(past_runs.known_run_ids, run_ids=ids))
            new += len(ids) - len(known)
            taken += len(known)
        return new, taken

    def write_runs(self, items: Iterable[ImportedRun]) -> tuple[int, int]:
        """Import the runs of imported jobs, and skip those of others.

        Returns how many were added, and how many were not because their ids were taken.
        """
        job_ids = self.targets(JOB)
        jobs = self._context.database.read(lambda session: origins.jobs(session, job_ids.values()))
        app_ids = {
            source_id: jobs[job_id].app_id
            for source_id, job_id in job_ids.items()
            if job_id in jobs
        }
        known = (one for one in items if one.job_id in app_ids)
        return self._past.runs(known, job_ids, app_ids)

    def targets(self, kind: str) -> dict[int, int]:
        """Return the ids here of everything imported so far, by the source's ids."""
        known = self._context.database.read(
            lambda session: origins.read(session, self._options.source, kind)
        )
        return {source_id: origin.target_id for source_id, origin in known.items()}

    def _jobs(self, items: ImportItems) -> JobImport:
        decider = self._context.database.read(
            lambda session: Decider.make(
                session, items, source=self._options.source, overwrite=self._options.overwrite
            )
        )
        return JobImport(self._context, decider)
