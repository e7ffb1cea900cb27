"""Previews what applying a job file would change, without locking anything.

Only `write_app` writes; applying the file calls it for each app.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.scheduler.actor import Actor, Right
from warren.scheduler.alarms.targets import columns_of
from warren.scheduler.calendars.calendar_spec import OVER, CalendarSpec
from warren.scheduler.commands.calendar_commands import (
    CalendarChange,
    CalendarCommands,
)
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_changes import (
    ChildChanges,
    JobChanges,
    NewJob,
    NewJobs,
    as_if_stored,
)
from warren.scheduler.commands.job_edits import (
    CREATED,
    UNCHANGED,
    Applied,
    ChangeAction,
    is_as_described,
    planned,
)
from warren.scheduler.commands.limit_commands import change_of, refuse_too_small
from warren.scheduler.jobs.dependencies import Family, KnownJobs, Name
from warren.scheduler.jobs.places import BY_FILE, IN_FILE, Origin, module_of
from warren.scheduler.jobs.records import app_spec
from warren.scheduler.jobs.rules import check_new_app_name, new_name_problems
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.schedules.reading import CalendarDays, load_calendars
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.schedules.run_date import zone_or_utc
from warren.scheduler.schedules.working_days import Calendar, Calendars
from warren.sql import limits
from warren.sql.alarms import alarms
from warren.sql.batch import CHUNK
from warren.sql.jobs import job_file_rows, job_links, job_names, job_rows
from warren.sql.models import App, Job
from warren.sql.models.job_tables import DEFAULT_ROUTE
from warren.sql.registry import apps
from warren.sql.run_status import Kind
from warren.sql.runs import planned_runs


def app_changes(app: App, wanted: AppSpec | None) -> tuple[str, ...]:
    """Return the settings of an app that are to change; `wanted` None = it only has to exist."""
    if wanted is None:
        return ()
    words = ["title"] if wanted.title not in (None, app.title) else []
    if app_spec(app).addresses != wanted.addresses:
        words.append(f"addresses: {', '.join(wanted.addresses) or 'all that register'}")
    if (app.route or "") != wanted.route:
        words.append(f"route: {wanted.route or DEFAULT_ROUTE}")
    differing = alarms.differing(app, columns_of(wanted.alarm, wanted.webhook))
    words += dict.fromkeys(column.partition("_")[0] for column in differing)
    return tuple(words)


def write_app(session: Session, name: str, wanted: AppSpec | None) -> App:
    """Create or change an app; return it."""
    app_id, _ = apps.ensure(session, name, wanted.title if wanted else None)
    if wanted:
        apps.list_addresses(session, app_id, wanted.addresses)
        apps.set_route(session, app_id, wanted.route)
        alarms.set_app(session, app_id, columns_of(wanted.alarm, wanted.webhook))
    return session.get_one(App, app_id)


#: Shown for a new job whose schedule does not run because the file does not enable it.
STOPPED = "stopped (enabled is not set)"
#: The same for one that the file enables, but whose calendar has ended.
ENDED = "stopped (its calendar has ended)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying a job file does to one app or job.

    Attributes:
        what: app, limit or job.
        name: the app's or limit's name, or APP/NAME.
        details: a line for each changed field; of a new job, that it does not run by itself.
        diff: the lines of a unified diff of the script.
        cancelled: how many planned runs it cancels; `details` say why.

    """

    action: ChangeAction
    what: str
    name: str
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()
    cancelled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A job file that has been read; with `prune`, jobs that it leaves out are deleted.

    Those that are declared in code are deleted only by what declares them.
    """

    apps: Sequence[AppSpec]
    specs: Sequence[JobSpec]
    limits: Sequence[LimitSpec] = ()
    prune: bool
    origin: Origin = BY_FILE

    def by_app(self) -> dict[str, AppSpec | None]:
        """Return all apps by name; None for an app that only jobs name."""
        unnamed = dict.fromkeys(spec.app for spec in self.specs)
        return unnamed | {app.name: app for app in self.apps}

    def left_out(
        self, session: Session, app_ids: Mapping[str, int], actor: Actor
    ) -> dict[int, tuple[str, str]]:
        """Return app and name of the jobs that are to be deleted, by id and in order."""
        if not self.prune:
            return {}
        kept = {(app_ids[spec.app], spec.name) for spec in self.specs}
        searched = self._searched(session, app_ids, actor)
        stored = job_file_rows.names_and_places(session, searched)
        left = [
            (searched[app_id], name, job_id)
            for job_id, app_id, name, place in stored
            if (app_id, name) not in kept and self._is_own(place)
        ]
        return {job_id: (app, name) for app, name, job_id in sorted(left)}

    def _searched(
        self, session: Session, app_ids: Mapping[str, int], actor: Actor
    ) -> dict[int, str]:
        """Return the apps, by id, in which jobs may have been left out."""
        if self.origin.place == IN_FILE:
            return {app_id: app for app, app_id in app_ids.items()}
        known = apps.ids_by_name(session, actor.app_ids)
        own = app_ids.keys() | {self.origin.app} if self.origin.app else known.keys()
        return {app_id: app for app, app_id in known.items() if app in own}

    def _is_own(self, place: str | None) -> bool:
        if self.origin.place == IN_FILE:
            return not module_of(place)
        return place == self.origin.place


def parts(specs: Iterable[tuple[int, JobSpec]]) -> Iterator[list[tuple[int, JobSpec]]]:
    """Yield the numbered jobs in order, in parts; no job is twice in a part."""
    part: dict[tuple[str, str], tuple[int, JobSpec]] = {}
    for number, spec in specs:
        if len(part) == CHUNK or (spec.app, spec.name) in part:
            yield list(part.values())
            part = {}
        part[spec.app, spec.name] = number, spec
    yield list(part.values())


def app_change(name: str, *, is_new: bool, words: tuple[str, ...]) -> Change:
    """Return the change of an app; a new one has no details."""
    if is_new:
        return Change(action=ChangeAction.CREATE, what="app", name=name)
    return Change(action=ChangeAction.UPDATE, what="app", name=name, details=words)


def job_change(spec: JobSpec, applied: Applied, children: str | None, place: str = "") -> Change:
    """Return the change of a job.

    `children` says what changes about its children, `place` about where it is declared.
    """
    name = f"{spec.app}/{spec.name}"
    change = Change(
        action=applied.action,
        what="job",
        name=name,
        details=applied.details,
        diff=applied.diff,
        cancelled=applied.cancelled,
    )
    if change.action is ChangeAction.CREATE:
        is_idle = spec.enabled is None and has_schedule(spec.schedule_kind)
        return replace(change, details=(STOPPED,)) if is_idle else change
    words = [text for text in (children, place) if text]
    if not words:
        return change
    is_switch = change.action in (ChangeAction.START, ChangeAction.STOP)
    state = (f"state: {change.action}",) if is_switch else ()
    return replace(change, action=ChangeAction.UPDATE, details=(*words, *state, *change.details))


def limit_changes(specs: Sequence[LimitSpec], actions: Sequence[ChangeAction]) -> list[Change]:
    return [
        Change(
            action=action,
            what="limit",
            name=spec.name,
            details=() if action is ChangeAction.UNCHANGED else (spec.words,),
        )
        for spec, action in zip(specs, actions, strict=True)
    ]


def deletion(app: str, name: str, cancelled: int) -> Change:
    """Return the change of a job that is deleted, which cancels planned runs."""
    return Change(
        action=ChangeAction.DELETE,
        what="job",
        name=f"{app}/{name}",
        details=(f"cancelled: {planned(cancelled)}",) if cancelled else (),
        cancelled=cancelled,
    )


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying a job file does; jobs are given by the numbers of their specs.

    Attributes:
        app_ids: by name; negative for apps that are to be created.
        changes: in order, unchanged jobs included.
        applied: the changes of jobs, apart from their children.
        new: the jobs that are to be created.
        linked: the jobs whose children change.
        moved: what changes about where jobs are declared.

    """

    app_ids: Mapping[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    applied: dict[int, Applied] = field(default_factory=dict)
    new: dict[int, NewJob] = field(default_factory=dict)
    linked: set[int] = field(default_factory=set)
    moved: dict[int, str] = field(default_factory=dict)


class JobFilePreview:
    """Compares job files with what is stored, on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._new_jobs = NewJobs(context)
        self._changes = JobChanges(context)
        self._children = ChildChanges(context)

    def of(self, session: Session, file: JobFile) -> Preview:
        """Return what applying a file does.

        Raises:
            Refused: as for `JobFileCommands.apply`.

        """
        preview = self._apps(session, file)
        preview.changes.extend(self._limits(session, file))
        job_ids = self._jobs(session, file, preview)
        known = KnownJobs(
            session,
            new_apps={app: app_id for app, app_id in preview.app_ids.items() if app_id < 0},
            new_jobs={
                job_ids[number]: (job.spec.app, job.spec.name)
                for number, job in preview.new.items()
            },
        )
        children = self._link(session, file, preview, job_ids, known)
        preview.changes.extend(
            job_change(
                spec, preview.applied[number], children.get(number), preview.moved.get(number, "")
            )
            for number, spec in enumerate(file.specs)
        )
        if left_out := file.left_out(session, preview.app_ids, self._context.actor):
            self._children.refuse_orphans(known, left_out)
            runs = Counter(planned_runs.of_jobs(session, left_out, Kind).values())
            preview.changes.extend(
                deletion(*name, runs[job_id]) for job_id, name in left_out.items()
            )
        return preview

    def _apps(self, session: Session, file: JobFile) -> Preview:
        actor = self._context.actor
        known = {app.name: app for app in job_file_rows.apps(session)}
        app_ids, changes = {}, []
        for number, (name, wanted) in enumerate(file.by_app().items(), 1):
            app = known.get(name)
            if app is None:
                check_new_app_name(name)
            app_ids[name] = -number if app is None else app.id
            if not actor.knows(app_ids[name]):
                raise Problem(Code.UNKNOWN_APP, got=name)
            words = () if app is None else app_changes(app, wanted)
            if app is None or words:
                actor.demand(Right.ADMINISTER)
                changes.append(app_change(name, is_new=app is None, words=words))
        return Preview(app_ids, changes)

    def _limits(self, session: Session, file: JobFile) -> list[Change]:
        if not file.limits:
            return []
        stored = {limit.name: limit for limit in limits.all_named(session) if limit.name}
        actions = [change_of(stored, spec) for spec in file.limits]
        if set(actions) - {ChangeAction.UNCHANGED}:
            self._context.actor.demand(Right.ADMINISTER)
        with_file = {(spec.app, spec.name) for spec in file.specs}
        refuse_too_small(session, file.limits, without=with_file)
        return limit_changes(file.limits, actions)

    def _jobs(self, session: Session, file: JobFile, preview: Preview) -> list[int]:
        """Add the changes of jobs, apart from their children; return the jobs' ids by number.

        Jobs that are to be created have negative ids.
        """
        named = Counter((spec.app, spec.name) for spec in file.specs)
        again: dict[Name, Job] = {}
        job_ids: list[int] = []
        elsewhere: list[Problem] = []
        for part in parts(enumerate(file.specs)):
            now_ms = self._context.now_ms()
            stored = self._stored(session, preview.app_ids, [spec for _, spec in part]) | again
            differing: dict[int, tuple[Job, JobSpec]] = {}
            for number, spec in part:
                job = stored.get((spec.app, spec.name))
                job_ids.append(-1 - number if job is None else job.id)
                place = None if job is None else job.declared_in
                if problem := file.origin.problem(place):
                    elsewhere.append(problem.at(f"jobs/{number}/name"))
                if job is not None and (words := file.origin.difference(place)):
                    preview.moved[number] = words
                if job is None:
                    new_name = new_name_problems(spec.name)
                    elsewhere += [problem.at(f"jobs/{number}/name") for problem in new_name]
                    preview.new[number] = self._new_jobs.prepare(session, spec, now_ms)
                    preview.applied[number] = CREATED
                elif is_as_described(job, spec):
                    preview.applied[number] = UNCHANGED
                else:
                    differing[number] = job, spec
                if named[spec.app, spec.name] > 1:
                    again[spec.app, spec.name] = as_if_stored(job_ids[-1], spec, job, now_ms)
            foreseen = self._changes.foresee(session, list(differing.values()), now_ms)
            preview.applied.update(zip(differing, foreseen, strict=True))
        if elsewhere:
            raise Refused(elsewhere)
        return job_ids

    def _stored(
        self, session: Session, app_ids: Mapping[str, int], specs: Sequence[JobSpec]
    ) -> dict[Name, Job]:
        keys = {(app_ids[spec.app], spec.name): spec for spec in specs if app_ids[spec.app] > 0}
        stored = job_names.find_many(session, keys)
        job_rows.read_sources(
            session, [job for key, job in stored.items() if keys[key].script_language]
        )
        return {(keys[key].app, keys[key].name): job for key, job in stored.items()}

    def _link(
        self,
        session: Session,
        file: JobFile,
        preview: Preview,
        job_ids: Sequence[int],
        known: KnownJobs,
    ) -> dict[int, str]:
        """Add the jobs whose children change; return a sentence about each."""
        parents = job_links.with_children(session) | known.stored_flows
        numbers = {
            job_ids[number]: number
            for number, spec in enumerate(file.specs)
            if spec.children or spec.flow is not None or job_ids[number] in parents
        }
        families = [
            family_of(file.specs[number], job_id, preview.app_ids)
            for job_id, number in numbers.items()
        ]
        links = self._children.changes(known, families)
        preview.linked.update(numbers[link.job_id] for link in links)
        return {numbers[link.job_id]: link.words for link in links if link.words}


def family_of(spec: JobSpec, job_id: int, app_ids: Mapping[str, int]) -> Family:
    """Return the children that a job is to have."""
    return Family(job_id, app_ids[spec.app], spec.app, spec.name, spec.children, spec.flow)


#: Jobs and due times of which each has a line.
MAX_LINES = 20


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The days of the calendars of job files, what they change, and the calendars with them."""

    days: Mapping[str, CalendarDays]
    of: Sequence[CalendarChange]
    calendars: Calendars
    zone: ZoneInfo

    @property
    def changes(self) -> list[Change]:
        """What would change, in words."""
        return [in_words(change, self.zone) for change in self.of]


def foresee_calendars(context: CommandContext, specs: Sequence[CalendarSpec]) -> Foreseen:
    """Return what the calendars of job files would change; nothing is stored.

    One whose days have all passed does not replace a stored one, which may know more.

    Raises:
        Problem: the actor may not change calendars, or a calendar makes no sense.

    """
    commands, zone = CalendarCommands(context), zone_or_utc(context.timezone)
    names = [spec.name for spec in specs]
    stored = context.database.read(lambda session: load_calendars(session, names))
    days = {spec.name: _days(commands, spec, stored) for spec in specs}
    changes = [
        commands.foresee(name, each) if each else CalendarChange(name=name)
        for name, each in days.items()
    ]
    calendars, known = dict(stored), {name: each for name, each in days.items() if each}
    for change in changes:
        if change.number:
            before = stored[change.name].versions if change.name in stored else ()
            version = known[change.name].version(change.number, change.effective_ms)
            calendars[change.name] = Calendar(change.name, (*before, version))
    return Foreseen(known, changes, calendars, zone)


def _days(commands: CalendarCommands, spec: CalendarSpec, stored: Calendars) -> CalendarDays | None:
    """Return the days of a calendar; None = they have passed, and the stored ones stay."""
    try:
        return commands.resolved(spec)
    except Problem as problem:
        if problem.code not in OVER:
            raise
    return None if spec.name in stored else commands.resolved(spec, even_over=True)


def store_calendars(context: CommandContext, foreseen: Foreseen) -> list[Change]:
    """Store the calendars that differ; return a change for each of all."""
    commands = CalendarCommands(context)
    return [
        in_words(commands.apply(change.name, foreseen.days[change.name]), foreseen.zone)
        if change.number
        else in_words(change, foreseen.zone)
        for change in foreseen.of
    ]


def in_words(change: CalendarChange, zone: ZoneInfo) -> Change:
    """Return a change of a calendar with a line for each job that it moves, and each lost tick."""
    if not change.number:
        return Change(action=ChangeAction.UNCHANGED, what="calendar", name=change.name)
    action = ChangeAction.CREATE if change.number == 1 else ChangeAction.UPDATE
    lines = [str(change.not_taken)] if change.not_taken else []
    lines += [
        f"{lost.app}/{lost.job}: {_shown(lost.tick_ms, zone)} has passed by then, and is skipped"
        for lost in change.lost
    ]
    lines += [
        f"{moved.app}/{moved.job}: next {_shown(moved.before_ms, zone)} -> "
        f"{_shown(moved.after_ms, zone)}"
        for moved in change.moved
    ]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more"]
    head = f"version {change.number}, known until {change.until}"
    return Change(action=action, what="calendar", name=change.name, details=(head, *lines))


def _shown(instant_ms: int | None, zone: ZoneInfo) -> str:
    if instant_ms is None:
        return "none"
    return f"{datetime.fromtimestamp(instant_ms / 1_000, zone):%Y-%m-%d %H:%M:%S %Z}"
