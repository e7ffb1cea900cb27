"""Runs an import from beginning to end, in an order in which it may stop after any part.

First the run ids are raised, so that no new run gets the id and the log of an imported one. Then
come apps and jobs, all stopped, then users, days and past runs, which keep their ids. Last, the
jobs that were started at the source are started here, when their children exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.imports.decisions import Decider
from warren.scheduler.imports.items import (
    ImportAction,
    ImportedDay,
    ImportedRun,
    ImportItems,
    Outcome,
)
from warren.scheduler.imports.job_import import JobImport
from warren.scheduler.imports.take_over import GiveBack, TakeOver
from warren.scheduler.imports.user_import import StorePasswords, UserImport
from warren.sql.batch import chunks
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB
from warren.sql.instants import at
from warren.sql.run_status import Kind

DAY = "day"
#: Run ids that are skipped, so that no executor writes into the log of an imported run.
GAP = 1_000_000


@dataclass(slots=True)
class RunCounts:
    """How many runs were added, exist already, or were left out because their id is taken."""

    added: int = 0
    known: int = 0
    taken: int = 0

    def note(self, items: Sequence[ImportedRun], known: Mapping[int, int]) -> None:
        """Count runs; `known` are the ids that exist here, with the due times of their runs."""
        for run in items:
            due_ms = known.get(run.source_id)
            self.added += due_ms is None
            self.known += due_ms == run.triggered_ms
            self.taken += due_ms not in (None, run.triggered_ms)


class PastRunImport:
    """Imports days and runs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def raise_run_ids(self, highest: int) -> None:
        """Make new runs get ids far above `highest`, the highest id of the source."""
        self._context.write(
            Right.ADMINISTER, lambda session: origins.raise_run_ids(session, highest + GAP)
        )

    def days(self, items: Sequence[ImportedDay], *, today: date, is_preview: bool) -> list[Outcome]:
        """Import the past days for which no run is counted here; return what was done."""

        def unit(session: Session) -> list[Outcome]:
            counted = origins.counted_days(session, [run.day for run in items])
            kept = [_why_kept(run, counted.get(run.day), today) for run in items]
            if not is_preview:
                new = [run for run, why in zip(items, kept, strict=True) if not why]
                counts = {run.day: (run.succeeded, run.failed) for run in new}
                origins.add_days(session, counts, at=at(self._context.now_ms()))
            return [_day_outcome(run, why) for run, why in zip(items, kept, strict=True)]

        if is_preview:
            return self._context.database.read(unit)
        return self._context.write(Right.ADMINISTER, unit)

    def runs(
        self, items: Iterable[ImportedRun], job_ids: Mapping[int, int], app_ids: Mapping[int, int]
    ) -> RunCounts:
        """Import runs whose ids are free; return how many were added or left out.

        `job_ids` and `app_ids` map the source's job ids to the local ids of the job and its app.
        """
        counts = RunCounts()
        free = self._context.database.read(origins.jumped_run_ids)
        for chunk in chunks(items):
            rows = [
                _row(run, job_ids[run.job_id], app_ids[run.job_id])
                for run in chunk
                if any(run.source_id in ids for ids in free)
            ]

            def unit(session: Session, rows: list[dict[str, object]] = rows) -> dict[int, int]:
                known = origins.known_runs(session, [int(str(row["id"])) for row in rows])
                origins.add_runs(session, [row for row in rows if row["id"] not in known])
                return known

            known = self._context.write(Right.ADMINISTER, unit)
            counts.note(chunk, known)
            counts.added -= len(chunk) - len(rows)
            counts.taken += len(chunk) - len(rows)
        return counts


def _row(item: ImportedRun, job_id: int, app_id: int) -> dict[str, object]:
    """Return the row of a run.

    Every run gets the kind MANUAL and is its own origin, because the source has the cause only as
    text.
    """
    return {
        "id": item.source_id,
        "app_id": app_id,
        "job_id": job_id,
        "address": item.address or None,
        "handler": item.handler,
        "param": item.param,
        "sharding": item.sharding or None,
        "retries_left": 0,
        "due_second": at(item.triggered_ms),
        "trigger_code": item.codes[0],
        "trigger_message": item.trigger_message,
        "finished_second": at(item.finished_ms),
        "handle_code": item.codes[1],
        "message": item.message,
        "alarm_status": 0,
        "status": item.status.value,
        "kind": Kind.MANUAL.value,
        "scheduled_at": item.triggered_ms,
        "due_at": item.triggered_ms,
        "origin_id": item.source_id,
        "shard_index": 0,
        "shard_total": 1,
        "attempt": 0,
        "starts": 0,
        "redeliveries": 0,
        "started_at": item.triggered_ms,
        "finished_at": item.finished_ms,
    }


def _why_kept(item: ImportedDay, counted: int | None, today: date) -> str:
    """Return why a day's report stays as it is; empty if it is to be stored.

    `counted` is the number of runs in the report here; None = there is none.
    """
    if item.day >= today:
        return "it is not over"
    if counted is None or (counted == 0 and item.succeeded + item.failed):
        return ""
    return "it has a report here"


def _day_outcome(item: ImportedDay, why_not: str) -> Outcome:
    return Outcome(
        action=ImportAction.UNCHANGED if why_not else ImportAction.CREATE,
        what=DAY,
        source_id=item.source_id,
        target_id=0,
        name=item.day.isoformat(),
        words=why_not,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import.

    Attributes:
        source: the name of the source.
        overwrite: whether the source wins if an item was changed here.
        today: the current day in the source's time zone.
        store_passwords: stores the passwords of new users; None = new users are disabled.
        take_over: whether to start the jobs that are started at the source.
        again: whether to start even those that were started here before.

    """

    source: str
    overwrite: bool
    today: date
    store_passwords: StorePasswords | None = None
    take_over: bool = False
    again: bool = False


class Importer:
    """Imports on behalf of one actor."""

    def __init__(self, context: CommandContext, options: ImportOptions) -> None:
        self._context = context
        self._options = options
        self._users = UserImport(context, options.source, overwrite=options.overwrite)
        self._past = PastRunImport(context)
        self._take_over = TakeOver(context, options.source, again=options.again)

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

    def give_back(self, *, is_preview: bool) -> list[Outcome]:
        """Stop all imported jobs here, so that the source can run them again; return them."""
        return GiveBack(self._context, self._options.source).stop(is_preview=is_preview)

    def preview_runs(self, items: Iterable[ImportedRun]) -> RunCounts:
        """Return how many of these runs would be added or left out."""
        counts = RunCounts()
        for chunk in chunks(items):
            ids = [run.source_id for run in chunk]
            known = self._context.database.read(partial(origins.known_runs, run_ids=ids))
            counts.note(chunk, known)
        return counts

    def write_runs(self, items: Iterable[ImportedRun]) -> RunCounts:
        """Import the runs of imported jobs, and skip those of others.

        Return how many were added or left out.
        """
        job_ids = self.targets(JOB)
        jobs = self._context.database.read(lambda session: origins.jobs(session, job_ids.values()))
        app_ids = {
            source_id: jobs[job_id].app_id
            for source_id, job_id in job_ids.items()
            if job_id in jobs
        }
        known = (run for run in items if run.job_id in app_ids)
        return self._past.runs(known, job_ids, app_ids)

    def targets(self, kind: str) -> dict[int, int]:
        """Return the local ids of everything imported so far, by the source's ids."""
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
