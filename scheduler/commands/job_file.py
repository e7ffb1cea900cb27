"""Applies a whole job file: apps, jobs and their children; deletes jobs that it no longer names.

Most files are applied again and again with few changes, so everything is first compared without a
lock. If anything differs, one transaction compares again and applies the changes, under the lock
that keeps two saves from making a circle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.alarms.targets import columns_of
from scheduler.commands.apps import app_record
from scheduler.commands.audit_log import Action
from scheduler.commands.child_changes import ChildChanges
from scheduler.commands.command_context import CommandContext
from scheduler.commands.job_changes import ChangeAction, JobChanges
from scheduler.commands.job_comparison import StoredJobs, is_app_as_described
from scheduler.jobs.rules import check_new_app_name
from scheduler.jobs.spec import AppSpec, JobSpec
from scheduler.problems import Code, Problem
from sql.alarms import recipients
from sql.batch import CHUNK, chunks
from sql.jobs import child_links, exports, jobs
from sql.models import App, Job
from sql.registry import apps

#: Bytes of a job file at most: some 70,000 jobs.
JOB_FILE_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying a job file does to one app or job.

    Attributes:
        what: app or job.
        name: the app's name, or APP/NAME.
        details: a line for each changed field.
        diff: the lines of a unified diff of the script.

    """

    action: ChangeAction
    what: str
    name: str
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


class JobFileCommands:
    """Applies job files on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._changes = JobChanges(context)
        self._children = ChildChanges(context)

    def apply(
        self,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        dry_run: bool,
        prune: bool,
    ) -> list[Change]:
        """Make apps and jobs match the specs, all or nothing; return the changes in order.

        `prune` deletes the jobs of the named apps that `specs` leaves out; `dry_run` changes
        nothing. Applying the same file again changes nothing.

        Raises:
            Problem: an app does not exist for the actor, a job can never fire, its children are
                unknown or form a circle, or a job to be deleted is another job's child. The field
                of a job's problem begins with the job's position: `jobs/0/children`.

        """
        self._context.actor.demand(Right.OPERATE)

        def unit(session: Session) -> list[Change]:
            changes = self._apply(session, wanted_apps, specs, prune=prune)
            if dry_run:
                session.rollback()
            return changes

        unchanged = self._context.database.read(
            lambda session: self._compare(session, wanted_apps, specs, prune=prune)
        )
        if unchanged is not None:
            return unchanged
        try:
            return self._context.write(Right.OPERATE, unit)
        except Problem as problem:
            raise _placed(problem, specs) from problem

    def _compare(
        self,
        session: Session,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        prune: bool,
    ) -> list[Change] | None:
        """Return the result of `apply` if nothing has to change, else None.

        It takes no lock, so that comparing a large file delays nobody.
        """
        known = {app.name: app for app in exports.apps(session)}
        wanted = _by_name(wanted_apps, specs)
        for name, spec in wanted.items():
            app = known.get(name)
            if (
                not app
                or not self._context.actor.knows(app.id)
                or not is_app_as_described(app, spec)
            ):
                return None
        app_ids = {app: known[app].id for app in wanted}
        stored = StoredJobs(session, app_ids)
        if not all(stored.are_as_described(part) for part in chunks(specs)):
            return None
        if prune and _left_out(session, app_ids, specs):
            return None
        return [_change(ChangeAction.UNCHANGED, spec) for spec in specs]

    def _apply(
        self,
        session: Session,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        prune: bool,
    ) -> list[Change]:
        child_links.lock(session)
        changes = []
        app_ids = {}
        known = apps.ids_by_name(session)
        for name, app in _by_name(wanted_apps, specs).items():
            if name not in known:
                check_new_app_name(name)
            before = app_record(session.get_one(App, known[name])) if name in known else None
            app_ids[name], words = _apply_app(session, name, app)
            if not self._context.actor.knows(app_ids[name]):
                raise Problem(Code.UNKNOWN_APP, got=name)
            if words or name not in known:
                self._context.actor.demand(Right.ADMINISTER)
                change = Change(action=ChangeAction.CREATE, what="app", name=name)
                if name in known:
                    change = replace(change, action=ChangeAction.UPDATE, details=words)
                changes.append(change)
                self._context.note(
                    session,
                    Action(f"app.{change.action}"),
                    name,
                    app_ids[name],
                    self._context.now_ms(),
                    before=before,
                    after=app_record(session.get_one(App, app_ids[name])),
                )
        # A session drops unreferenced objects, and every job's audit log entry needs its app.
        held = [session.get_one(App, app_id) for app_id in app_ids.values()]
        applied = [
            change for part in _parts(specs) for change in self._apply_jobs(session, app_ids, part)
        ]
        del held
        changes += self._link(session, specs, app_ids, applied)
        if prune:
            changes += self._prune(session, _left_out(session, app_ids, specs))
        return changes

    def _apply_jobs(
        self, session: Session, app_ids: Mapping[str, int], specs: Sequence[JobSpec]
    ) -> list[Change]:
        wanted = [(app_ids[spec.app], spec) for spec in specs]
        applied = self._changes.apply(session, wanted, self._context.now_ms())
        return [
            _change(one.action, spec, one.details, one.diff)
            for one, spec in zip(applied, specs, strict=True)
        ]

    def _link(
        self,
        session: Session,
        specs: Sequence[JobSpec],
        app_ids: dict[str, int],
        applied: Sequence[Change],
    ) -> list[Change]:
        """Set the children of jobs, after all jobs were created."""
        changes, linked = [], []
        parents = child_links.with_children(session)
        named = set(child_links.names(session, parents).values())
        for spec, change in zip(specs, applied, strict=True):
            if not spec.children and (spec.app, spec.name) not in named:
                changes.append(change)
                continue
            app_id = app_ids[spec.app]
            job_id, words = self._children.link(
                session, app_id, spec, self._context.now_ms(), parents=parents
            )
            changes.append(_also(change, words) if words else change)
            linked += [job_id] if words else []
        self._children.refuse_circles(session, linked)
        return changes

    def _prune(self, session: Session, left_out: Sequence[tuple[Job, str]]) -> list[Change]:
        if not left_out:
            return []
        self._children.refuse_orphans(session, {job.id for job, _ in left_out})
        for job, _ in left_out:
            self._changes.delete(session, jobs.lock(session, job.id), self._context.now_ms())
        return [
            Change(action=ChangeAction.DELETE, what="job", name=f"{app}/{job.name}")
            for job, app in left_out
        ]


def _placed(problem: Problem, specs: Sequence[JobSpec]) -> Problem:
    """Return a problem with the position of its job in `specs`, if the job is among them."""
    job = problem.facts.get("app"), problem.facts.get("job")
    for number, spec in enumerate(specs):
        if (spec.app, spec.name) == job:
            return problem.at(f"jobs/{number}/{problem.field}".rstrip("/"))
    return problem


def _by_name(wanted_apps: Sequence[AppSpec], specs: Sequence[JobSpec]) -> dict[str, AppSpec | None]:
    """Return all apps of a file by name; None for an app that only jobs name."""
    unnamed = dict.fromkeys(spec.app for spec in specs)
    return unnamed | {app.name: app for app in wanted_apps}


def _parts(specs: Iterable[JobSpec]) -> Iterator[list[JobSpec]]:
    """Give the jobs in order, some at a time; no part names a job twice."""
    part: dict[tuple[str, str], JobSpec] = {}
    for spec in specs:
        if len(part) == CHUNK or (spec.app, spec.name) in part:
            yield list(part.values())
            part = {}
        part[spec.app, spec.name] = spec
    yield list(part.values())


def _left_out(
    session: Session, app_ids: Mapping[str, int], specs: Sequence[JobSpec]
) -> list[tuple[Job, str]]:
    """Return the jobs of these apps that the file does not name, with their app's name."""
    kept = {(spec.app, spec.name) for spec in specs}
    return [
        (job, app)
        for job, app in jobs.listing(session)
        if app in app_ids and (app, job.name) not in kept
    ]


def _change(
    action: ChangeAction, spec: JobSpec, details: tuple[str, ...] = (), diff: tuple[str, ...] = ()
) -> Change:
    name = f"{spec.app}/{spec.name}"
    return Change(action=action, what="job", name=name, details=details, diff=diff)


def _also(change: Change, words: str) -> Change:
    """Return a change with another detail."""
    if change.action is ChangeAction.CREATE:
        return change
    is_switch = change.action in (ChangeAction.START, ChangeAction.STOP)
    state = (f"state: {change.action}",) if is_switch else change.details
    return replace(change, action=ChangeAction.UPDATE, details=(words, *state))


def _apply_app(session: Session, name: str, wanted: AppSpec | None) -> tuple[int, tuple[str, ...]]:
    """Create or change an app; return its id and the changed settings."""
    app_id, is_changed = apps.ensure(session, name, wanted.title if wanted else None)
    words = ["title"] if is_changed else []
    if wanted and apps.list_addresses(session, app_id, wanted.addresses):
        words.append(f"addresses: {', '.join(wanted.addresses) or 'all that register'}")
    columns = columns_of(wanted.alarm, wanted.webhook) if wanted else {}
    changed = recipients.set_app(session, app_id, columns)
    words += dict.fromkeys(column.partition("_")[0] for column in changed)
    return app_id, tuple(words)
