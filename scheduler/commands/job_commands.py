"""Commands on single jobs: create, change, delete, start and stop."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_changes import ChildChanges, JobChanges, NewJobs
from warren.scheduler.commands.job_edits import Applied, ChangeAction
from warren.scheduler.commands.schedule_changes import ScheduleChanges, Stopped
from warren.scheduler.jobs import dependencies, rules
from warren.scheduler.jobs.dependencies import KnownJobs
from warren.scheduler.jobs.new_run import calendar_names
from warren.scheduler.jobs.records import fingerprint, job_spec
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.limits import KnownLimits
from warren.scheduler.problems import Code, Problem, found, refusal, unknown_app
from warren.scheduler.schedules.explained import ChangedTimes, changed_by_rule
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import calendars_for
from warren.scheduler.schedules.registry import RULED_FROM_KINDS, RULED_KINDS, written
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.sql.batch import chunks
from warren.sql.jobs import history, job_links, job_names, job_rows
from warren.sql.models import App, Job
from warren.sql.models.job_tables import NO_SCHEDULE
from warren.sql.registry import apps

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OldRuleJob:
    """A job whose schedule follows an older rule, and what the newest one changes of its times.

    `schedule` is in the words of a job file.
    """

    id: int
    app: str
    name: str
    schedule: str
    timezone: str
    changed: ChangedTimes


class JobCommands:
    """Acts on jobs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._new_jobs = NewJobs(context)
        self._changes = JobChanges(context)
        self._schedules = ScheduleChanges(context)
        self._children = ChildChanges(context)

    def create(self, spec: JobSpec) -> int:
        """Create a job; return its id.

        Raises:
            Refused: the spec is invalid, or the app already has a job of that name.

        """

        def unit(session: Session) -> int:
            job_links.lock(session)
            own_apps = apps.ids_by_name(session, self._context.actor.app_ids)
            app_id = own_apps.get(spec.app, 0)
            self.check(session, spec, app_id, None)
            now_ms = self._context.now_ms()
            new = self._new_jobs.prepare(session, spec, now_ms)
            [job_id] = self._new_jobs.insert(session, [(app_id, new)], now_ms)
            self._children.link(session, app_id, spec, now_ms)
            return job_id

        return self._context.write(Right.OPERATE, unit)

    def update(
        self, job_id: int, spec: JobSpec, *, seen: str | None, enabled: bool | None = None
    ) -> Applied:
        """Change a job, but not its app; return what changed.

        Children that the actor may not see are kept.

        Args:
            job_id: the job.
            spec: its new state; `enabled` in it is ignored.
            seen: the `fingerprint` that the job must still have; None = do not check.
            enabled: whether to start or stop the job; None = neither.

        Raises:
            Refused: there is no such job, the spec is invalid, or the job has changed since.

        """

        def unit(session: Session) -> Applied:
            job_links.lock(session)
            job, stored, _ = self.read(session, job_id, lock=True)
            _check_seen(stored, seen)
            wanted = replace(spec, app=stored.app, enabled=enabled)
            self.check(session, wanted, job.app_id, job)
            now_ms = self._context.now_ms()
            old_name = job.name
            edit = self._changes.edit(session, job, wanted, now_ms)
            if job.name != old_name:
                self._changes.rename_in_flows(session, job, old_name, stored.app, now_ms)
            done = self._changes.switch(session, edit, now_ms)
            if self._children.link(session, job.app_id, wanted, now_ms):
                details = (*done.details, "children")
                return replace(done, action=ChangeAction.UPDATE, details=details)
            return done

        return self._context.write(Right.OPERATE, unit)

    def problems(self, spec: JobSpec, job_id: int = 0) -> Sequence[Problem]:
        """Return why a job could not be created, or changed to this, without doing it."""

        def unit(session: Session) -> None:
            own = self._context.job(session, job_id) if job_id else None
            known = apps.ids_by_name(session, self._context.actor.app_ids)
            self.check(session, spec, own.app_id if own else known.get(spec.app, 0), own)

        return found(lambda: self._context.database.read(unit))

    def foresee(self, job_id: int, schedule: ScheduleFacts, timezone: str) -> int:
        """Return how many planned runs of a job another schedule would cancel.

        Raises:
            Problem: there is no such job, or the schedule cannot be read or never fires.

        """

        def unit(session: Session) -> int:
            job, stored, _ = self.read(session, job_id)
            wanted = replace(
                stored,
                schedule_kind=schedule.kind,
                schedule_value=schedule.value,
                schedule_options=ScheduleOptions.from_json(schedule.options),
                timezone=timezone,
                enabled=None,
            )
            [foreseen] = self._changes.foresee(session, [(job, wanted)], self._context.now_ms())
            return foreseen.cancelled

        return self._context.database.read(unit)

    def delete(self, job_ids: Collection[int], *, seen: str | None = None) -> dict[str, int]:
        """Delete jobs, all or none; return how many planned runs of each that cancels, by APP/NAME.

        `seen` is the `fingerprint` that each must still have; None = do not check.

        Raises:
            Problem: a job does not exist, has changed, or is the child of a job that stays.

        """

        def unit(session: Session) -> dict[str, int]:
            job_links.lock(session)
            to_delete = [
                self._context.job(session, job_id, lock=True) for job_id in sorted(set(job_ids))
            ]
            if seen is not None:
                for job in to_delete:
                    _check_seen(self.read(session, job.id)[1], seen)
            self._children.refuse_orphans(KnownJobs(session), {job.id for job in to_delete})
            names = [f"{self._app(session, job).name}/{job.name}" for job in to_delete]
            cancelled = [
                self._changes.delete(session, job, self._context.now_ms()) for job in to_delete
            ]
            return dict(zip(names, cancelled, strict=True))

        return self._context.write(Right.OPERATE, unit)

    def start(self, job_id: int) -> bool:
        """Start a job's schedule; return False if it is already started.

        Raises:
            Problem: there is no such job, it has no schedule, or one that can never fire.

        """
        return self._switch(job_id, Action.JOB_START, self._schedules.start)

    def stop(self, job_id: int) -> Stopped | None:
        """Stop a job's schedule and cancel its planned runs; return None if already stopped.

        Raises:
            Problem: there is no such job.

        """
        return self._switch(job_id, Action.JOB_STOP, self._schedules.stop)

    def with_old_rules(self, app: str | None = None) -> list[OldRuleJob]:
        """Return the jobs, all or of an app, whose schedules follow an older rule.

        Those that cannot be read are left out: they stop, whatever their rule.

        Raises:
            Problem: there is no such app.

        """

        def unit(session: Session) -> list[OldRuleJob]:
            now_ms, usual = self._context.now_ms(), self._schedules.zone(session, None)
            known = apps.ids_by_name(session, self._context.actor.app_ids)
            found = [
                row
                for row in job_rows.without_rule(
                    session,
                    kinds=RULED_KINDS,
                    dated=RULED_FROM_KINDS,
                    app_ids=known.values() if app is None else [self._app_id(session, app)],
                )
                if self._context.actor.knows_job(row.app_id, row.id)
            ]
            calendars = calendars_for(session, found)
            changes = cache(partial(changed_by_rule, now_ms=now_ms, calendars=calendars))
            old = []
            for row in found:
                facts = ScheduleFacts.of(row, row.timezone or usual)
                # Only a rate continues from its next tick; crons are alike, and computed once.
                is_going = row.is_enabled and row.schedule_kind not in RULED_KINDS
                try:
                    changed = changes(facts, next_ms=row.next_tick_at if is_going else 0)
                except ValueError:
                    continue
                words = written(row.schedule_kind, row.schedule_value, row.schedule_options)
                old.append(OldRuleJob(row.id, row.app, row.name, words, facts.timezone, changed))
            return old

        return self._context.database.read(unit)

    def follow_rules(self, job_ids: Iterable[int]) -> int:
        """Have the schedules of jobs follow the newest rule; return how many did not before.

        Jobs that are gone, or that the actor may not see, are left out.
        """

        def unit(session: Session, part: Collection[int]) -> int:
            known = [
                job
                for job in job_rows.by_ids(session, part).values()
                if self._context.actor.knows_job(job.app_id, job.id)
            ]
            # Held, as the audit log asks for the app of each job.
            owners = {app_id: session.get_one(App, app_id) for app_id in {j.app_id for j in known}}
            names = {job.id: owners[job.app_id].name for job in known}
            return len(self._changes.follow_rules(session, names, self._context.now_ms()))

        parts = chunks(sorted(set(job_ids)))
        return sum(self._context.write(Right.OPERATE, partial(unit, part=part)) for part in parts)

    def undo_stop(self, job_id: int, *, stopped: range) -> bool:
        """Start a schedule that this actor stopped within `stopped`, in epoch milliseconds.

        Returns False if the schedule has changed since.

        Raises:
            Problem: as for `start`.

        """

        def act(session: Session, job: Job, now_ms: int) -> bool:
            last = history.last_change(session, job.id)
            if last is None or last.enabled or last.changed_at not in stopped:
                return False
            is_own = last.changed_by == self._context.actor.who
            return is_own and self._schedules.start(session, job, now_ms)

        return self._switch(job_id, Action.JOB_START, act)

    def read(
        self, session: Session, job_id: int, *, lock: bool = False
    ) -> tuple[Job, JobSpec, tuple[str, ...]]:
        """Return a job, its spec, and the names of its children that the actor may not see.

        Raises:
            Problem: there is no such job.

        """
        job = self._context.job(session, job_id, lock=lock)
        [(spec, hidden)] = self._specs(session, [job])
        return job, spec, hidden

    def read_many(self, session: Session, job_ids: Sequence[int]) -> dict[int, tuple[Job, JobSpec]]:
        """Return jobs with their specs by id, without those that the actor may not see."""
        jobs = [
            job
            for job in job_rows.by_ids(session, job_ids).values()
            if self._context.actor.knows_job(job.app_id, job.id)
        ]
        job_rows.read_sources(session, jobs)
        specs = self._specs(session, jobs)
        return {job.id: (job, spec) for job, (spec, _) in zip(jobs, specs, strict=True)}

    def _specs(
        self, session: Session, jobs: Sequence[Job]
    ) -> list[tuple[JobSpec, tuple[str, ...]]]:
        """Return the specs of jobs, and the names of their children that the actor may not see."""
        children = job_links.children(session, [job.id for job in jobs])
        named = job_names.by_ids(session, {child for ids in children.values() for child in ids})
        own = apps.ids_by_name(session, self._context.actor.app_ids)
        specs = []
        for job in jobs:
            seen: list[str] = []
            hidden: list[str] = []
            for child in (named[id_] for id_ in children.get(job.id, ()) if id_ in named):
                app_id = own.get(child.app)
                is_seen = app_id is not None and self._context.actor.knows_job(app_id, child.id)
                listed = seen if is_seen else hidden
                listed.append(f"{child.app}/{child.name}")
            specs.append((job_spec(job, self._app(session, job).name, seen), tuple(hidden)))
        return specs

    def _switch(self, job_id: int, action: Action, act: Callable[[Session, Job, int], T]) -> T:
        """Act on a job, and note it if `act` returns something true."""

        def unit(session: Session) -> T:
            job, now_ms = self._context.job(session, job_id, lock=True), self._context.now_ms()
            if done := act(session, job, now_ms):
                self._context.note_job(session, action, job, now_ms)
            return done

        return self._context.write(Right.OPERATE, unit)

    def check(self, session: Session, spec: JobSpec, app_id: int, own: Job | None) -> None:
        """Refuse a job that is invalid; `own` is the one that it replaces.

        Raises:
            Refused: with all that is wrong.

        """
        problems = rules.problems(
            spec, now_ms=self._context.now_ms(), added_routes=self._context.added_routes
        )
        if own is None or own.name != spec.name:
            problems += rules.new_name_problems(spec.name)
        if own is None or _params(own) != _params(spec):
            now_ms = self._context.now_ms()
            known = self._context.calendars(session, calendar_names(spec))
            typed = TypedParams.read(session, [spec.app], now_ms)
            problems += typed.problems_of(spec, now_ms, known)
        problems += self._schedules.problems_of(
            session, spec, self._context.now_ms(), is_sound=not problems
        )
        problems += KnownLimits.read(session).problems_of(spec.limits) if spec.limits else ()
        namesake = job_names.find_in_app(session, app_id, spec.name)
        if namesake is not None and (own is None or namesake.id != own.id):
            facts = {"app": spec.app, "name": spec.name}
            problems.append(Problem(Code.JOB_NAME_TAKEN, "name", **facts))
        own_apps = apps.ids_by_name(session, self._context.actor.app_ids)
        if own is None and spec.app not in own_apps:
            if all(problem.field != "app" for problem in problems):
                problems.append(unknown_app(spec.app, own_apps))
        else:
            children = dependencies.find(session, app_id, spec.children, own_apps)
            jobs = KnownJobs(session)
            for child, child_id in zip(spec.children, children, strict=True):
                if child_id is None:
                    near = jobs.nearest(child, (spec.app, spec.name), own_apps)
                    code = Code.UNKNOWN_CHILD_NEAR if near else Code.UNKNOWN_CHILD
                    problems.append(Problem(code, "children", got=child[:100], near=near))
        if problems:
            raise refusal(problems)

    def _app_id(self, session: Session, name: str) -> int:
        known = apps.ids_by_name(session, self._context.actor.app_ids)
        if name not in known:
            raise unknown_app(name, known)
        return known[name]

    def _app(self, session: Session, job: Job) -> App:
        return session.get_one(App, job.app_id)


def _check_seen(stored: JobSpec, seen: str | None) -> None:
    if seen is not None and fingerprint(stored) != seen:
        raise Problem(Code.JOB_CHANGED, job=f"{stored.app}/{stored.name}")


def _params(job: Job | JobSpec) -> tuple[str, str, str, bool]:
    """Return what decides whether the params of a job fit."""
    has_schedule = job.schedule_kind != NO_SCHEDULE
    return job.handler or "", job.param or "", job.param_template or "", has_schedule
