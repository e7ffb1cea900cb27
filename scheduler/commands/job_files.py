"""Applies a whole job file: apps, jobs and their children; deletes jobs that it no longer names.

The changes and mistakes of a file are found without locks; a dry run ends there. Then one
transaction makes the changes: it first creates new things, which no one waits for, and last changes
jobs that may be running, so that their rows are locked only briefly; those with the soonest ticks
come last. Under the lock that keeps two saves from making a circle, it checks again what others may
have changed. A job that needs no change is not checked again: a concurrent change of it counts as
later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from math import inf
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.calendars.calendar_spec import CalendarSpec, stored_specs
from warren.scheduler.commands.cluster_commands import app_record
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_changes import ChildChanges, JobChanges, NewJobs
from warren.scheduler.commands.job_edits import CREATED, UNCHANGED, Applied, ChangeAction
from warren.scheduler.commands.job_file_preview import (
    ENDED,
    STOPPED,
    Change,
    JobFile,
    JobFilePreview,
    Preview,
    app_change,
    app_changes,
    deletion,
    family_of,
    foresee_calendars,
    job_change,
    limit_changes,
    parts,
    store_calendars,
    write_app,
)
from warren.scheduler.commands.limit_commands import apply_limits
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.jobs.dependencies import KnownJobs, Name
from warren.scheduler.jobs.new_run import calendar_names
from warren.scheduler.jobs.places import BY_FILE, Origin
from warren.scheduler.jobs.records import DECLARED_IN, app_spec
from warren.scheduler.jobs.rules import check_new_app_name
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.limits import KnownLimits, LimitSpec, limits_of
from warren.scheduler.problems import Code, Problem, Refused, refusal
from warren.scheduler.schedules.working_days import day_of
from warren.sql.dialects.supported import of
from warren.sql.instants import moment
from warren.sql.jobs import due_jobs, job_file_rows, job_links, job_rows
from warren.sql.models import App
from warren.sql.registry import apps


class FileParts(NamedTuple):
    """What a job file declares."""

    apps: Sequence[AppSpec] = ()
    calendars: Sequence[CalendarSpec] = ()
    limits: Sequence[LimitSpec] = ()
    specs: Sequence[JobSpec] = ()


def stored_parts(
    session: Session, stored_apps: Iterable[App], specs: Sequence[JobSpec], today: date
) -> tuple[FileParts, list[str]]:
    """Return apps and jobs with the limits and calendars that the jobs name, to be exported.

    Also returns a line for each calendar that is left out since it has ended.
    """
    named = {name for spec in specs for name in spec.calendars}
    calendars, left_out = stored_specs(session, named, today)
    parts = FileParts(
        apps=[app_spec(app) for app in stored_apps],
        calendars=calendars,
        limits=limits_of(session, (spec.limits for spec in specs)),
        specs=specs,
    )
    return parts, left_out


class JobFileCommands:
    """Applies job files on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._preview = JobFilePreview(context)
        self._new_jobs = NewJobs(context)
        self._changes = JobChanges(context)
        self._children = ChildChanges(context)
        self._schedules = ScheduleChanges(context)

    def apply(
        self,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        limits: Sequence[LimitSpec] = (),
        dry_run: bool,
        prune: bool,
        origin: Origin = BY_FILE,
        calendars: Sequence[CalendarSpec] = (),
    ) -> list[Change]:
        """Make apps, limits and jobs match the specs, all or nothing; return the changes in order.

        Calendars are stored before the rest, once it is known that nothing is wrong with it.

        `prune` deletes what `specs` leaves out: of job files, the jobs of the named apps that are
        not declared in code; of code, the jobs that it declared before. `dry_run` changes nothing.
        Applying the same file again changes nothing. Limits are never deleted.

        Raises:
            Refused: an app does not exist for the actor, a job can never fire, is declared
                elsewhere, its param does not fit the params of its handler, its children are
                unknown or form a circle, or a job to be deleted is another job's child. The field
                of a job's problem begins with the job's position: `jobs/0/children`.

        """
        self._context.actor.demand(Right.OPERATE)
        if calendars:
            foreseen = foresee_calendars(self._context, calendars)
            known = {**self._context.declared_calendars, **foreseen.calendars}
            declared = replace(self._context, declared_calendars=known)
            how: dict[str, Any] = {"limits": limits, "prune": prune, "origin": origin}
            changes = JobFileCommands(declared).apply(wanted_apps, specs, dry_run=True, **how)
            if dry_run:
                return [*foreseen.changes, *changes]
            stored = store_calendars(self._context, foreseen)
            return [*stored, *self.apply(wanted_apps, specs, dry_run=False, **how)]
        wanted = specs
        specs = self._context.database.read(
            lambda session: self._startable(session, _as_kept(session, wanted))
        )
        file = JobFile(apps=wanted_apps, specs=specs, limits=limits, prune=prune, origin=origin)
        try:
            preview = self._context.database.read(lambda session: self._checked(session, file))
            if dry_run or all(
                change.action is ChangeAction.UNCHANGED for change in preview.changes
            ):
                return _with_causes(preview.changes, wanted, specs)
            done = self._context.write(
                Right.OPERATE, lambda session: self._apply(session, file, preview)
            )
            return _with_causes(done, wanted, specs)
        except Refused as refused:
            raise refusal([_placed(problem, specs) for problem in refused.problems]) from refused

    def _startable(self, session: Session, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
        """Return the jobs; those whose calendars have ended are neither started nor stopped.

        They would be refused, and the whole file with them, though only time has passed.
        """
        names = {spec.schedule_options.calendar for spec in specs if spec.enabled} - {""}
        if not names:
            return specs
        now_ms = self._context.now_ms()
        known = self._context.calendars(session, names)
        tomorrow = day_of(moment(now_ms).date()) + 1
        ending = {name for name, each in known.items() if each.newest.until_day < tomorrow}
        return [
            replace(spec, enabled=None)
            if spec.enabled
            and spec.schedule_options.calendar in ending
            and not self._schedules.has_tick(session, spec, now_ms)
            else spec
            for spec in specs
        ]

    def _checked(self, session: Session, file: JobFile) -> Preview:
        """Return what a file does, if the params of what it changes fit."""
        preview = self._preview.of(session, file)
        changing = {
            number: spec
            for number, spec in enumerate(file.specs)
            if preview.applied[number].action is not ChangeAction.UNCHANGED
        }
        names = {spec.app for spec in changing.values()}
        now_ms = self._context.now_ms()
        typed = TypedParams.read(session, names, now_ms)
        named = {name for spec in changing.values() for name in calendar_names(spec)}
        calendars = self._context.calendars(session, named)
        limited = [(number, spec) for number, spec in enumerate(file.specs) if spec.limits]
        known = KnownLimits.read(session, file.limits) if limited else KnownLimits({})
        problems = [
            problem.at(f"jobs/{number}/{problem.field}")
            for number, spec in changing.items()
            for problem in (
                *typed.problems_of(spec, now_ms, calendars),
                *self._schedules.problems_of(session, spec, now_ms),
            )
        ] + [
            problem.at(f"jobs/{number}/{problem.field}")
            for number, spec in limited
            for problem in known.problems_of(spec.limits)
        ]
        if problems:
            raise Refused(problems)
        return preview

    def _apply(self, session: Session, file: JobFile, preview: Preview) -> list[Change]:
        job_links.lock(session)
        changes, apps_by_name = self._apply_apps(session, file)
        app_ids = {name: app.id for name, app in apps_by_name.items()}
        job_ids, created = self._create(session, file, preview, app_ids)
        known, now_ms = KnownJobs(session), self._context.now_ms()
        families = {
            job_ids[number]: number
            for number in sorted(job_ids)
            if number in preview.linked
            or file.specs[number].children
            or file.specs[number].flow is not None
        }
        links = self._children.changes(
            known,
            [family_of(file.specs[number], item, app_ids) for item, number in families.items()],
        )
        places = self._places(session, file, job_ids)
        left_out = file.left_out(session, app_ids, self._context.actor)
        if left_out:
            self._children.refuse_orphans(known, left_out)
        # Everything is checked; from here on, rows are locked that others may need.
        new_ids = {job_ids[number] for number in created}
        self._children.write(session, [item for item in links if item.job_id in new_ids], now_ms)
        deleted = {
            job_id: self._changes.delete(session, job_rows.lock(session, job_id), now_ms)
            for job_id in left_out
        }
        applied = preview.applied | self._change(session, file, preview, job_ids, created)
        self._children.write(
            session, [item for item in links if item.job_id not in new_ids], now_ms
        )
        self._move(session, file, preview, job_ids, places)
        # Last, when the jobs take as much of them as the file says.
        changes += limit_changes(file.limits, apply_limits(session, self._context, file.limits))
        words = {families[item.job_id]: item.words for item in links}
        changes += [
            job_change(spec, applied[number], words.get(number), preview.moved.get(number, ""))
            for number, spec in enumerate(file.specs)
        ]
        return changes + [deletion(*left_out[job_id], runs) for job_id, runs in deleted.items()]

    def _apply_apps(self, session: Session, file: JobFile) -> tuple[list[Change], dict[str, App]]:
        """Create and change apps; return the changes, and all apps of the file by name.

        A session drops unreferenced objects, and every job's audit log entry needs its app.
        """
        changes, ids = [], {}
        known = apps.ids_by_name(session)
        for name, wanted in file.by_app().items():
            app = session.get_one(App, known[name]) if name in known else None
            words = () if app is None else app_changes(app, wanted)
            if app is None:
                check_new_app_name(name)
            if not self._context.actor.knows(known.get(name, 0)):
                raise Problem(Code.UNKNOWN_APP, got=name)
            if app is None or words:
                self._context.actor.demand(Right.ADMINISTER)
                before = None if app is None else app_record(app)
                change = app_change(name, is_new=app is None, words=words)
                app = write_app(session, name, wanted)
                self._note_app(session, change, app, before)
                changes.append(change)
            ids[name] = app
        return changes, ids

    def _note_app(
        self, session: Session, change: Change, app: App, before: dict[str, str] | None
    ) -> None:
        self._context.note(
            session,
            Action(f"app.{change.action}"),
            app.name,
            app.id,
            self._context.now_ms(),
            before=before,
            after=app_record(app),
        )

    def _create(
        self, session: Session, file: JobFile, preview: Preview, app_ids: Mapping[str, int]
    ) -> tuple[dict[int, int], set[int]]:
        """Create the jobs that do not exist; return the ids of all that change, and which are new.

        Both are by the numbers of the specs.
        """
        wanted = {
            number: file.specs[number]
            for number, done in preview.applied.items()
            if done is not UNCHANGED or number in preview.linked or number in preview.moved
        }
        names = [(spec.app, spec.name) for spec in wanted.values()]
        ids = KnownJobs(session).ids(names, app_ids)
        missing: dict[Name, int] = {}
        for number, spec in wanted.items():
            if (spec.app, spec.name) not in ids:
                missing.setdefault((spec.app, spec.name), number)
        now_ms = self._context.now_ms()
        new = [
            (
                app_ids[file.specs[number].app],
                preview.new.get(number)
                or self._new_jobs.prepare(session, file.specs[number], now_ms),
            )
            for number in missing.values()
        ]
        ids |= zip(missing, self._new_jobs.insert(session, new, now_ms), strict=True)
        job_ids = {number: ids[spec.app, spec.name] for number, spec in wanted.items()}
        return job_ids, set(missing.values())

    def _change(
        self,
        session: Session,
        file: JobFile,
        preview: Preview,
        job_ids: Mapping[int, int],
        created: set[int],
    ) -> dict[int, Applied]:
        """Change the jobs that exist; return the results for all that were to change.

        Those with the soonest ticks come last, as a planner passes over jobs that are locked.
        """
        applied = dict.fromkeys(created, CREATED)
        numbers = [
            number
            for number in sorted(job_ids)
            if number not in created and preview.applied[number] is not UNCHANGED
        ]
        ticks = due_jobs.next_ticks(session, {job_ids[number] for number in numbers})
        numbers.sort(key=lambda number: ticks.get(job_ids[number], inf), reverse=True)
        changing = [(number, file.specs[number]) for number in numbers]
        for part in parts(changing):
            these = [(job_ids[number], spec) for number, spec in part]
            done = self._changes.change(session, these, self._context.now_ms())
            applied |= zip((number for number, _ in part), done, strict=True)
        return applied

    def _places(
        self, session: Session, file: JobFile, job_ids: Mapping[int, int]
    ) -> dict[int, str]:
        """Return where jobs are declared, by id; raise Refused if it is elsewhere by now."""
        places = job_file_rows.declared_places(session, job_ids.values())
        wrong = [
            problem.at(f"jobs/{number}/name")
            for number, job_id in job_ids.items()
            if (problem := file.origin.problem(places.get(job_id)))
        ]
        if wrong:
            raise Refused(wrong)
        return places

    def _move(
        self,
        session: Session,
        file: JobFile,
        preview: Preview,
        job_ids: Mapping[int, int],
        places: Mapping[int, str],
    ) -> None:
        """Note where all jobs that were created or changed are declared from now on."""
        place = file.origin.place
        moving = [job_id for job_id in job_ids.values() if places.get(job_id) != place]
        job_file_rows.set_declared_place(session, moving, place)
        for number in preview.moved:
            spec = file.specs[number]
            self._context.note(
                session,
                Action.JOB_UPDATE,
                f"{spec.app}/{spec.name}",
                job_ids[number],
                self._context.now_ms(),
                before={DECLARED_IN: places.get(job_ids[number])},
                after={DECLARED_IN: place},
            )


def _placed(problem: Problem, specs: Sequence[JobSpec]) -> Problem:
    """Return a problem with the position of its job in `specs`, if the job is among them."""
    job = problem.facts.get("app"), problem.facts.get("job")
    for number, spec in enumerate(specs):
        if (spec.app, spec.name) == job:
            return problem.at(f"jobs/{number}/{problem.field}".rstrip("/"))
    return problem


def _as_kept(session: Session, specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Return jobs with params as the database keeps them: not every one keeps a NUL."""
    nul = of(session).nul
    return [
        # A script takes none; its job is refused.
        replace(spec, param=spec.param.replace("\0", nul))
        if "\0" in spec.param and not spec.script_language
        else spec
        for spec in specs
    ]


def _with_causes(
    changes: Sequence[Change], wanted: Sequence[JobSpec], startable: Sequence[JobSpec]
) -> list[Change]:
    """Return the changes, with the reason of new jobs that stay stopped since a calendar ended."""
    ended = {
        f"{spec.app}/{spec.name}"
        for spec, left in zip(wanted, startable, strict=True)
        if spec.enabled and left.enabled is None
    }
    return [
        replace(change, details=(ENDED,))
        if change.details == (STOPPED,) and change.name in ended
        else change
        for change in changes
    ]
