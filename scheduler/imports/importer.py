"""Runs an import from beginning to end, in an order in which it may stop after any part.

First the run ids are raised, so that no new run gets the id and the log of an imported one. Then
come apps and jobs, all stopped, then users, days and past runs, which keep their ids. Last, the
jobs that were started at the source are started here, when their children exist.

The source's next tick is the first undecided one. Ticks between it and now are misfires, and each
job's policy decides about them. `GiveBack` is the way back: it stops the jobs, so that the source
can run them again.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.account_commands import rights_record
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.passwords import hash_password
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.imports.items import (
    Decider,
    ImportAction,
    ImportedDay,
    ImportedJob,
    ImportedRun,
    ImportedUser,
    ImportItems,
    Outcome,
    decide_change,
    digest,
)
from warren.scheduler.imports.job_import import JobImport
from warren.scheduler.problems import Problem
from warren.sql.accounts import users
from warren.sql.accounts.users import Rights, Role
from warren.sql.batch import chunks
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB, USER, Origin
from warren.sql.instants import at
from warren.sql.jobs import job_rows
from warren.sql.models import App, Job, User
from warren.sql.run_status import Kind


class TakeOver:
    """Starts the jobs that are started at one source, in one transaction per app."""

    def __init__(self, context: CommandContext, source: str, *, again: bool = False) -> None:
        self._context = context
        self._source = source
        self._again = again
        self._schedules = ScheduleChanges(context)

    def preview(self, items: ImportItems) -> list[Outcome]:
        """Return which jobs `write` would start, including jobs that are not imported yet."""

        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in items.jobs])
            return [
                _outcome(job, known.get(job.source_id), self._why_not(session, job, known))
                for job in items.jobs
                if job.is_running
            ]

        return self._context.database.read(unit)

    def write(self, items: ImportItems) -> list[Outcome]:
        """Start the jobs that run at the source and are stopped here; return what was done."""
        by_app: dict[str, list[ImportedJob]] = defaultdict(list)
        for job in items.jobs:
            if job.is_running:
                by_app[job.spec.app].append(job)
        return [outcome for of_app in by_app.values() for outcome in self._start_app(of_app)]

    def _start_app(self, items: Sequence[ImportedJob]) -> list[Outcome]:
        def unit(session: Session) -> list[Outcome]:
            known = self._imported(session, [job.source_id for job in items])
            return [self._start(session, item, known) for item in items]

        return self._context.write(Right.ADMINISTER, unit)

    def _start(self, session: Session, item: ImportedJob, known: dict[int, Job]) -> Outcome:
        job = known.get(item.source_id)
        why_not = self._why_not(session, item, known)
        if job is None or why_not:
            return _outcome(item, job, why_not or "it is not here")
        job, now_ms = job_rows.lock(session, job.id), self._context.now_ms()
        decided_ms = job.last_tick_at if origins.started(session, [job.id]) else 0
        try:
            self._schedules.take_over(
                session, job, item.next_tick_ms, now_ms, decided_ms=decided_ms
            )
        except Problem as problem:
            return _outcome(item, job, str(problem))
        self._context.note_job(session, Action.JOB_START, job, now_ms)
        return _outcome(item, job, "")

    def _imported(self, session: Session, source_ids: Sequence[int]) -> dict[int, Job]:
        """Return the imported jobs that still exist, by their ids at the source."""
        known = origins.read(session, self._source, JOB)
        wanted = {source_id_: known[source_id_] for source_id_ in source_ids if source_id_ in known}
        stored = origins.jobs(session, [origin.target_id for origin in wanted.values()])
        return {
            source_id: stored[origin.target_id]
            for source_id, origin in wanted.items()
            if origin.target_id in stored
        }

    def _why_not(self, session: Session, item: ImportedJob, known: dict[int, Job]) -> str:
        job = known.get(item.source_id)
        stays = "; ".join(map(str, item.stop_reasons)) or (job.stop_reason if job else "")
        if stays:
            return f"it stays stopped: {stays}"
        if job is None:
            return ""
        if session.get_one(App, job.app_id).name != item.spec.app:
            return f"it is in app {item.spec.app} there, but not here"
        if job.is_enabled:
            return "it is already started here; if XXL-JOB ran it meanwhile, it ran in both"
        if not self._again and origins.started(session, [job.id]):
            return "it was started here before, and was stopped; --again starts it"
        return ""


def _outcome(item: ImportedJob, job: Job | None, why_not: str) -> Outcome:
    return Outcome(
        action=ImportAction.LEFT_OUT if why_not else ImportAction.START,
        what=JOB,
        source_id=item.source_id,
        target_id=job.id if job else item.source_id,
        name=f"{item.spec.app}/{job.name if job else item.spec.name}",
        words=why_not,
    )


class GiveBack:
    """Stops the jobs that came from one source, in one transaction each."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source
        self._schedules = ScheduleChanges(context)

    def stop(self, *, is_preview: bool) -> list[Outcome]:
        """Stop those that are started here; return them."""

        def started(session: Session) -> list[Outcome]:
            known = origins.read(session, self._source, JOB)
            stored = origins.jobs(session, [origin.target_id for origin in known.values()])
            return [
                _stopped(session, source_id, stored[origin.target_id])
                for source_id, origin in known.items()
                if origin.target_id in stored and stored[origin.target_id].is_enabled
            ]

        outcomes = self._context.database.read(started)
        return outcomes if is_preview else [self._stop(job) for job in outcomes]

    def _stop(self, outcome: Outcome) -> Outcome:
        def unit(session: Session) -> Outcome:
            job, now_ms = job_rows.lock(session, outcome.target_id), self._context.now_ms()
            if self._schedules.stop(session, job, now_ms):
                self._context.note_job(session, Action.JOB_STOP, job, now_ms)
            return outcome

        return self._context.write(Right.ADMINISTER, unit)


def _stopped(session: Session, source_id: int, job: Job) -> Outcome:
    return Outcome(
        action=ImportAction.STOP,
        what=JOB,
        source_id=source_id,
        target_id=job.id,
        name=f"{session.get_one(App, job.app_id).name}/{job.name}",
    )


PASSWORD_BYTES = 12

#: Stores the passwords of new users, by name, where the caller can read them; called before the
#: transaction that creates the users commits.
StorePasswords = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class _Step:
    action: ImportAction
    item: ImportedUser
    user: User | None
    words: str = ""

    @property
    def demotes_administrator(self) -> bool:
        """Whether this step would demote an active administrator."""
        return (
            self.action is ImportAction.UPDATE
            and self.user is not None
            and users.rights_of(self.user).role is Role.ADMINISTRATOR
            and users.may_sign_in(self.user)
            and self.item.role is not Role.ADMINISTRATOR
        )


class UserImport:
    """Imports the users of one source; users who existed here before are left unchanged."""

    def __init__(self, context: CommandContext, source: str, *, overwrite: bool) -> None:
        self._context = context
        self._source = source
        self._overwrite = overwrite

    def preview(self, items: Sequence[ImportedUser]) -> list[Outcome]:
        """Return what `write` would do, without writing anything."""
        return self._context.database.read(
            lambda session: [_user_outcome(step) for step in self._decide(session, items)]
        )

    def write(
        self,
        items: Sequence[ImportedUser],
        app_ids: Mapping[int, int],
        store_passwords: StorePasswords | None,
    ) -> list[Outcome]:
        """Import users; return what was done.

        `app_ids` are the ids here of the source's apps. With `store_passwords`, new users get
        passwords; without, they are disabled.
        """
        passwords = (
            {item.name: secrets.token_urlsafe(PASSWORD_BYTES) for item in items}
            if store_passwords
            else {}
        )
        hashes = {name: hash_password(password) for name, password in passwords.items()}
        # Disabled users get the hash of an unknown random password.
        unknown = "" if store_passwords else hash_password(secrets.token_urlsafe())

        def unit(session: Session) -> list[Outcome]:
            steps = self._decide(session, items)
            for step in steps:
                rights = Rights(
                    role=step.item.role,
                    app_ids=tuple(
                        sorted(
                            {
                                app_ids[known_id]
                                for known_id in step.item.app_ids
                                if known_id in app_ids
                            }
                        )
                    ),
                    may_edit_glue=step.item.role is Role.ADMINISTRATOR,
                )
                if step.action is ImportAction.CREATE:
                    self._add(session, step.item, rights, hashes, unknown)
                elif step.action is ImportAction.UPDATE and step.user is not None:
                    self._set_rights(session, step.user, rights)
                    self._remember(session, step.item, step.user)
            if store_passwords:
                store_passwords(
                    {step.item.name: passwords[step.item.name] for step in _created(steps)}
                )
            return [_user_outcome(step) for step in steps]

        return self._context.write(Right.ADMINISTER, unit)

    def _decide(self, session: Session, items: Sequence[ImportedUser]) -> list[_Step]:
        administrators = users.lock_administrators(session)
        known = {user.id: user for user in users.listing(session)}
        names = {user.name.casefold() for user in known.values()}
        imported = origins.read(session, self._source, USER)
        steps = []
        for item in items:
            origin = imported.get(item.source_id)
            user = known.get(origin.target_id) if origin else None
            if origin is None:
                is_taken = item.name.casefold() in names
                words = "a user with that name already existed here and is left unchanged"
                action = ImportAction.LEFT_OUT if is_taken else ImportAction.CREATE
                steps.append(_Step(action, item, None, words if is_taken else ""))
            elif user is None:
                steps.append(_Step(ImportAction.DELETED, item, None, "the user was deleted here"))
            else:
                step = self._known(origin, item, user, administrators)
                if step.demotes_administrator:
                    administrators.remove(user.name)
                steps.append(step)
        return steps

    def _known(
        self, origin: Origin, item: ImportedUser, user: User, administrators: Sequence[str]
    ) -> _Step:
        if origin.source_fingerprint == item.fingerprint:
            return _Step(ImportAction.UNCHANGED, item, user)
        if user.sso_until is not None:
            words = "the user's rights come from the rules of single sign-on"
            return _Step(ImportAction.LEFT_OUT, item, user, words)
        action, words = decide_change(origin, _fingerprint(user), overwrite=self._overwrite)
        step = _Step(action, item, user, words)
        if step.demotes_administrator and administrators == [user.name]:
            return _Step(ImportAction.CONFLICT, item, user, "no administrator would remain")
        return step

    def _set_rights(self, session: Session, user: User, rights: Rights) -> None:
        before = rights_record(users.rights_of(user))
        users.set_rights(user, rights)
        values = {"before": before, "after": rights_record(rights)}
        now_ms = self._context.now_ms()
        self._context.note(session, Action.USER_RIGHTS, user.name, user.id, now_ms, **values)

    def _add(
        self,
        session: Session,
        item: ImportedUser,
        rights: Rights,
        hashes: Mapping[str, str],
        unknown: str,
    ) -> None:
        user_id = users.add(session, item.name, hashes.get(item.name, unknown), rights)
        if user_id is None:
            return  # two names of the source differ only in capitals
        user = session.get_one(User, user_id)
        user.must_change_password = 1
        user.is_disabled = int(item.name not in hashes)
        session.flush()
        record = rights_record(rights)
        now_ms = self._context.now_ms()
        self._context.note(session, Action.USER_ADD, user.name, user.id, now_ms, after=record)
        self._remember(session, item, user)

    def _remember(self, session: Session, item: ImportedUser, user: User) -> None:
        origin = Origin(item.source_id, user.id, item.fingerprint, _fingerprint(user))
        origins.write(session, self._source, USER, [origin], now_ms=self._context.now_ms())


def _fingerprint(user: User) -> str:
    rights = users.rights_of(user)
    return digest([rights.role, rights.app_ids, rights.may_edit_glue])


def _created(steps: Sequence[_Step]) -> list[_Step]:
    return [step for step in steps if step.action is ImportAction.CREATE]


def _user_outcome(step: _Step) -> Outcome:
    return Outcome(
        action=step.action,
        what=USER,
        source_id=step.item.source_id,
        target_id=step.user.id if step.user else 0,
        name=step.item.name,
        words=step.words,
    )


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
